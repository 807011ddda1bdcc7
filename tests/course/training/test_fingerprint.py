from enum import Enum
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler

from attention_course.training import LabelSmoothing, sequence_loss
from attention_course.training.fingerprint import describe, fingerprint
from companion.attention import masks
from tests.tiny import MODELS


class Colour(Enum):
    RED = 1


class Scaled:
    def __init__(self, factor):
        self.factor, self._cache = factor, object()


@pytest.mark.parametrize(
    ("value", "described"),
    [
        (0.1, "0.1"),
        (np.float64(1), "1"),
        (torch.inf, "inf"),
        (True, "True"),
        (None, "None"),
        ("tanh", "'tanh'"),
        (torch.float16, "torch.float16"),
        (torch.zeros(2, 3), "(2, 3) of torch.float32"),
        ((1, [2]), "(1, (2))"),
        ({"b", "a"}, "('a', 'b')"),
        ({"rate": 0.1}, "{rate: 0.1}"),
        (Colour.RED, "Colour.RED"),
        (masks.local(radius=3), "local(radius=3)"),
        (LabelSmoothing(0.1), "LabelSmoothing(epsilon=0.1)"),
        (Scaled(2), "Scaled(factor=2)"),
        (print, "print"),
        (nn.Dropout, "Dropout"),
        (partial(print, 3, end=""), "partial(print, (3), {end: ''})"),
    ],
)
def test_a_value_is_described_by_its_class_and_its_settings(value, described):
    assert describe(value) == described


LOSS = """
def loss(model, batch):
    assert batch
    return model(batch).sum()
"""


def compiled(source, optimize=0):
    names = {}
    exec(compile(source, "loss.py", "exec", optimize=optimize), names)
    return names["loss"]


def test_a_docstring_and_another_bytecode_make_no_other_training():
    loss = compiled(LOSS)
    told = compiled(LOSS.replace("):\n", '):\n    """The sum."""\n', 1))
    assert told.__doc__ == "The sum."
    other = compiled(LOSS, optimize=2)  # as another Python, which compiles it otherwise
    assert other.__code__.co_code != loss.__code__.co_code
    assert describe(loss) == describe(told) == describe(other)


def test_a_value_that_contains_itself_is_described():
    value = Scaled(2)
    value.factor = value
    assert describe(value, depth=2) == "Scaled(factor=Scaled(factor=Scaled))"


def taken(model):
    optimizer = torch.optim.Adam(model.parameters())
    return fingerprint(model, optimizer, None, None, sequence_loss, 1.0)


@pytest.mark.parametrize("name", MODELS)
def test_the_same_model_has_the_same_fingerprint_before_and_after_it_was_used(name):
    model = MODELS[name]()
    before = taken(model)
    with torch.no_grad():
        model(torch.tensor([[4, 5]]), torch.tensor([[1, 4]]))
    assert taken(model) == before == taken(MODELS[name]())


def test_every_two_models_have_different_fingerprints():
    found = [taken(build()) for build in MODELS.values()]
    for number, one in enumerate(found):
        assert all(one != other for other in found[:number])


def of_optimizer(lr=1.0, schedule=lambda optimizer: None, **settings):
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, **settings)
    return fingerprint(model, optimizer, schedule(optimizer), None, print, 1.0)


def sequential(milestone=5, steps=10):
    def build(optimizer):
        rise = lr_scheduler.LinearLR(optimizer, total_iters=5)
        fall = lr_scheduler.CosineAnnealingLR(optimizer, steps)
        return lr_scheduler.SequentialLR(optimizer, [rise, fall], [milestone])

    return build


@pytest.mark.parametrize(
    ("one", "other", "name"),
    [
        (sequential(), sequential(milestone=6), "schedule.milestones"),
        (sequential(), sequential(steps=20), "schedule.1.T_max"),
    ],
)
def test_other_schedules_have_other_fingerprints(one, other, name):
    one, again, other = (of_optimizer(schedule=build) for build in (one, one, other))
    assert one == again
    assert [key for key in one if one[key] != other[key]] == [name]


def test_the_type_of_a_number_makes_no_other_training():
    assert of_optimizer(lr=1, weight_decay=0) == of_optimizer(lr=1.0, weight_decay=0.0)
