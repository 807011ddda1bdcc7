import re
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


def plain(x, y=2, *, z=3):
    return x * y * z


class Scaled:
    def __init__(self, factor):
        self.factor, self._cache = factor, object()

    def apply(self, x):
        return self.factor * x


def scaling(factor):
    def scaled(x):
        return factor * x

    return scaled


@pytest.mark.parametrize(
    ("value", "described"),
    [
        (0.1, "0.1"),
        (None, "None"),
        ("tanh", "'tanh'"),
        (torch.float16, "torch.float16"),
        (torch.zeros(2, 3), "(2, 3) of torch.float32"),
        ((1, [2]), "tuple(0=1, 1=list(0=2))"),
        (masks.local(radius=3), "local(radius=3)"),
        (LabelSmoothing(0.1), "LabelSmoothing(epsilon=0.1)"),
        (plain, "plain(code=#, defaults=tuple(0=2), keywords=dict(z=3))"),
        (print, "print"),
        (Colour.RED, "Colour.RED"),
        ({"b", "a"}, "set(0='a', 1='b')"),
        (True, "True"),
        (torch.inf, "inf"),
        (nn.Dropout, "Dropout"),
        (Scaled(2), "Scaled(factor=2)"),
        (
            Scaled(2).apply,
            "Scaled.apply(function=Scaled.apply(code=#), self=Scaled(factor=2))",
        ),
        (scaling(2), "scaling.<locals>.scaled(code=#, factor=2)"),
        (
            partial(print, batch=3),
            "partial(function=print, arguments=tuple, batch=3)",
        ),
        (list(range(100)), "list with 100 parts, hash #"),
        (nn.Sequential(nn.Dropout(0.5)), "Sequential(0=Dropout(p=0.5, inplace=False))"),
    ],
)
def test_a_value_is_described_by_its_kind_and_its_settings(value, described):
    assert re.sub(r"\b[0-9a-f]{12}\b", "#", describe(value)) == described


def closing_over(part):
    return lambda x: part


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (lambda x: x + 1, lambda x: x - 1),
        (lambda x: x + 1, lambda x: x + 2),
        (lambda x: x.sum(), lambda x: x.mean()),
        (lambda x, y=1: x + y, lambda x, y=2: x + y),
        (lambda x, *, y=1: x + y, lambda x, *, y=2: x + y),
        (lambda x: (lambda: x + 1)(), lambda x: (lambda: x + 2)()),
        (closing_over([1, 2]), closing_over([1, 3])),
        (closing_over(closing_over(1)), closing_over(closing_over(2))),
        (closing_over(lambda x: x + 1), closing_over(lambda x: x - 1)),
        (partial(max, key=lambda x: x), partial(max, key=lambda x: -x)),
        (Enum("Kind", "a b").a, Enum("Kind", "a b").b),
        ({1, 2}, {1, 3}),
        (list(range(100)), [*range(99), 0]),
    ],
)
def test_other_functions_and_collections_have_other_descriptions(one, other):
    assert describe(one) != describe(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (0, 0.0),
        (1, np.float64(1)),
        (np.float64(0.1), 0.1),
        (nn.Dropout(0), nn.Dropout(0.0)),
        (closing_over(1), closing_over(1.0)),
        (closing_over({"b", "a"}), closing_over({"a", "b"})),
        (lambda x: (lambda: x in {"a", "b"})(), lambda x: (lambda: x in {"b", "a"})()),
    ],
)
def test_what_is_equal_has_one_description(one, other):
    assert describe(one) == describe(other)


def test_a_function_that_calls_itself_is_described():
    def itself(x):
        return itself(x) if later else x

    assert "itself=" in describe(itself)
    later = True
    assert "later=True" in describe(itself)


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


def of_activation(activation):
    model = nn.Linear(2, 2)
    model.activation = activation
    return taken(model)


def test_a_function_that_a_module_holds_belongs_to_the_model():
    one, other = of_activation(lambda x: x + 1), of_activation(lambda x: x - 1)
    assert one.keys() == other.keys()
    assert [name for name in one if one[name] != other[name]] == ["model.activation"]


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


def by_factor(factor):
    return lambda optimizer: lr_scheduler.LambdaLR(optimizer, factor)


@pytest.mark.parametrize(
    ("one", "other", "name"),
    [
        (sequential(), sequential(milestone=6), "schedule milestones"),
        (sequential(), sequential(steps=20), "schedule 1 T_max"),
        (
            by_factor(lambda n: 1),
            by_factor(lambda n: 1 / (n + 1)),
            "schedule lr_lambdas",
        ),
    ],
)
def test_other_schedules_have_other_fingerprints(one, other, name):
    one, again, other = (of_optimizer(schedule=build) for build in (one, one, other))
    assert one == again
    assert [key for key in one if one[key] != other[key]] == [name]


def test_the_learning_rate_is_compared():
    assert of_optimizer(lr=1)["group 0 lr"] != of_optimizer(lr=2)["group 0 lr"]


def test_the_type_of_a_number_makes_no_other_training():
    assert of_optimizer(lr=1, weight_decay=0) == of_optimizer(lr=1.0, weight_decay=0.0)
