"""Numbers on the command line, each refused where it is read, before anything has been computed."""

import math
from argparse import ArgumentTypeError


def positive(text: str) -> int:
    """A whole number of at least 1.

    Raises:
        argparse.ArgumentTypeError: it is below 1.
        ValueError: the text is no whole number.
    """
    return _at_least(1, text)


def natural(text: str) -> int:
    """A whole number of at least 0.

    Raises:
        argparse.ArgumentTypeError: it is below 0.
        ValueError: the text is no whole number.
    """
    return _at_least(0, text)


def share(text: str) -> float:
    """A number p with 0 ≤ p < 1.

    Raises:
        argparse.ArgumentTypeError: it is outside.
        ValueError: the text is no number.
    """
    number = float(text)
    if not 0 <= number < 1:
        raise ArgumentTypeError(f"{number} is not a share from 0 to below 1")
    return number


def rate(text: str) -> float:
    """A finite number above 0.

    Raises:
        argparse.ArgumentTypeError: it is not.
        ValueError: the text is no number.
    """
    number = float(text)
    if not 0 < number < math.inf:
        raise ArgumentTypeError(f"{number} is not a finite number above 0")
    return number


def penalty(text: str) -> float:
    """A finite number of at least 0.

    Raises:
        argparse.ArgumentTypeError: it is not.
        ValueError: the text is no number.
    """
    number = float(text)
    if not 0 <= number < math.inf:
        raise ArgumentTypeError(f"{number} is not a finite number from 0 on")
    return number


def _at_least(least: int, text: str) -> int:
    number = int(text)
    if number < least:
        raise ArgumentTypeError(f"{number} is below {least}")
    return number
