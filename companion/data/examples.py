"""Examples of any kind as batches: shuffled and found by the number of the step, or one after the other."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int
from torch import Tensor


class Labelled(NamedTuple):
    """What a classifier is called with, as ``model(*inputs)``, and the number of each example's class."""

    inputs: tuple[Tensor, ...]
    labels: Int[Tensor, " b"]


#: From a list of examples to a batch of them.
Collate = Callable[[list[Any]], Any]


class Shuffled:
    """Training batches without end: ``batches[step]`` is a pure function of what the constructor was given.

    Every epoch the examples are shuffled and cut into batches, and each comes once. ``collate`` makes a batch
    of a list of examples, whatever these are. Nothing is remembered between steps, so training that stopped
    goes on at ``batches[step]``.

    Raises:
        ValueError: there are no examples, or the batch size is below 1.
    """

    def __init__(
        self, examples: Sequence[Any], collate: Collate, batch_size: int, seed: int
    ):
        check_batches(examples, batch_size)
        self.examples, self.collate, self.batch_size, self.seed = (
            examples,
            collate,
            batch_size,
            seed,
        )
        #: how many batches hold each example once
        self.steps_in_epoch = -(-len(examples) // batch_size)
        self._epoch, self._batches = -1, list[np.ndarray]()

    def __getitem__(self, step: int) -> Any:
        """The batch of this step, counted from 0 over all epochs.

        Raises:
            IndexError: the step is negative.
        """
        if step < 0:
            raise IndexError(
                f"steps are counted from 0, but batch {step} was asked for"
            )
        epoch, position = divmod(step, self.steps_in_epoch)
        if self._epoch != epoch:  # or every step of an epoch would shuffle all of it
            self._epoch, self._batches = (
                epoch,
                self._shuffle(np.random.default_rng([self.seed, epoch])),
            )
        return self.collate([self.examples[row] for row in self._batches[position]])

    def _shuffle(self, generator: np.random.Generator) -> list[np.ndarray]:
        """The rows of each batch of an epoch."""
        return cut(generator.permutation(len(self.examples)), self.batch_size)


def batches_in_order(
    examples: Sequence[Any], collate: Collate, batch_size: int
) -> Iterator[Any]:
    """Every example once, in the order given, in batches.

    Raises:
        ValueError: there are no examples, or the batch size is below 1.
    """
    check_batches(examples, batch_size)
    for first in range(0, len(examples), batch_size):
        yield collate(list(examples[first : first + batch_size]))


def cut(rows: np.ndarray, size: int) -> list[np.ndarray]:
    """The rows in pieces of ``size``; the last may be shorter."""
    return [rows[start : start + size] for start in range(0, len(rows), size)]


def check_batches(examples: Sequence[Any], batch_size: int) -> None:
    """Raise a ``ValueError`` unless there are examples, and a batch holds at least one."""
    if not len(examples):
        raise ValueError("there are no examples to make batches of")
    if batch_size < 1:
        raise ValueError(f"a batch holds at least one example, not {batch_size}")
