"""Questions about number words that no word answers alone: a source must be compared with itself.

In :func:`larger` what belongs together always stands at the same places. In :func:`shared` it may stand
anywhere, and only the words tell.
"""

import random
from itertools import combinations
from typing import NamedTuple

from companion.data.numbers import Pair, english_words, french_words

#: Numbers of two words in English, as "twenty-one".
TWO_WORDS = tuple(10 * tens + units for tens in range(2, 10) for units in range(1, 10))
BETWEEN = "or"  #: the word between two numbers
#: Numbers of one word in both languages, and not the same one, as "six" is.
ONE_WORD = tuple(
    n
    for n in range(1, 100)
    if len(english_words(n)) == len(french_words(n)) == 1
    and english_words(n) != french_words(n)
)
_MOST = 100_000  # sources drawn at once: those of the shortest kind are not many more


class Mixed(NamedTuple):
    """English and French number words in any order, and whether a number is among them in both languages."""

    words: tuple[str, ...]
    shared: bool


def larger(seed: int) -> list[Pair]:
    """Two English numbers, and the larger of them in French: each two once, shuffled, in a random order.

    The numbers are the 72 that have two words each, twenty-one to ninety-nine. So a source has five words, of
    which the third is always "or"; the pair's ``number`` is the larger one.
    """
    generator = random.Random(seed)
    twos = list(combinations(TWO_WORDS, 2))
    generator.shuffle(twos)
    pairs = []
    for two in twos:
        first, second = generator.sample(two, 2)
        source = (*english_words(first), BETWEEN, *english_words(second))
        pairs.append(Pair(max(two), source, french_words(max(two))))
    return pairs


def shared(count: int, size: int, seed: int) -> list[Mixed]:
    """So many sources of ``size`` English and ``size`` French number words, shuffled, and none twice.

    In every second source one number is there in both languages, in the others none. The numbers are the 20
    that both languages say in one word, each in its own. Every word is as frequent in the one kind of source
    as in the other, so that no word alone tells anything.

    Raises:
        ValueError: the count is not between 1 and 100,000, or the size not between 2 and 10.
    """
    if not 0 < count <= _MOST:
        raise ValueError(f"1 to {_MOST:,} sources can be drawn, not {count}")
    if not 1 < size <= len(ONE_WORD) // 2:
        raise ValueError(
            f"a source has 2 to {len(ONE_WORD) // 2} words of each language, not {size}"
        )
    generator = random.Random(seed)
    found: dict[tuple[str, ...], bool] = {}
    while len(found) < count:
        twice = len(found) % 2 == 0
        found.setdefault(_mixed_words(size, twice, generator), twice)
    return [Mixed(words, twice) for words, twice in found.items()]


def _mixed_words(size: int, twice: bool, generator: random.Random) -> tuple[str, ...]:
    numbers = generator.sample(ONE_WORD, 2 * size)
    english, french = numbers[:size], numbers[size:]
    if twice:
        french[0] = english[0]
    words = [english_words(n)[0] for n in english] + [
        french_words(n)[0] for n in french
    ]
    generator.shuffle(words)
    return tuple(words)
