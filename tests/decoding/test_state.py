from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from companion.decoding import Memory, map_state, tensors


class Inner(NamedTuple):
    cell: Tensor
    nothing: None


class Outer(NamedTuple):
    memory: Memory
    layers: tuple[Inner, ...]
    count: Tensor


@pytest.fixture
def state():
    key, value, mask = (
        torch.randn(3, 5, 7),
        torch.randn(3, 5, 2),
        torch.ones(3, 5, dtype=torch.bool),
    )
    layers = (Inner(torch.randn(3, 2), None), Inner(torch.randn(3, 2), None))
    return Outer(Memory(key, value, mask), layers, torch.arange(3))


def test_map_state_reaches_every_tensor_and_keeps_the_types(state):
    rows = torch.tensor([2, 2, 0, 1])
    mapped = map_state(lambda x: x[rows], state)
    assert type(mapped) is Outer
    assert type(mapped.memory) is Memory
    assert type(mapped.layers) is tuple
    assert type(mapped.layers[1]) is Inner
    assert mapped.layers[1].nothing is None
    for after, before in zip(tensors(mapped), tensors(state), strict=True):
        assert torch.equal(after, before[rows])


def test_map_state_does_not_change_the_given_state(state):
    before = [x.clone() for x in tensors(state)]
    map_state(lambda x: x + 1, state)
    assert all(torch.equal(x, y) for x, y in zip(tensors(state), before, strict=True))


def test_map_state_of_a_tensor_and_of_nothing():
    assert torch.equal(map_state(torch.neg, torch.ones(2)), -torch.ones(2))
    assert map_state(torch.neg, None) is None
    assert map_state(torch.neg, ()) == ()


def test_tensors_are_in_order(state):
    found = tensors(state)
    expected = [*state.memory, state.layers[0].cell, state.layers[1].cell, state.count]
    assert len(found) == len(expected)
    assert all(a is b for a, b in zip(found, expected, strict=True))
    assert tensors(None) == tensors(()) == []


@pytest.mark.parametrize(
    "function", [lambda state: map_state(torch.neg, state), tensors]
)
@pytest.mark.parametrize(
    ("wrong", "name"),
    [([torch.ones(2)], "list"), ({"a": torch.ones(2)}, "dict"), (1.5, "float")],
)
def test_anything_else_in_a_state_is_an_error(function, wrong, name):
    with pytest.raises(TypeError, match=f"in tuples and NamedTuples, .* a {name}"):
        function((torch.ones(2), wrong))
