"""Questions about number words that can only be answered by comparing words.

In :func:`larger` the words to compare are always at the same positions. In
:func:`shared` they may be anywhere, and only their content identifies them.
"""

import random
from itertools import combinations
from typing import NamedTuple

from attention_course.data.numbers import Pair, english_words, french_words

#: Numbers of two words in English, such as "twenty-one".
TWO_WORDS = tuple(10 * tens + units for tens in range(2, 10) for units in range(1, 10))
BETWEEN = "or"  #: the word between two numbers
#: Numbers of one word in both languages, and not the same one, as "six" is.
ONE_WORD = tuple(
    n
    for n in range(1, 100)
    if len(english_words(n)) == len(french_words(n)) == 1
    and english_words(n) != french_words(n)
)
#: The English words of these numbers, and the French ones.
TRANSLATIONS = {english_words(n)[0]: french_words(n)[0] for n in ONE_WORD}
_MOST = 100_000  # the shortest sources have not many more different combinations


class Mixed(NamedTuple):
    """Shuffled English and French number words, and whether both name the same number."""

    words: tuple[str, ...]
    shared: bool


def larger(seed: int) -> list[Pair]:
    """Two English numbers as the source, the larger one in French as the target.

    The numbers are the 72 that have two words, twenty-one to ninety-nine. Every pair of
    them occurs once, in random order, so that a source has five words, the third of
    which is always "or". ``Pair.number`` is the larger number.
    """
    generator = random.Random(seed)
    two_numbers = list(combinations(TWO_WORDS, 2))
    generator.shuffle(two_numbers)
    pairs = []
    for both in two_numbers:
        first, second = generator.sample(both, 2)
        source = (*english_words(first), BETWEEN, *english_words(second))
        pairs.append(Pair(max(both), source, french_words(max(both))))
    return pairs


def shared(count: int, size: int, seed: int) -> list[Mixed]:
    """``count`` different sources of ``size`` English and ``size`` French number words.

    The words are shuffled. In every second source one number occurs in both languages,
    in the others none does. The numbers are the 20 that are one word in both languages,
    a different one in each. Every word is equally frequent in both kinds of sources, so
    that no single word reveals the label.
    """
    if not 0 < count <= _MOST:
        raise ValueError(f"count must be between 1 and {_MOST:,}, not {count}")
    if not 1 < size <= len(ONE_WORD) // 2:
        raise ValueError(
            f"size must be between 2 and {len(ONE_WORD) // 2} words of each language, not {size}"
        )
    generator = random.Random(seed)
    found: dict[tuple[str, ...], bool] = {}
    while len(found) < count:
        label = len(found) % 2 == 0
        found.setdefault(_mixed_words(size, label, generator), label)
    return [Mixed(words, label) for words, label in found.items()]


def _mixed_words(
    size: int, is_shared: bool, generator: random.Random
) -> tuple[str, ...]:
    numbers = generator.sample(ONE_WORD, 2 * size)
    english, french = numbers[:size], numbers[size:]
    if is_shared:
        french[0] = english[0]
    words = [english_words(n)[0] for n in english]
    words += [french_words(n)[0] for n in french]
    generator.shuffle(words)
    return tuple(words)
