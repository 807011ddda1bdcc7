"""Examples of any kind as batches: shuffled and indexed by the step, or in order."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int
from torch import Tensor


class Labelled(NamedTuple):
    """What a classifier is called with, ``model(*inputs)``, and each example's label."""

    inputs: tuple[Tensor, ...]
    labels: Int[Tensor, " b"]


#: From a list of examples to a batch of them.
Collate = Callable[[list[Any]], Any]


class Shuffled:
    """An infinite sequence of training batches: ``batches[step]`` depends on the step alone.

    The examples are shuffled anew in each epoch, and each occurs once per epoch. No
    state is kept between steps, so that a training run that was interrupted resumes at
    ``batches[step]``.

    Args:
        collate: makes a batch of a list of examples.
        batch_size: examples in a batch; the last one of an epoch may have fewer.

    Example:
        >>> batches = Shuffled("abcde", "".join, batch_size=2, seed=0)
        >>> batches.steps_in_epoch
        3
        >>> sorted(batches[0] + batches[1] + batches[2])
        ['a', 'b', 'c', 'd', 'e']
    """

    def __init__(
        self, examples: Sequence[Any], collate: Collate, batch_size: int, seed: int
    ):
        self.examples, self.collate = examples, collate
        self.batch_size, self.seed = batch_size, seed
        #: the number of batches that hold each example once
        self.steps_in_epoch = -(-len(examples) // batch_size)
        self._epoch, self._batches = -1, list[np.ndarray]()

    def __getitem__(self, step: int) -> Any:
        """The batch of this step, counted from 0 over all epochs."""
        if step < 0:
            raise IndexError(f"steps count from 0: there is no batch {step}")
        epoch, position = divmod(step, self.steps_in_epoch)
        if self._epoch != epoch:  # shuffle once per epoch, not once per step
            generator = np.random.default_rng([self.seed, epoch])
            self._epoch, self._batches = epoch, self._shuffle(generator)
        return self.collate([self.examples[row] for row in self._batches[position]])

    def _shuffle(self, generator: np.random.Generator) -> list[np.ndarray]:
        """The rows of each batch of an epoch."""
        return cut(generator.permutation(len(self.examples)), self.batch_size)


def batches_in_order(
    examples: Sequence[Any], collate: Collate, batch_size: int
) -> Iterator[Any]:
    """Every example once, in the given order, in batches.

    Args:
        collate: makes a batch of a list of examples.
        batch_size: examples in a batch; the last one may have fewer.

    Example:
        >>> list(batches_in_order("abcde", "".join, 2))
        ['ab', 'cd', 'e']
    """
    for first in range(0, len(examples), batch_size):
        yield collate(list(examples[first : first + batch_size]))


def cut(rows: np.ndarray, size: int) -> list[np.ndarray]:
    """The rows in chunks of ``size``; the last may be shorter."""
    return [rows[start : start + size] for start in range(0, len(rows), size)]
