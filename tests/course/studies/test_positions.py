"""The study of positions: short targets in training only, and that a run can be repeated."""

import pytest
import torch

from attention_course.studies import positions
from attention_course.tasks import TranslationTask


def test_only_training_targets_are_short():
    task = positions.short_targets()
    assert max(len(pair.target) for pair in task.training_pairs) == 12
    shorter = positions.short_targets(longest=10)
    assert max(len(pair.target) for pair in shorter.training_pairs) == 10
    assert shorter.test_pairs == task.test_pairs
    assert max(len(pair.target) for pair in task.test_pairs) > 16


def test_a_model_without_positions_has_none_to_train():
    table = positions.no_positions()
    vectors = torch.rand(1, 3, 64)
    assert torch.equal(table(vectors), vectors)
    assert not any(parameter.requires_grad for parameter in table.parameters())


@pytest.mark.parametrize("model", [*positions.POSITIONS, "Luong"])
def test_a_run_is_measured_as_it_is_recorded(monkeypatch, model):
    whole = positions.short_targets()
    few = [
        next(p for p in whole.test_pairs if low <= len(p.target) <= high)
        for low, high in positions.LENGTH_RANGES
    ]
    small = TranslationTask(whole.training_pairs[:200], whole.validation_pairs[:4], few)
    monkeypatch.setattr(positions, "short_targets", lambda longest=12: small)
    found = positions.measure(model, steps=1, seed=0, longest=12)
    assert len(found["test"]) == len(positions.LENGTH_RANGES)
    first, again, other = (positions.train(model, 1, seed) for seed in (0, 0, 1))
    for name, parameter in first.named_parameters():
        assert torch.equal(parameter, again.get_parameter(name))
    assert any(
        not torch.equal(parameter, other.get_parameter(name))
        for name, parameter in first.named_parameters()
    )
