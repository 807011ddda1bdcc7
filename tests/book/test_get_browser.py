"""What is found or got for the tests of the book, and what is said of it."""

import sys

from get_browser import get


def python(code):
    return [sys.executable, "-c", code]


def test_each_way_is_tried_until_one_succeeds(tmp_path, capsys):
    there = tmp_path / "chromium"

    def find():
        return str(there) if there.exists() else None

    get(
        "Chromium",
        find,
        {
            "a server": python("raise SystemExit('an Error: no network\\nthe end')"),
            "a disk": python(f"open({str(there)!r}, 'w')"),
            "nowhere": python("raise SystemExit('never asked')"),
        },
    )
    assert capsys.readouterr().out.splitlines() == [
        "Chromium: could not be had from a server: an Error: no network",
        f"Chromium: installed from a disk, {there}",
    ]
    get("Chromium", find, {})
    assert capsys.readouterr().out == f"Chromium: found, {there}\n"


def test_what_cannot_be_had_says_what_follows(capsys):
    get("Chromium", lambda: None, {"a disk": python("print('full')")})
    assert capsys.readouterr().out.splitlines() == [
        "Chromium: could not be had from a disk: full",
        "Chromium: there is none. The browser tests will be skipped; on Debian, "
        "apt-get install chromium.",
    ]
