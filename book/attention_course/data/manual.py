"""English prose that needs no download: Python's own manual, in passages of one length."""

from collections.abc import Iterable
from pydoc_data.topics import topics

from companion._checks import check_positive


def texts() -> list[str]:
    """The articles of Python's ``help()``, sorted by their names, each on one line."""
    return [" ".join(topics[name].split()) for name in sorted(topics)]


def passages(texts: Iterable[str], length: int) -> list[str]:
    """The texts cut into passages of ``length`` characters; shorter remainders are dropped.

    Raises:
        TypeError: the length is not an integer.
        ValueError: it is below 1.

    Example:
        >>> passages(["abcdefg", "hij"], 3)
        ['abc', 'def', 'hij']
    """
    check_positive(length=length)
    return [
        text[first : first + length]
        for text in texts
        for first in range(0, len(text) - length + 1, length)
    ]
