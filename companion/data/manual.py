"""English prose that needs no download: the manual that Python has with it, as passages of one length."""

from collections.abc import Iterable
from pydoc_data.topics import topics


def texts() -> list[str]:
    """The articles of Python's own ``help()``, by the alphabet of their names, each on one line."""
    return [" ".join(topics[name].split()) for name in sorted(topics)]


def passages(texts: Iterable[str], length: int) -> list[str]:
    """The texts cut into passages of ``length`` characters; what is left at a text's end is left out.

    Raises:
        ValueError: the length is below 1.
    """
    if length < 1:
        raise ValueError(f"a passage has at least one character, not {length}")
    return [
        text[first : first + length]
        for text in texts
        for first in range(0, len(text) - length + 1, length)
    ]
