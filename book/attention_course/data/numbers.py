"""Number words and their translations: unlimited real language, exactly checkable.

An English number becomes French words ("ninety-seven", *quatre vingt dix sept*: two words
become four) or German letters ("twenty-three", *dreiundzwanzig*: tens and units change
order). The words are num2words'.
"""

import random
from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from companion._checks import needs_extra

with needs_extra("book"):
    from num2words import num2words

LARGEST = 10**12 - 1  #: the largest number that is put into words
LONGEST_FRENCH = 27  #: the most French words that a number has


class Pair(NamedTuple):
    """A number, as tokens of the source and of the target language."""

    number: int
    source: tuple[str, ...]
    target: tuple[str, ...]


def english_words(number: int) -> tuple[str, ...]:
    """The English words of a number, without hyphens and commas.

    Example:
        >>> english_words(97)
        ('ninety', 'seven')
    """
    words = _words_by_thousands(number, "en")
    if number > 1000 and 0 < number % 1000 < 100:
        last = len(_words(number % 1000, "en"))
        return (*words[:-last], "and", *words[-last:])
    return words


def french_words(number: int) -> tuple[str, ...]:
    """The French words of a number, without hyphens.

    Example:
        >>> french_words(97)
        ('quatre', 'vingt', 'dix', 'sept')
    """
    return _words_by_thousands(number, "fr")


def german_characters(number: int) -> tuple[str, ...]:
    """The letters of a German number word.

    Example:
        >>> "".join(german_characters(23))
        'dreiundzwanzig'
    """
    return tuple(_spoken(number, "de"))


def french_pairs(count: int, seed: int) -> list[Pair]:
    """English words with French words; the French lengths, 1 to 27, are equally frequent.

    There are few short numbers, so that they occur repeatedly; :func:`split` keeps
    repetitions on one side. Among the numbers of one length, those of up to 3, 6, 9 and
    12 digits are sampled with equal probability, where they exist.
    """
    generator = random.Random(seed)
    lengths = [1 + i % LONGEST_FRENCH for i in range(count)]
    generator.shuffle(lengths)
    numbers = [_number_of_length(length, generator) for length in lengths]
    return [
        Pair(number, english_words(number), french_words(number)) for number in numbers
    ]


def german_pairs(count: int, seed: int) -> list[Pair]:
    """English words with German letters, for numbers up to 9,999.

    The numbers of 1, 2, 3 and 4 digits are sampled in the proportions 1 : 2 : 3 : 4. If
    all numbers had the same probability, 99 % would have three digits or more, and short
    words would not be learned.
    """
    generator = random.Random(seed)
    digits = generator.choices((1, 2, 3, 4), weights=(1, 2, 3, 4), k=count)
    numbers = [generator.randrange(10 ** (d - 1), 10**d) for d in digits]
    return [
        Pair(number, english_words(number), german_characters(number))
        for number in numbers
    ]


def split(
    pairs: Sequence[Pair], fraction: float, seed: int
) -> tuple[list[Pair], list[Pair], list[Pair]]:
    """Training, validation and test pairs.

    Every number is in one of the sets only. Training pairs may repeat, the others do not.

    Args:
        fraction: of the different numbers of each target length, the part to hold out,
            half of it for validation and half for testing.
    """
    by_length: dict[int, dict[int, Pair]] = defaultdict(dict)
    for pair in pairs:
        by_length[len(pair.target)][pair.number] = pair
    generator = random.Random(seed)
    held_out = [
        pair
        for _, same_length in sorted(by_length.items())
        for pair in generator.sample(
            list(same_length.values()), round(fraction * len(same_length))
        )
    ]
    if len(held_out) < 2:
        raise ValueError(
            f"a fraction of {fraction} of {len(pairs)} pairs leaves {len(held_out)} for"
            " validation and test, which need at least one each"
        )
    numbers = {pair.number for pair in held_out}
    train = [pair for pair in pairs if pair.number not in numbers]
    return train, held_out[::2], held_out[1::2]


@cache
def _spoken(number: int, language: str) -> str:
    return num2words(number, lang=language)


@cache
def _words(number: int, language: str) -> tuple[str, ...]:
    return tuple(_spoken(number, language).replace("-", " ").replace(",", "").split())


def _words_by_thousands(number: int, language: str) -> tuple[str, ...]:
    """The words of a number, group by group of three digits, of which few are different."""
    if not 1 <= number <= LARGEST:
        raise ValueError(f"{number} is not between 1 and {LARGEST:,}")
    parts = (number // 1000**group % 1000 * 1000**group for group in (3, 2, 1, 0))
    return tuple(word for part in parts if part for word in _words(part, language))


@cache
def _digits_of_length(group: int) -> dict[int, list[int]]:
    """The values 0 to 999 of a group (0: units, 1: thousands …) by their number of words."""
    values = defaultdict(list, {0: [0]})
    for value in range(1, 1000):
        values[len(_words(value * 1000**group, "fr"))].append(value)
    return dict(values)


@cache
def _numbers_of_length(length: int, groups: int) -> int:
    """How many numbers of at most ``groups`` groups have ``length`` French words."""
    if groups == 0:
        return int(length == 0)
    by_length = _digits_of_length(groups - 1)
    return sum(
        len(values) * _numbers_of_length(length - words, groups - 1)
        for words, values in by_length.items()
    )


def _number_of_length(length: int, generator: random.Random) -> int:
    groups = generator.choice(
        [count for count in (1, 2, 3, 4) if _numbers_of_length(length, count)]
    )
    number = 0
    for group in reversed(range(groups)):
        by_length = _digits_of_length(group)
        ways = [
            len(values) * _numbers_of_length(length - words, group)
            for words, values in by_length.items()
        ]
        words = generator.choices(list(by_length), ways)[0]
        number += generator.choice(by_length[words]) * 1000**group
        length -= words
    return number
