import random
from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attention_course.data import Batches, in_order

PAIRS = [([4 + row] * (1 + row % 7), [4 + row] * (row % 5)) for row in range(103)]


def rows_of(batch):
    """The rows of the pairs in a batch: each test pair consists of its own row + 4."""
    return [int(token) - 4 for token in batch.source[:, 0]]


def test_a_batch_is_padded_and_the_target_runs_from_bos_to_eos():
    (_, batch), *_ = in_order([([7], [8, 9]), ([5, 6], [])], 2)
    assert batch.source.tolist() == [[5, 6], [7, 0]]
    assert batch.target.tolist() == [[1, 2, 0, 0], [1, 8, 9, 2]]
    assert batch.source.dtype == batch.target.dtype == torch.int64


@given(st.integers(1, 40), st.integers(1, 110), st.integers(0, 3), st.integers(0, 5))
def test_every_pair_occurs_once_per_epoch(count, batch_size, seed, epoch):
    batches = Batches(PAIRS[:count], batch_size, seed)
    steps = range(epoch * batches.steps_in_epoch, (epoch + 1) * batches.steps_in_epoch)
    assert sorted(row for step in steps for row in rows_of(batches[step])) == list(
        range(count)
    )
    assert (
        Counter(len(batches[step].source) for step in steps)[batch_size]
        >= count // batch_size
    )


def test_a_batch_depends_on_the_step_alone():
    forwards, other = Batches(PAIRS, 8, seed=3), Batches(PAIRS, 8, seed=3)
    steps = list(range(60))
    expected = [forwards[step] for step in steps]
    random.Random(0).shuffle(steps)
    for step in steps:
        assert all(map(torch.equal, other[step], expected[step]))


def test_epochs_and_seeds_are_shuffled_differently():
    batches, other = Batches(PAIRS, 8, seed=0), Batches(PAIRS, 8, seed=1)
    epoch = [rows_of(batches[step]) for step in range(batches.steps_in_epoch)]
    assert epoch != [
        rows_of(batches[step + batches.steps_in_epoch])
        for step in range(batches.steps_in_epoch)
    ]
    assert epoch != [rows_of(other[step]) for step in range(batches.steps_in_epoch)]


def test_pairs_of_similar_length_share_a_batch():
    generator = random.Random(0)
    pairs = [([4], [4] * generator.randint(0, 20)) for _ in range(1000)]
    batches = Batches(pairs, 10, seed=0)
    padding = sum(
        int((batches[step].target == 0).sum()) for step in range(batches.steps_in_epoch)
    )
    assert padding < 0.1 * sum(
        len(target) + 2 for _, target in pairs
    )  # by chance it would be about 0.8


def test_in_order_gives_all_pairs_by_length_with_their_rows():
    seen = {}
    for rows, batch in in_order(PAIRS, 10):
        assert rows == rows_of(batch)
        seen |= dict(zip(rows, batch.target, strict=True))
    assert sorted(seen) == list(range(len(PAIRS)))
    lengths = [len(PAIRS[row][1]) for row in seen]
    assert lengths == sorted(lengths)


@pytest.mark.parametrize(
    "pair", [([], [5]), ([5, 0], [5]), ([5], [0, 5]), ([5], [1, 5]), ([5], [5, 2])]
)
@pytest.mark.parametrize("make", [lambda *x: Batches(*x, seed=0), in_order])
def test_an_empty_source_and_special_tokens_are_refused(make, pair):
    with pytest.raises(ValueError, match=r"pair 1 \(from 0\)"):
        [*make([([5], [5]), pair], 2)]


def test_a_negative_step_is_refused():
    with pytest.raises(IndexError, match="no batch -1"):
        Batches(PAIRS, 8, seed=0)[-1]
