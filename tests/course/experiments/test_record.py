import json
import math

import pytest

from attention_course.experiments.record import (
    RESULT,
    VERSION,
    read_result,
    require_same_arguments,
    write_json,
)


@pytest.fixture
def result():
    return {"version": VERSION} | {name: kind() for name, kind in RESULT.items()}


def test_a_result_is_read_as_it_was_written(tmp_path, result):
    write_json(tmp_path / "result.json", result)
    assert read_result(tmp_path / "result.json") == result


@pytest.mark.parametrize("version", [None, 1, VERSION + 1, str(VERSION)])
def test_a_result_of_another_version_is_refused(tmp_path, result, version):
    write_json(tmp_path / "result.json", result | {"version": version})
    with pytest.raises(
        ValueError,
        match=rf"result\.json is .* version {version}, but version {VERSION}",
    ):
        read_result(tmp_path / "result.json")


def test_a_damaged_result_is_named(tmp_path, result):
    path = tmp_path / "result.json"
    whole = json.dumps(result)
    for content in (
        *("", whole[:-1], whole.replace("{", "\xff")),
        *("[]", "5", "[" * 100_000),  # no object, and deeper than Python reads
    ):
        path.write_bytes(content.encode("latin-1"))
        with pytest.raises(ValueError, match=r"result\.json is damaged"):
            read_result(path)


@pytest.mark.parametrize("name", RESULT)
def test_a_result_with_a_part_missing_or_of_another_kind_is_refused(
    tmp_path, result, name
):
    for wrong in (
        {key: value for key, value in result.items() if key != name},
        result | {name: None},
    ):
        write_json(tmp_path / "result.json", wrong)
        with pytest.raises(
            ValueError, match=rf"result\.json is no result .* its {name}$"
        ):
            read_result(tmp_path / "result.json")


def test_a_result_that_is_not_there_stays_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"result\.json"):
        read_result(tmp_path / "result.json")


def test_other_arguments_are_named(tmp_path):
    require_same_arguments(tmp_path, {"seed": 0})
    write_json(tmp_path / "arguments.json", {"seed": 0})
    require_same_arguments(tmp_path, {"seed": 0})
    with pytest.raises(ValueError, match="holds a run with seed = 0, but now seed = 1"):
        require_same_arguments(tmp_path, {"seed": 1})


def test_damaged_arguments_are_named(tmp_path):
    (tmp_path / "arguments.json").write_text('{"seed": ')
    with pytest.raises(ValueError, match=r"arguments\.json is damaged"):
        require_same_arguments(tmp_path, {"seed": 0})


def test_json_that_cannot_be_written_leaves_nothing(tmp_path):
    with pytest.raises(ValueError, match="nan"):
        write_json(tmp_path / "result.json", {"perplexity": float("nan")})
    assert not list(tmp_path.iterdir())


def test_infinity_is_null_in_json(tmp_path):
    figures = {"history": [{"step": 1, "perplexity": math.inf}], "test": {"bleu": 0.0}}
    write_json(tmp_path / "result.json", figures)
    expected = {"history": [{"step": 1, "perplexity": None}], "test": {"bleu": 0.0}}
    assert json.loads((tmp_path / "result.json").read_text()) == expected
