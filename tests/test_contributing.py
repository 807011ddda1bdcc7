"""CONTRIBUTING.md: its example of a new mechanism works as it is written."""

import os
import re
import shutil
import subprocess
import sys

import pytest

from tests.conftest import ROOT

TEXT = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
FILE = re.compile(r"^`([\w/.]+\.py)`\n\n```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


@pytest.fixture
def five_steps(tmp_path):
    """A copy of the project in which the steps have been carried out; what runs a command in it."""
    for name in (
        "companion",
        "book",
        "tests",
        *(x.name for x in ROOT.iterdir() if x.is_file()),
    ):
        source = ROOT / name
        if source.is_dir():
            skipped = shutil.ignore_patterns(
                "__pycache__", "*.ipynb", "test_contributing.py"
            )
            shutil.copytree(source, tmp_path / name, ignore=skipped)
        else:
            shutil.copy(source, tmp_path)
    files = dict(FILE.findall(TEXT))
    assert len(files) == 4
    for name, text in files.items():
        with (tmp_path / name).open(
            "a", encoding="utf-8"
        ) as file:  # a row joins others
            file.write(text)
    facade = tmp_path / "companion" / "attention" / "__init__.py"
    text = facade.read_text("utf-8")
    text = text.replace(
        "\n\nfrom ", "\n\nfrom companion.attention.gaussian import Gaussian\nfrom ", 1
    )
    facade.write_text(
        text.replace("__all__ = [", '__all__ = [\n    "Gaussian",', 1), "utf-8"
    )

    def run(*command):
        path = f"{tmp_path}:{tmp_path / 'book'}"
        found = subprocess.run(
            command,
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": path},
        )
        assert found.returncode == 0, found.stdout[-5000:] + found.stderr
        return found.stdout

    run(sys.executable, "-m", "ruff", "check", "--fix", "companion")
    return run


def test_a_new_mechanism_keeps_the_contract(five_steps):
    tests = ("tests/attention/test_gaussian.py", "tests/contracts/test_attention.py")
    found = five_steps(sys.executable, "-m", "pytest", "-q", *tests, "-k", "gaussian")
    assert int(re.search(r"(\d+) passed", found)[1]) > 30


@pytest.mark.slow
def test_a_new_mechanism_is_quickly_checked(five_steps, tmp_path):
    (tmp_path / ".venv").symlink_to(sys.prefix)
    assert " passed" in five_steps("make", "--assume-old=.venv/ready", "quick")
