"""Recorded studies: a file is written run by run, continued, and read."""

import json
import platform
import sys

import pytest
import torch

from attention_course.studies import grid, record, recorded, recording
from attention_course.studies.__main__ import main

SETTINGS = [{"x": 1, "seed": 0}, {"x": 2, "seed": 0}, {"x": 2, "seed": 1}]


VERSIONS = {"python": platform.python_version(), "torch": torch.__version__}


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
    assert runs(path) == [
        {"setting": x, "measured": {"sums": [x["x"] + x["seed"]]}} for x in SETTINGS
    ]
    lines = path.read_text("utf-8").splitlines()
    assert lines[1] == '  "title": "Sums",'
    assert lines[-3] == (
        '    {"setting": {"x": 2, "seed": 1}, "measured": {"sums": [3]}}'
    )


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
    assert [run["measured"]["sums"] for run in runs(path)] == [[1], [2]]


def test_the_runs_of_a_file_are_all_of_the_same_versions(tmp_path):
    path = tmp_path / "sums.json"
    record(path, "Sums", SETTINGS[:1], Measure())
    path.write_text(path.read_text("utf-8").replace('"python": "', '"python": "0'))
    with pytest.raises(ValueError, match="name another file"):
        record(path, "Sums", SETTINGS, Measure())


def test_a_study_may_get_another_title(tmp_path):
    path = tmp_path / "sums.json"
    record(path, "Sums", SETTINGS, Measure())
    record(path, "All sums", SETTINGS, never := Measure())
    assert json.loads(path.read_text("utf-8"))["title"] == "All sums"
    assert len(runs(path)) == 3
    assert not never.calls


def test_every_module_but_this_one_is_a_study(tmp_path, monkeypatch):
    for name in ("__main__.py", "b.py", "a.py", "recording.py", "c.json"):
        (tmp_path / name).touch()
    monkeypatch.setattr(recording, "FOLDER", tmp_path)
    assert recording.names() == ["a", "b"]


def test_a_study_that_is_not_recorded_is_refused_with_those_that_are():
    with pytest.raises(
        ValueError, match=r"no study \.\./x is recorded, only .*copying"
    ):
        recorded("../x")


def test_runs_are_found_by_their_settings(tmp_path, monkeypatch):
    monkeypatch.setattr(recording, "FOLDER", tmp_path)
    record(tmp_path / "sums.json", "Sums", SETTINGS, Measure())
    assert recorded("sums", x=2, seed=1) == [{"x": 2, "seed": 1, "sums": [3]}]
    assert [run["sums"] for run in recorded("sums", x=2)] == [[2], [3]]
    with pytest.raises(ValueError, match=r"none of the 3 runs of sums has {'x': 3}"):
        recorded("sums", x=3)


def test_a_run_that_is_no_longer_wanted_is_dropped(tmp_path):
    path = tmp_path / "sums.json"
    record(path, "Sums", SETTINGS, Measure())
    record(path, "Sums", SETTINGS[1:], never := Measure())
    assert [run["setting"] for run in runs(path)] == SETTINGS[1:]
    assert not never.calls


def test_the_file_of_another_study_is_refused_and_stays_as_it_is(tmp_path):
    path = tmp_path / "sums.json"
    record(path, "Sums", SETTINGS, Measure())
    before = path.read_bytes()
    with pytest.raises(ValueError, match=r"none of the 3 runs of .* is of this study"):
        record(path, "Others", [{"x": 9, "seed": 0}], Measure())
    assert path.read_bytes() == before


def test_a_setting_with_more_names_is_another_run(tmp_path):
    path, more = tmp_path / "sums.json", {"x": 1, "seed": 0, "more": True}
    record(path, "Sums", [SETTINGS[0], more], lambda **setting: {"n": len(setting)})
    assert [run["measured"]["n"] for run in runs(path)] == [2, 3]


def test_numbers_are_rounded_at_any_depth(tmp_path):
    path, third = tmp_path / "sums.json", 1 / 3
    measured = {"a": third, "b": [[third, 2]], "c": {"d": (third,)}, "e": True}
    record(path, "Sums", [{}], lambda: measured)
    assert runs(path)[0]["measured"] == {
        "a": 0.3333,
        "b": [[0.3333, 2]],
        "c": {"d": [0.3333]},
        "e": True,
    }


def test_ambiguous_studies_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"the setting {'x': 1} occurs twice"):
        record(tmp_path / "a.json", "A", [{"x": 1}, {"x": 1}], Measure())
    with pytest.raises(ValueError, match="set and measured at once: x"):
        record(tmp_path / "a.json", "A", [{"x": 1}], lambda x: {"x": x})


def test_a_grid_has_every_combination():
    found = grid(a=[1, 2], b="xy", c=range(2))
    assert [(one["a"], one["b"], one["c"]) for one in found] == [
        (1, "xy", 0),
        (1, "xy", 1),
        (2, "xy", 0),
        (2, "xy", 1),
    ]


def test_the_command_makes_the_named_study(tmp_path, monkeypatch):
    from attention_course.studies import luong

    path = tmp_path / "luong.json"
    monkeypatch.setattr(luong, "settings", lambda: SETTINGS)
    monkeypatch.setattr(luong, "measure", Measure())
    monkeypatch.setattr(sys, "argv", ["studies", "luong", str(path)])
    main()
    assert len(runs(path)) == 3
    assert json.loads(path.read_text("utf-8"))["title"] == luong.TITLE


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is damaged"),
        ("{", "is damaged"),
        ("\xff", "is damaged"),
        ("[" * 100_000, "is damaged"),
        ("[]", "is damaged"),
        ("{}", "holds no runs"),
        ('{"runs": 5}', "holds no runs"),
        ('{"runs": [5]}', "holds no runs"),
        ('{"runs": [{"measured": {}}]}', "holds no runs"),
        ('{"runs": []}', "name another file"),
        ('{"runs": [], "python": "0", "torch": "0"}', "name another file"),
        (json.dumps({"runs": [{"setting": {}, "measured": {}}]} | VERSIONS), "of this"),
    ],
)
def test_a_file_that_cannot_be_continued_is_named_in_one_line(
    tmp_path, monkeypatch, capsys, content, message
):
    path = tmp_path / "luong.json"
    path.write_bytes(content.encode("latin-1"))
    error = refused(path, monkeypatch, capsys)
    assert str(path) in error
    assert message in error
    assert path.read_bytes() == content.encode("latin-1")


@pytest.mark.parametrize("path", [".", "/dev/null/x.json"])
def test_a_path_that_is_no_file_is_named_in_one_line(path, monkeypatch, capsys):
    assert path.removesuffix("/x.json") in refused(path, monkeypatch, capsys)


def refused(path, monkeypatch, capsys):
    """The last line of what the command prints when it refuses a file and exits with 2."""
    monkeypatch.setattr(sys, "argv", ["studies", "luong", str(path)])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith("python -m attention_course.studies: error: ")
    return line


def test_an_unknown_study_is_refused_with_those_that_there_are(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["studies", "recording", "x.json"])
    with pytest.raises(SystemExit):
        main()
    error = capsys.readouterr().err
    assert "invalid choice: 'recording'" in error
    assert "luong" in error
