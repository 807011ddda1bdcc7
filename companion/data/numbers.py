"""Number words of one language into another's: real language, without limit, and exactly checkable.

An English number becomes French words ("ninety-seven", *quatre vingt dix sept*: two words become four) or
German letters ("twenty-three", *dreiundzwanzig*: tens and units change places). The words are num2words'.
"""

import random
from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from num2words import num2words

LARGEST = 10**12 - 1  #: the largest number that is put into words
LONGEST_FRENCH = 27  #: the most French words that one of them has


class Pair(NamedTuple):
    """A number, in the tokens of the two languages."""

    number: int
    source: tuple[str, ...]
    target: tuple[str, ...]


def english_words(number: int) -> tuple[str, ...]:
    """The English words of a number, without hyphens and commas: 97 is ``("ninety", "seven")``.

    Raises:
        ValueError: the number is not between 1 and 999,999,999,999.
    """
    words = _words_by_thousands(number, "en")
    if number > 1000 and 0 < number % 1000 < 100:
        last = len(_words(number % 1000, "en"))
        return (*words[:-last], "and", *words[-last:])
    return words


def french_words(number: int) -> tuple[str, ...]:
    """The French words of a number, without hyphens: 97 is ``("quatre", "vingt", "dix", "sept")``.

    Raises:
        ValueError: the number is not between 1 and 999,999,999,999.
    """
    return _words_by_thousands(number, "fr")


def german_characters(number: int) -> tuple[str, ...]:
    """The letters of a German number word: 23 is d, r, e, i, u, n, d, z, w, a, n, z, i, g.

    Raises:
        ValueError: the number is not between 1 and 999,999,999,999.
    """
    _check_number(number)
    return tuple(_spoken(number, "de"))


def french_pairs(count: int, seed: int) -> list[Pair]:
    """English words with French words, every French length from 1 to 27 words (nearly) equally often.

    Short numbers are few, so they come again and again; :func:`split` keeps repetitions together. Among the
    numbers of one length, those of up to 3, 6, 9 and 12 digits are drawn equally often, where there are any.

    Raises:
        ValueError: the count is below 1.
    """
    generator = random.Random(seed)
    lengths = [1 + i % LONGEST_FRENCH for i in range(_checked_count(count))]
    generator.shuffle(lengths)
    numbers = [_number_of_length(length, generator) for length in lengths]
    return [
        Pair(number, english_words(number), french_words(number)) for number in numbers
    ]


def german_pairs(count: int, seed: int) -> list[Pair]:
    """English words with German letters, for numbers up to 9,999.

    Numbers of 1, 2, 3 and 4 digits are drawn as 1 : 2 : 3 : 4. (Drawn equally, ninety-nine in a hundred
    numbers would have three digits or more, and short words would never be learnt.)

    Raises:
        ValueError: the count is below 1.
    """
    generator = random.Random(seed)
    digits = generator.choices(
        (1, 2, 3, 4), weights=(1, 2, 3, 4), k=_checked_count(count)
    )
    numbers = [generator.randrange(10 ** (d - 1), 10**d) for d in digits]
    return [
        Pair(number, english_words(number), german_characters(number))
        for number in numbers
    ]


def split(
    pairs: Sequence[Pair], share: float, seed: int
) -> tuple[list[Pair], list[Pair]]:
    """Pairs to train on, and pairs with other numbers to test with: a ``share`` of every target length's.

    A number is in one of the two only. Training pairs may repeat, those held out do not.

    Raises:
        ValueError: the share is not between 0 and 1, or so small that nothing would be held out.
    """
    if not 0 < share < 1:
        raise ValueError(
            f"the share to hold out must lie between 0 and 1, but is {share}"
        )
    of_length: dict[int, dict[int, Pair]] = defaultdict(dict)
    for pair in pairs:
        of_length[len(pair.target)][pair.number] = pair
    generator = random.Random(seed)
    held_out = [
        pair
        for _, same_length in sorted(of_length.items())
        for pair in generator.sample(
            list(same_length.values()), round(share * len(same_length))
        )
    ]
    if not held_out:
        raise ValueError(f"a share of {share} of {len(pairs)} pairs holds nothing out")
    numbers = {pair.number for pair in held_out}
    return [pair for pair in pairs if pair.number not in numbers], held_out


@cache
def _spoken(number: int, language: str) -> str:
    return num2words(number, lang=language)


@cache
def _words(number: int, language: str) -> tuple[str, ...]:
    return tuple(_spoken(number, language).replace("-", " ").replace(",", "").split())


def _words_by_thousands(number: int, language: str) -> tuple[str, ...]:
    """The words of a number, put together from those of its millions, thousands …: there are few of them."""
    _check_number(number)
    parts = (number // 1000**place % 1000 * 1000**place for place in (3, 2, 1, 0))
    return tuple(word for part in parts if part for word in _words(part, language))


def _check_number(number: int) -> None:
    if not 1 <= number <= LARGEST:
        raise ValueError(f"{number} is not between 1 and {LARGEST:,}")


def _checked_count(count: int) -> int:
    if count < 1:
        raise ValueError(f"at least one pair must be asked for, not {count}")
    return count


@cache
def _groups_of_length(place: int) -> dict[int, list[int]]:
    """The groups 0 to 999 by the number of words that they have at this place (0: units, 1: thousands …)."""
    groups = defaultdict(list, {0: [0]})
    for group in range(1, 1000):
        groups[len(_words(group * 1000**place, "fr"))].append(group)
    return dict(groups)


@cache
def _numbers_of_length(length: int, places: int) -> int:
    """How many numbers with at most this many groups of three digits have this many French words."""
    if places == 0:
        return int(length == 0)
    groups = _groups_of_length(places - 1)
    return sum(
        len(same) * _numbers_of_length(length - words, places - 1)
        for words, same in groups.items()
    )


def _number_of_length(length: int, generator: random.Random) -> int:
    places = generator.choice(
        [p for p in (1, 2, 3, 4) if _numbers_of_length(length, p)]
    )
    number = 0
    for place in reversed(range(places)):
        groups = _groups_of_length(place)
        ways = [
            len(same) * _numbers_of_length(length - words, place)
            for words, same in groups.items()
        ]
        words = generator.choices(list(groups), ways)[0]
        number += generator.choice(groups[words]) * 1000**place
        length -= words
    return number
