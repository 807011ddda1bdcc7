"""Sentence pairs as padded batches of similar length, found by the number of the step."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Int
from torch import Tensor

from companion.data.vocabulary import BOS, EOS, PAD, pad

#: A sentence pair in numbers, without ``<bos>`` and ``<eos>``.
Encoded = tuple[Sequence[int], Sequence[int]]
_BATCHES_IN_A_POOL = 50


class Batch(NamedTuple):
    """Source sentences, and target sentences from ``<bos>`` to ``<eos>``, each filled up with padding."""

    source: Int[Tensor, "b k"]
    target: Int[Tensor, "b t"]


class Batches:
    """Training batches without end: ``batches[step]`` is a pure function of what the constructor was given.

    Every epoch the pairs are shuffled, cut into pools, and sorted by length within a pool, so that a batch
    holds sentences of similar length and little padding; then the batches are shuffled. A pair comes once an
    epoch. Nothing is remembered between steps, so training that stopped goes on at ``batches[step]``.
    Targets are given without ``<bos>`` and ``<eos>``, which are added here.

    Raises:
        ValueError: there are no pairs, the batch size is below 1, a source sentence is empty, a sentence has
            padding in it, or a target sentence has ``<bos>`` or ``<eos>`` already.
    """

    def __init__(self, pairs: Sequence[Encoded], batch_size: int, seed: int):
        _check(pairs, batch_size)
        self.pairs, self.batch_size, self.seed = pairs, batch_size, seed
        #: how many batches hold each pair once
        self.steps_in_epoch = -(-len(pairs) // batch_size)
        self._lengths = _lengths(pairs)
        self._ordered: tuple[int, list[np.ndarray]] = (-1, [])

    def __getitem__(self, step: int) -> Batch:
        """The batch of this step, counted from 0 over all epochs.

        Raises:
            IndexError: the step is negative.
        """
        if step < 0:
            raise IndexError(f"steps are counted from 0, but batch {step} was asked for")
        epoch, position = divmod(step, self.steps_in_epoch)
        if self._ordered[0] != epoch:
            self._ordered = epoch, self._order(epoch)
        return _batch(self.pairs, self._ordered[1][position])

    def _order(self, epoch: int) -> list[np.ndarray]:
        generator = np.random.default_rng([self.seed, epoch])
        shuffled = generator.permutation(len(self.pairs))
        batches = []
        for start in range(0, len(shuffled), _BATCHES_IN_A_POOL * self.batch_size):
            pool = shuffled[start : start + _BATCHES_IN_A_POOL * self.batch_size]
            batches += _cut(pool[np.lexsort(self._lengths[:, pool])], self.batch_size)
        return [batches[i] for i in generator.permutation(len(batches))]


def in_order(pairs: Sequence[Encoded], batch_size: int) -> Iterator[tuple[list[int], Batch]]:
    """Every pair once, from short to long: batches, each with the rows of ``pairs`` that it holds.

    What a model answers to a batch can so be put back where it belongs::

        for rows, batch in in_order(pairs, 64):
            for row, answer in zip(rows, model(batch.source)):
                answers[row] = answer

    Raises:
        ValueError: as :class:`Batches`.
    """
    _check(pairs, batch_size)
    for rows in _cut(np.lexsort(_lengths(pairs)), batch_size):
        yield rows.tolist(), _batch(pairs, rows)


def _check(pairs: Sequence[Encoded], batch_size: int) -> None:
    if not len(pairs):
        raise ValueError("there are no sentence pairs to make batches of")
    if batch_size < 1:
        raise ValueError(f"a batch holds at least one sentence pair, not {batch_size}")
    empty = [row for row, (source, _) in enumerate(pairs) if not len(source)]
    if empty:
        raise ValueError(f"{len(empty)} source sentences are empty, the first is number {empty[0]} (from 0)")
    for row, pair in enumerate(pairs):
        for side, sentence in zip(("source", "target"), pair, strict=True):
            if PAD in sentence:
                raise ValueError(f"{side} sentence {row} (from 0) has <pad>, which batches add")
    wrapped = [row for row, (_, target) in enumerate(pairs) if BOS in target or EOS in target]
    if wrapped:
        raise ValueError(
            f"target sentence {wrapped[0]} (from 0) has <bos> or <eos> already, which batches add"
        )


def _lengths(pairs: Sequence[Encoded]) -> np.ndarray:
    """Keys for ``lexsort``: the length of the target (a decoder's steps), and among equals of the source."""
    return np.array([[len(source), len(target)] for source, target in pairs]).T


def _cut(rows: np.ndarray, size: int) -> list[np.ndarray]:
    return [rows[start : start + size] for start in range(0, len(rows), size)]


def _batch(pairs: Sequence[Encoded], rows: np.ndarray) -> Batch:
    chosen = [pairs[row] for row in rows]
    return Batch(pad([source for source, _ in chosen]), pad([[BOS, *target, EOS] for _, target in chosen]))
