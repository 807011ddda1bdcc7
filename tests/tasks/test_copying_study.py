"""The study of copying: its file has the runs that its settings name, and one can be repeated."""

import pytest

from companion.tasks import copying_study
from companion.tasks.studies import recorded


def test_the_recorded_runs_are_those_of_the_settings():
    settings, runs = copying_study.settings(), recorded("copying")
    for setting, run in zip(settings, runs, strict=True):
        assert setting.items() <= run.items()
        measured = {"test", "validation"} | ({"history"} if "curve" in run else set())
        assert set(run) - set(setting) == measured
        assert all(0 < bits < 6 for bits in (*run["validation"], *run["test"]))
        if "curve" in run:
            assert run["history"][-1] == [run["steps"], *run["validation"]]


def test_no_setting_is_there_twice():
    found = [tuple(setting.items()) for setting in copying_study.settings()]
    assert len(set(found)) == len(found)


def test_the_texts_are_the_same_for_every_gap():
    one, two = copying_study.copying_task(), copying_study.copying_task(gap=2)
    assert one.test_passages == two.test_passages
    assert one.length == 128
    sets = one.train_passages, one.validation_passages, one.test_passages
    assert all(map(len, sets))


@pytest.mark.parametrize("pattern", copying_study.PATTERNS)
def test_every_pattern_has_two_causal_layers_of_its_own(pattern):
    first, second = copying_study.pattern_layers(pattern)
    assert first is not second
    assert first.causal
    assert second.causal


def test_a_run_is_measured_as_it_is_recorded(monkeypatch):
    task = copying_study.copying_task
    few = {"train": 8, "validation": 2, "test": 3}

    def short(gap):
        whole = task(gap)
        for name, count in few.items():
            name = f"{name}_passages"
            setattr(whole, name, getattr(whole, name)[:count])
        return whole

    monkeypatch.setattr(copying_study, "copying_task", short)
    setting = {"pattern": "local", "gap": 2, "steps": 1, "learning_rate": 0.01}
    found = copying_study.measure(**setting, seed=3, curve=True)
    assert set(found) == {"test", "validation", "history"}
    assert found["history"] == [[1, *found["validation"]]]
    assert found == copying_study.measure(**setting, seed=3, curve=True)
    assert found != copying_study.measure(**setting, seed=4, curve=True)
