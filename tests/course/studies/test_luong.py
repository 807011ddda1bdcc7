"""The study of chapter 5: its models, and that a run can be repeated."""

import pytest
import torch

from attention_course.studies import luong
from attention_course.tasks import (
    TranslationTask,
    luong_general,
    short_numbers,
    two_letters,
)


def few(task):
    """The task with a few pairs of each set, and all words."""
    return TranslationTask(
        task.training_pairs[:200], task.validation_pairs[:2], task.test_pairs[:10]
    )


@pytest.mark.parametrize("attention", ["general", "local-p"])
@pytest.mark.parametrize("task", ["numbers", "copying"])
def test_a_run_is_measured_as_it_is_recorded(monkeypatch, task, attention):
    monkeypatch.setattr(luong, "short_numbers", lambda: few(short_numbers()))
    monkeypatch.setattr(luong, "two_letters", lambda count: few(two_letters(count)))
    setting = {"task": task, "attention": attention, "learning_rate": 0.01, "steps": 1}
    found = luong.measure(**setting, deviation=0.2, seed=3)
    assert set(found) == {"test", "validation_loss"}
    assert len(found["test"]) == len(luong.RANGES[task])
    assert found == luong.measure(**setting, deviation=0.2, seed=3)
    losses = {
        luong.measure(**setting, deviation=deviation, seed=seed)["validation_loss"]
        for deviation, seed in [(0.2, 3), (0.2, 4), (0.07, 3)]
    }
    assert len(losses) == 3


def test_general_is_the_model_of_the_chapter(monkeypatch):
    models = []
    monkeypatch.setattr(
        TranslationTask, "train", lambda self, model, *_: models.append(model) or [{}]
    )
    setting = {"attention": "general", "deviation": 0.2, "learning_rate": 1, "steps": 1}
    with pytest.raises(KeyError, match="held_out_loss"):
        luong.measure("numbers", **setting, seed=1)
    expected = luong_general(short_numbers(), seed=1)
    for name, parameter in models[0].named_parameters():
        assert torch.equal(parameter, expected.get_parameter(name))
