"""The study of chapter 1 on the bottleneck: its models, its training pairs, and its runs."""

import pytest
import torch

from attention_course.studies import bottleneck
from attention_course.studies.bottleneck import LONGEST, NETWORKS, SHORTER, build
from attention_course.tasks.translation import TranslationTask
from companion.models.bahdanau import BahdanauDecoder


@pytest.mark.parametrize("longest", [SHORTER, LONGEST])
def test_a_limit_keeps_longer_targets_out_of_training_alone(longest):
    task = bottleneck._task(longest)
    for pairs in (task.training_pairs, task.validation_pairs):
        assert max(len(pair.target) for pair in pairs) == longest
    assert max(len(pair.target) for pair in task.test_pairs) == LONGEST


def test_with_and_without_attention_the_parameters_are_the_same():
    one, attention = (build(reads, 8, seed=0) for reads in NETWORKS)
    for found, expected in zip(one.parameters(), attention.parameters(), strict=True):
        assert torch.equal(found, expected)


def test_the_vector_has_twice_as_many_numbers_as_a_direction_has_units():
    model = build("one vector", 16, seed=0)
    states, _ = model.encoder(torch.randint(4, 20, (3, 7)))
    assert states.shape == (3, 1, 32)


def test_one_call_for_all_steps_gives_the_logits_of_one_step_after_another():
    model = build("one vector", 8, seed=0).double()
    source, target = torch.randint(4, 20, (3, 7)), torch.randint(4, 20, (3, 5))
    source[1, 4:] = 0
    state = model.start(source)
    at_once = model.decoder(target, state)
    torch.testing.assert_close(
        at_once, BahdanauDecoder.forward(model.decoder, target, state)
    )


def test_a_run_is_measured_as_it_is_recorded(monkeypatch):
    task = bottleneck._task(LONGEST)
    short = [pair for pair in task.test_pairs if len(pair.target) < 5]
    small = TranslationTask(task.training_pairs[:64], task.validation_pairs[:4], short)
    monkeypatch.setattr(bottleneck, "_task", lambda longest: small)
    monkeypatch.setattr(bottleneck, "LENGTHS", ((2, 4),))
    setting = {"units": 8, "longest": 27, "steps": 2, "learning_rate": 0.02}
    found = bottleneck.measure("one vector", **setting, seed=0)
    assert set(found) == {"validation", "test"}
    assert len(found["validation"]) == len(found["test"]) == 1
    assert found == bottleneck.measure("one vector", **setting, seed=0)
    assert found != bottleneck.measure("one vector", **setting, seed=1)
