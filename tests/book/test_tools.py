"""The book's tools: the tests of the package do without them, and all their style sheets are used."""

import os
import subprocess
import sys

from tests.conftest import ROOT

TOOLS = ROOT / "book" / "tools"
SITE_TOOLS = (
    "IPython",
    "axe_playwright_python",
    "docutils",
    "ipykernel",
    "jupyter_book",
    "jupytext",
    "nbclient",
    "nbformat",
    "nbval",
    "pikepdf",
    "playwright",
    "pypdfium2",
    "sphinx",
)


def test_every_style_sheet_of_the_tools_is_used():
    code = "".join(path.read_text("utf-8") for path in TOOLS.glob("*.py"))
    for path in TOOLS.glob("*.css"):
        assert f'"{path.name}"' in code


def test_unit_tests_need_none_of_the_books_tools():
    program = f"""
import sys
sys.modules |= dict.fromkeys({SITE_TOOLS})  # importing any of them is an error
import pytest
sys.exit(pytest.main(sys.argv[1:]))
"""
    options = ["--collect-only", "-q", "tests", "--ignore=tests/book"]
    run = subprocess.run(
        [sys.executable, "-c", program, *options, "-p", "no:cacheprovider"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        check=False,
    )
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr
