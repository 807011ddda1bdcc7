"""The task of copying two letters: attention by content alone cannot tell where it was."""

import random
from collections.abc import Iterator

from attention_course.data.numbers import Pair
from attention_course.tasks.translation import TranslationTask


def two_letters(held_out: int) -> TranslationTask:
    """Random sequences of the letters a and b, each of which is its own target.

    The 20,000 training sequences have 5 to 25 letters. Those for validation have 10 to 25,
    those for the test 10 to 40, and none of either occurs in training.

    Args:
        held_out: how many sequences are drawn for validation, and how many for the test;
            those that occur in training are left out.

    Example:
        >>> two_letters(600).training_pairs[0].source[:4]
        ('b', 'a', 'a', 'b')
    """
    training = [*_sequences(20_000, 5, 25, seed=0)]
    seen = {pair.source for pair in training}
    validation = _sequences(held_out, 10, 25, seed=1)
    test = _sequences(held_out, 10, 40, seed=2)
    return TranslationTask(
        training,
        validation=[pair for pair in validation if pair.source not in seen],
        test=[pair for pair in test if pair.source not in seen],
    )


def _sequences(count: int, shortest: int, longest: int, seed: int) -> Iterator[Pair]:
    generator = random.Random(seed)
    for number in range(count):
        length = generator.randint(shortest, longest)
        letters = tuple(generator.choices("ab", k=length))
        yield Pair(number, letters, letters)
