"""The study of chapter 5: its file has the runs that its settings name, and one can be repeated."""

import pytest
import torch

from companion.tasks import TranslationTask, luong_general, luong_study, short_numbers
from companion.tasks.studies import recorded


def test_the_recorded_runs_are_those_of_the_settings():
    settings, runs = luong_study.settings(), recorded("luong")
    for setting, run in zip(settings, runs, strict=True):
        assert setting.items() <= run.items()
        assert set(run) - set(setting) == {"test", "validation_loss"}
        assert len(run["test"]) == len(luong_study.RANGES[run["task"]])
        assert all(0 <= match <= 1 for match in run["test"])
        assert 0 <= run["validation_loss"] < 5


def test_no_setting_is_there_twice_and_each_has_three_seeds():
    found = [tuple(setting.values()) for setting in luong_study.settings()]
    assert len(set(found)) == len(found)
    assert {seed for *_, seed in found} == {0, 1, 2}
    assert 3 * len({tuple(setting) for *setting, _ in found}) == len(found)


def test_two_letters_are_copied_and_no_sequence_is_in_two_sets():
    task = luong_study.two_letters()
    training, validation, test = (
        {pair.source for pair in pairs}
        for pairs in (task.training_pairs, task.validation_pairs, task.test_pairs)
    )
    assert not training & (validation | test)
    for pair in task.training_pairs[:50] + task.test_pairs:
        assert pair.source == pair.target
        assert set(pair.source) <= {"a", "b"}
    assert {len(source) for source in training} == {*range(5, 26)}
    assert max(map(len, validation)) == 25
    assert max(map(len, test)) == 40


def few(task):
    """The task with a few pairs of each set, and all words."""
    return TranslationTask(
        task.training_pairs[:200], task.validation_pairs[:2], task.test_pairs[:40]
    )


@pytest.mark.parametrize("attention", ["general", "local-p"])
@pytest.mark.parametrize("task", ["numbers", "copying"])
def test_a_run_is_measured_as_it_is_recorded(monkeypatch, task, attention):
    for name in ("short_numbers", "two_letters"):
        data = few(getattr(luong_study, name)())
        monkeypatch.setattr(luong_study, name, lambda data=data: data)
    setting = {"task": task, "attention": attention, "learning_rate": 0.01, "steps": 1}
    found = luong_study.measure(**setting, deviation=0.2, seed=3)
    assert set(found) == {"test", "validation_loss"}
    assert len(found["test"]) == len(luong_study.RANGES[task])
    assert found == luong_study.measure(**setting, deviation=0.2, seed=3)
    losses = {
        luong_study.measure(**setting, deviation=deviation, seed=seed)[
            "validation_loss"
        ]
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
        luong_study.measure("numbers", **setting, seed=1)
    expected = luong_general(short_numbers(), seed=1)
    for name, parameter in models[0].named_parameters():
        assert torch.equal(parameter, expected.get_parameter(name))
