"""The time of a training that is interrupted."""

import pytest

from attention_course.experiments import clock as module
from attention_course.experiments.clock import Clock


def test_what_is_repeated_is_counted_once(tmp_path, monkeypatch):
    times = iter([(0, 0), (5, 4), (7, 6), (100, 0), (103, 2), (104, 3)])
    monkeypatch.setattr(module, "_now", lambda: next(times))
    clock = Clock(tmp_path / "seconds.json")
    clock.lap(10)
    clock.lap(20)  # and killed before the checkpoint of step 20
    assert clock.total() == {"wall": 7, "cpu": 6}
    clock = Clock(tmp_path / "seconds.json")
    clock.lap(20)
    clock.lap(30)
    assert clock.total() == pytest.approx({"wall": 5 + 3 + 1, "cpu": 4 + 2 + 1})


def test_nothing_has_been_trained(tmp_path):
    assert Clock(tmp_path / "seconds.json").total() == {"wall": 0, "cpu": 0}


def test_a_damaged_file_is_named(tmp_path):
    (tmp_path / "seconds.json").write_text("[]")
    with pytest.raises(ValueError, match=r"seconds\.json is damaged"):
        Clock(tmp_path / "seconds.json").lap(10)
