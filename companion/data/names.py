"""Does this description belong to this name? Pairs of short real texts that share few words.

The name is that of a function, class or module of a library, in words, and the description the beginning of
its docstring: ("to", "polygons") and ("convert", "this", "path", "to", "a", "list", …).
"""

import random
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from companion.data.docstrings import Document

LONGEST = 25  #: words of a description


class NamePair(NamedTuple):
    """A name and a description, and whether the one belongs to the other."""

    name: tuple[str, ...]
    description: tuple[str, ...]
    belong: bool


def name_pairs(documents: Sequence[Document], seed: int) -> list[NamePair]:
    """Each description with its own name, and with another name drawn from the same file.

    Left out are documents whose name is a single word, and those with no other such name in their file: a
    name that some document has with the same description is no other one. Half of the pairs belong together,
    so guessing is right half of the time.

    Raises:
        ValueError: no file has two names.
    """
    own = {(document.name, document.words[:LONGEST]) for document in documents}
    of_file: dict[tuple[str, str], list[Document]] = defaultdict(list)
    for document in documents:
        if len(document.name) > 1:
            of_file[document.library, document.file].append(document)
    generator, pairs = random.Random(seed), list[NamePair]()
    for together in of_file.values():
        names = sorted({document.name for document in together})
        for document in together:
            description = document.words[:LONGEST]
            others = [name for name in names if (name, description) not in own]
            if others:
                pairs.append(NamePair(document.name, description, True))
                pairs.append(NamePair(generator.choice(others), description, False))
    if not pairs:
        raise ValueError(
            f"none of the files of these {len(documents)} documents has two names"
        )
    return pairs
