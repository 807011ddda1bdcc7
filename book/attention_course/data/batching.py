"""Sentence pairs as padded batches of similar length, indexed by the training step."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Int
from torch import Tensor

from attention_course.data.examples import Shuffled, cut
from attention_course.data.vocabulary import BOS, EOS, PAD, pad

#: A sentence pair as token ids, without ``<bos>`` and ``<eos>``.
Encoded = tuple[Sequence[int], Sequence[int]]
_BATCHES_IN_A_POOL = 50


class Batch(NamedTuple):
    """Source sentences, and target sentences from ``<bos>`` to ``<eos>``, both padded."""

    source: Int[Tensor, "b k"]
    target: Int[Tensor, "b t"]


class Batches(Shuffled):
    """Shuffled sentence pairs in batches of similar length, which need little padding.

    ``batches[step]`` is a :class:`Batch`. In each epoch the pairs are shuffled, cut
    into pools, and sorted by length within each pool; the batches cut from the pools
    are then shuffled. Each pair occurs once per epoch. ``<bos>`` and ``<eos>`` are added
    to the targets.

    Args:
        pairs: sentence pairs as token ids; targets without ``<bos>`` and ``<eos>``.
        batch_size: pairs in a batch.

    Example:
        >>> batches = Batches([([7, 8], [5]), ([9], [6, 4])], batch_size=2, seed=0)
        >>> batches[0].source.shape, batches[0].target.shape
        (torch.Size([2, 2]), torch.Size([2, 4]))
    """

    def __init__(self, pairs: Sequence[Encoded], batch_size: int, seed: int):
        super().__init__(pairs, _batch, batch_size, seed)
        _check(pairs)
        self._lengths = _lengths(pairs)

    def _shuffle(self, generator: np.random.Generator) -> list[np.ndarray]:
        rows = generator.permutation(len(self.examples))
        batches = []
        for pool in cut(rows, _BATCHES_IN_A_POOL * self.batch_size):
            batches += cut(pool[np.lexsort(self._lengths[:, pool])], self.batch_size)
        return [batches[i] for i in generator.permutation(len(batches))]


def in_order(
    pairs: Sequence[Encoded], batch_size: int
) -> Iterator[tuple[list[int], Batch]]:
    """Every pair once, from short to long, in batches with their rows in ``pairs``.

    The rows put a model's predictions back into the order of the pairs::

        for rows, batch in in_order(pairs, 64):
            for row, prediction in zip(rows, model(batch.source)):
                predictions[row] = prediction

    Args:
        pairs: sentence pairs as token ids; targets without ``<bos>`` and ``<eos>``.
        batch_size: pairs in a batch; the last one may have fewer.
    """
    _check(pairs)
    for rows in cut(np.lexsort(_lengths(pairs)), batch_size):
        yield rows.tolist(), _batch([pairs[row] for row in rows])


def _check(pairs: Sequence[Encoded]) -> None:
    for row, (source, target) in enumerate(pairs):
        if not source or PAD in source or {PAD, BOS, EOS} & set(target):
            raise ValueError(
                f"pair {row} (from 0) has an empty source, or one of <pad>, <bos> and <eos>, "
                "which batches add"
            )


def _lengths(pairs: Sequence[Encoded]) -> np.ndarray:
    """Keys for ``lexsort``: the target's length (decoder steps), then the source's."""
    return np.array([[len(source), len(target)] for source, target in pairs]).T


def _batch(pairs: Sequence[Encoded]) -> Batch:
    return Batch(
        pad([source for source, _ in pairs]),
        pad([[BOS, *target, EOS] for _, target in pairs]),
    )
