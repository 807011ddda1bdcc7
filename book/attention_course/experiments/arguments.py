"""Numbers on the command line, checked before anything is computed.

Each function has the bounds within which an experiment can run, and its error states
them.
"""

from argparse import ArgumentTypeError

#: The most rows, steps or words. More cannot be counted in an index of 32 bits.
_MOST = 2**31 - 1


def positive(text: str) -> int:
    """A number of steps, examples or words: from 1 to 2³¹ − 1."""
    return _within(text, 1, _MOST)


def size(text: str) -> int:
    """The number of dimensions of a vector: from 1 to 65,536."""
    return _within(text, 1, 65_536)


def count(text: str) -> int:
    """A number of layers, heads, hypotheses or positions in a window: from 1 to 1,000."""
    return _within(text, 1, 1000)


def seed(text: str) -> int:
    """A seed that all random generators accept: from 0 to 2³¹ − 1."""
    return _within(text, 0, _MOST)


def fraction(text: str) -> float:
    """A number p with 0 ≤ p < 1."""
    number = float(text)
    if not 0 <= number < 1:
        raise ArgumentTypeError(f"{text} is not at least 0 and below 1")
    return number


def rate(text: str) -> float:
    """A learning rate: above 0, at most 10."""
    number = float(text)
    if not 0 < number <= 10:
        raise ArgumentTypeError(f"{text} is not above 0 and at most 10")
    return number


def length_penalty(text: str) -> float:
    """A length penalty: from 0 to 30. Above 33, scores of 60 tokens would vanish."""
    number = float(text)
    if not 0 <= number <= 30:
        raise ArgumentTypeError(f"{text} is not from 0 to 30")
    return number


def _within(text: str, least: int, most: int) -> int:
    number = int(text)
    if not least <= number <= most:
        raise ArgumentTypeError(f"{text} is not from {least} to {most}")
    return number
