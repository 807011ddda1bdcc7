"""Names and descriptions from Python libraries, in pairs with few words in common.

The name is that of a function, class or module of a library, in words, and the
description is the start of its docstring: ("to", "polygons") and ("convert", "this",
"path", "to", "a", "list", …).
"""

import random
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from attention_course.data.docstrings import Document

LONGEST = 25  #: the most words of a description


class NamePair(NamedTuple):
    """A name and a description, and whether the one belongs to the other."""

    name: tuple[str, ...]
    description: tuple[str, ...]
    belong: bool


def name_pairs(documents: Sequence[Document], seed: int) -> list[NamePair]:
    """Each description with its own name, and with another name sampled from its file.

    Left out are documents whose name is a single word, and those without another such
    name in their file. A name that some document has with the same description does not
    count as another. Half of the pairs belong together, so that guessing is right half
    of the time.
    """
    own = {(document.name, document.words[:LONGEST]) for document in documents}
    by_file: dict[tuple[str, str], list[Document]] = defaultdict(list)
    for document in documents:
        if len(document.name) > 1:
            by_file[document.library, document.file].append(document)
    generator, pairs = random.Random(seed), list[NamePair]()
    for in_file in by_file.values():
        names = sorted({document.name for document in in_file})
        for document in in_file:
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
