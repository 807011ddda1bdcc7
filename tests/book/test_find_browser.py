"""What is found or got for the tests of the book, and what is said of it."""

import sys

from browser import get


def python(code):
    return [sys.executable, "-c", code]


def test_each_way_is_tried_until_one_succeeds(tmp_path, capfd):
    there = tmp_path / "chromium"

    def find():
        if there.exists():
            return str(there)
        raise FileNotFoundError("none was found")

    failing, never = python("raise SystemExit(1)"), python("print('never asked')")
    get(find, failing)
    get(find, failing, python(f"open({str(there)!r}, 'w')"), never)
    get(find, never)
    said = ["none was found", f"found {there}", f"found {there}"]
    assert capfd.readouterr().out.splitlines() == said
