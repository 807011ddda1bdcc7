import numpy as np
import pytest
import torch

from attention_course.data import Labelled, Shuffled, batches_in_order


def collate(examples):
    return Labelled((torch.tensor(examples),), torch.tensor(examples) % 2)


def numbers(batches, steps):
    return [batches[step].inputs[0].tolist() for step in steps]


def test_every_example_occurs_once_per_epoch_in_a_new_order():
    batches = Shuffled(range(10), collate, batch_size=4, seed=0)
    assert batches.steps_in_epoch == 3
    epochs = [numbers(batches, range(3 * e, 3 * e + 3)) for e in range(2)]
    assert [list(map(len, epoch)) for epoch in epochs] == [[4, 4, 2]] * 2
    first, second = ([x for batch in epoch for x in batch] for epoch in epochs)
    assert sorted(first) == sorted(second) == list(range(10))
    assert first != second


def test_a_batch_is_a_pure_function_of_its_step():
    once = Shuffled(range(10), collate, batch_size=4, seed=3)
    again = Shuffled(range(10), collate, batch_size=4, seed=3)
    assert numbers(once, range(9)) == numbers(again, reversed(range(9)))[::-1]
    assert numbers(once, range(9)) != numbers(
        Shuffled(range(10), collate, 4, seed=4), range(9)
    )


def test_an_epoch_is_shuffled_once(monkeypatch):
    seeds, default_rng = [], np.random.default_rng
    monkeypatch.setattr(
        np.random, "default_rng", lambda seed: seeds.append(seed) or default_rng(seed)
    )
    numbers(Shuffled(range(10), collate, batch_size=4, seed=12345), range(6))
    assert seeds == [[12345, 0], [12345, 1]]


def test_batches_in_order_keep_the_order():
    found = list(batches_in_order(range(10), collate, 4))
    assert [batch.inputs[0].tolist() for batch in found] == [
        [0, 1, 2, 3],
        [4, 5, 6, 7],
        [8, 9],
    ]
    assert found[2].labels.tolist() == [0, 1]


def test_a_negative_step_is_an_error():
    with pytest.raises(IndexError, match="no batch -1"):
        Shuffled([1], collate, 1, seed=0)[-1]
