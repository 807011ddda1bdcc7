"""Sentence pairs as padded batches of similar length, found by the number of the step."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Int
from torch import Tensor

from companion.data.examples import Shuffled, check_batches, cut
from companion.data.vocabulary import BOS, EOS, PAD, pad

#: A sentence pair in numbers, without ``<bos>`` and ``<eos>``.
Encoded = tuple[Sequence[int], Sequence[int]]
_BATCHES_IN_A_POOL = 50


class Batch(NamedTuple):
    """Source sentences, and target sentences from ``<bos>`` to ``<eos>``, each filled up with padding."""

    source: Int[Tensor, "b k"]
    target: Int[Tensor, "b t"]


class Batches(Shuffled):
    """Sentence pairs :class:`~companion.data.examples.Shuffled` so that batches hold little padding.

    A step gives a :class:`Batch`. Every epoch the pairs are shuffled, cut into pools, and sorted by length
    within a pool, so that a batch holds sentences of similar length; then the batches are shuffled. A pair
    comes once an epoch. Targets are given without ``<bos>`` and ``<eos>``, which are added here.

    Raises:
        ValueError: there are no pairs, the batch size is below 1, a source sentence is empty, a sentence has
            padding in it, or a target sentence has ``<bos>`` or ``<eos>`` already.
    """

    def __init__(self, pairs: Sequence[Encoded], batch_size: int, seed: int):
        super().__init__(pairs, _batch, batch_size, seed)
        _check(pairs)
        self._lengths = _lengths(pairs)

    def _shuffle(self, generator: np.random.Generator) -> list[np.ndarray]:
        batches = []
        for pool in cut(
            generator.permutation(len(self.examples)),
            _BATCHES_IN_A_POOL * self.batch_size,
        ):
            batches += cut(pool[np.lexsort(self._lengths[:, pool])], self.batch_size)
        return [batches[i] for i in generator.permutation(len(batches))]


def in_order(
    pairs: Sequence[Encoded], batch_size: int
) -> Iterator[tuple[list[int], Batch]]:
    """Every pair once, from short to long: batches, each with the rows of ``pairs`` that it holds.

    What a model answers to a batch can so be put back where it belongs::

        for rows, batch in in_order(pairs, 64):
            for row, answer in zip(rows, model(batch.source)):
                answers[row] = answer

    Raises:
        ValueError: as :class:`Batches`.
    """
    check_batches(pairs, batch_size)
    _check(pairs)
    for rows in cut(np.lexsort(_lengths(pairs)), batch_size):
        yield rows.tolist(), _batch([pairs[row] for row in rows])


def _check(pairs: Sequence[Encoded]) -> None:
    empty = [row for row, (source, _) in enumerate(pairs) if not len(source)]
    if empty:
        raise ValueError(
            f"{len(empty)} source sentences are empty, the first is number {empty[0]} (from 0)"
        )
    for row, pair in enumerate(pairs):
        for side, sentence in zip(("source", "target"), pair, strict=True):
            if PAD in sentence:
                raise ValueError(
                    f"{side} sentence {row} (from 0) has <pad>, which batches add"
                )
    wrapped = [
        row for row, (_, target) in enumerate(pairs) if BOS in target or EOS in target
    ]
    if wrapped:
        raise ValueError(
            f"target sentence {wrapped[0]} (from 0) has <bos> or <eos> already, which batches add"
        )


def _lengths(pairs: Sequence[Encoded]) -> np.ndarray:
    """Keys for ``lexsort``: the length of the target (a decoder's steps), and among equals of the source."""
    return np.array([[len(source), len(target)] for source, target in pairs]).T


def _batch(pairs: Sequence[Encoded]) -> Batch:
    return Batch(
        pad([source for source, _ in pairs]),
        pad([[BOS, *target, EOS] for _, target in pairs]),
    )
