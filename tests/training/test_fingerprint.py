from functools import partial

import pytest
import torch
from torch import nn

from companion.attention import masks
from companion.training import LabelSmoothing, sequence_loss
from companion.training.fingerprint import describe, fingerprint
from tests.tiny import MODELS


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
        (sequence_loss, "sequence_loss"),
        (nn.Dropout, "Dropout"),
        (Scaled(2), "Scaled(factor=2)"),
        (Scaled(2).apply, "Scaled.apply(self=Scaled(factor=2))"),
        (scaling(2), "scaling.<locals>.scaled(factor=2)"),
        (
            partial(sequence_loss, batch=3),
            "partial(function=sequence_loss, arguments=tuple, batch=3)",
        ),
        (list(range(100)), "list with 100 parts"),
        (nn.Sequential(nn.Dropout(0.5)), "Sequential(0=Dropout(p=0.5, inplace=False))"),
    ],
)
def test_a_value_is_described_by_its_kind_and_its_settings(value, described):
    assert describe(value) == described


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
