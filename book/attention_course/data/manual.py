"""English prose that needs no download: Python's own manual, in passages of one length."""

from collections.abc import Iterable
from pydoc_data.topics import topics


def texts() -> list[str]:
    """The articles of Python's ``help()``, sorted by their names, each on one line."""
    return [" ".join(topics[name].split()) for name in sorted(topics)]


def passages(texts: Iterable[str], length: int) -> list[str]:
    """The texts cut into passages of ``length`` characters; shorter remainders are dropped.

    Example:
        >>> passages(["abcdefg", "hij"], 3)
        ['abc', 'def', 'hij']
    """
    return [
        text[first : first + length]
        for text in texts
        for first in range(0, len(text) - length + 1, length)
    ]
