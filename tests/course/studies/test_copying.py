"""The study of chapter 7: its texts and patterns, and that a run can be repeated."""

import pytest

from attention_course.studies import copying
from attention_course.studies.recording import recorded


def test_the_history_of_a_run_ends_with_its_figures():
    for run in recorded("copying"):
        assert all(0 < bits < 6 for bits in (*run["validation"], *run["test"]))
        assert run["history"][-1] == [run["steps"], *run["validation"]]


def test_the_texts_are_the_same_for_every_gap():
    one, two = copying.copying_task(), copying.copying_task(gap=2)
    assert one.test_passages == two.test_passages
    assert one.length == 128
    sets = one.train_passages, one.validation_passages, one.test_passages
    assert all(map(len, sets))


@pytest.mark.parametrize("pattern", copying.PATTERNS)
def test_every_pattern_has_two_causal_layers_of_its_own(pattern):
    first, second = copying.pattern_layers(pattern)
    assert first is not second
    assert first.causal
    assert second.causal


def test_a_run_is_measured_as_it_is_recorded(monkeypatch):
    task = copying.copying_task
    few = {"train": 8, "validation": 2, "test": 3}

    def short(gap):
        whole = task(gap)
        for name, count in few.items():
            name = f"{name}_passages"
            setattr(whole, name, getattr(whole, name)[:count])
        return whole

    monkeypatch.setattr(copying, "copying_task", short)
    setting = {"pattern": "local", "gap": 2, "steps": 1, "learning_rate": 0.01}
    found = copying.measure(**setting, seed=3)
    assert set(found) == {"test", "validation", "history"}
    assert found["history"] == [[1, *found["validation"]]]
    assert found == copying.measure(**setting, seed=3)
    assert found != copying.measure(**setting, seed=4)
