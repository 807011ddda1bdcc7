"""Recorded studies: a file is written run by run, continued, and read."""

import json

import pytest

from companion.tasks import studies
from companion.tasks.studies import record, recorded

SETTINGS = [{"x": 1, "seed": 0}, {"x": 2, "seed": 0}, {"x": 2, "seed": 1}]


class Measure:
    """The sum of the settings; remembers its calls, and fails at one of them."""

    def __init__(self, fails_at=None):
        self.calls, self.fails_at = [], fails_at

    def __call__(self, x, seed):
        if len(self.calls) == self.fails_at:
            raise KeyboardInterrupt
        self.calls.append({"x": x, "seed": seed})
        return {"sums": [x + seed]}


def runs(path):
    return json.loads(path.read_text("utf-8"))["runs"]


def test_a_study_is_written_with_one_line_a_run(tmp_path):
    path = tmp_path / "sums.json"
    record(path, "Sums", SETTINGS, Measure())
    assert runs(path) == [{**x, "sums": [x["x"] + x["seed"]]} for x in SETTINGS]
    lines = path.read_text("utf-8").splitlines()
    assert lines[1] == '  "title": "Sums",'
    assert lines[-3] == '    {"x": 2, "seed": 1, "sums": [3]}'


def test_an_interrupted_study_goes_on_where_it_was(tmp_path):
    path, again = tmp_path / "sums.json", Measure()
    with pytest.raises(KeyboardInterrupt):
        record(path, "Sums", SETTINGS, Measure(fails_at=2))
    assert len(runs(path)) == 2
    record(path, "Sums", SETTINGS, again)
    assert again.calls == SETTINGS[2:]
    whole = tmp_path / "whole.json"
    record(whole, "Sums", SETTINGS, Measure())
    assert path.read_bytes() == whole.read_bytes()


def test_a_study_can_be_changed(tmp_path):
    path, more = tmp_path / "sums.json", Measure()
    record(path, "Sums", SETTINGS[1:], Measure())
    record(path, "Sums", SETTINGS[:2], more)
    assert more.calls == SETTINGS[:1]
    assert [run["sums"] for run in runs(path)] == [[1], [2]]


def test_the_runs_of_a_file_are_all_of_the_same_versions(tmp_path):
    path = tmp_path / "sums.json"
    record(path, "Sums", SETTINGS[:1], Measure())
    path.write_text(path.read_text("utf-8").replace('"python": "', '"python": "0'))
    with pytest.raises(ValueError, match="name another file"):
        record(path, "Sums", SETTINGS, Measure())


def test_a_study_that_is_not_recorded_is_refused_with_those_that_are():
    with pytest.raises(
        ValueError, match=r"no study \.\./x is recorded, only .*bahdanau"
    ):
        recorded("../x")


@pytest.mark.parametrize("path", sorted(studies.FOLDER.glob("*.json")))
def test_every_recorded_study_is_read(path):
    assert recorded(path.stem) == runs(path)
