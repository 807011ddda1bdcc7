"""The setup cell: it finds the package, installs it from what lies there, or says what to put there."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.book.conftest import add_kernel, environment_outside, setup_source
from tests.conftest import ROOT

OURS = '[project]\nname = "attention-companion"\n'
ANOTHER = '[project]\nname = "mine"\ndependencies = ["attention-companion"]\n'
ADDRESS = "git+" + "https://example.org/attention"
OLD, WHEEL = (f"attention_companion-{n}.0.0-py3-none-any.whl" for n in (1, 2))


def run_cell():
    """What the setup cell calls %pip with."""
    called = []
    code = re.sub(r"%pip (.*)", r"called.append(f'\1')", setup_source())
    exec(code, {"called": called})
    return called


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder, the working folder of a notebook in an environment without the package."""
    folder = tmp_path / "my course" / "ä"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    monkeypatch.delenv("COMPANION_REPOSITORY", raising=False)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    return folder


def put(folder, files):
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


def test_what_can_be_imported_is_not_installed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    put(tmp_path, {WHEEL: "", "pyproject.toml": OURS})
    monkeypatch.setenv("COMPANION_REPOSITORY", ADDRESS)
    assert run_cell() == []


@pytest.mark.parametrize("missing", ["companion", "attention_course"])
def test_one_of_the_two_packages_is_not_enough(folder, monkeypatch, missing):
    put(folder, {WHEEL: ""})
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name != missing)
    assert len(run_cell()) == 1


@pytest.mark.parametrize(
    ("files", "source"),
    [
        ({WHEEL: ""}, WHEEL),
        ({OLD: "", WHEEL: ""}, WHEEL),
        ({"pyproject.toml": OURS}, "."),
        ({"../pyproject.toml": OURS}, ".."),
        ({"attention/pyproject.toml": OURS}, "attention"),
        ({"attention/pyproject.toml": OURS, "mine/pyproject.toml": ANOTHER}, "attention"),
        ({"attention/pyproject.toml": OURS, WHEEL: ""}, WHEEL),
    ],
)  # fmt: skip
def test_what_lies_there_is_installed(folder, monkeypatch, files, source):
    put(folder, files)
    monkeypatch.setenv("COMPANION_REPOSITORY", ADDRESS)
    address = (folder / source).resolve().as_uri()
    assert run_cell() == [f'install --quiet "attention-companion[book] @ {address}"']


@pytest.mark.parametrize("files", [{}, {"pyproject.toml": ANOTHER}])
def test_else_the_address_is_and_without_one_the_cell_says_what_to_put_where(
    folder, monkeypatch, files
):
    put(folder, files)
    with pytest.raises(FileNotFoundError) as error:
        run_cell()
    assert "put attention_companion-*.whl, or the book's repository, into" in str(error)
    assert str(folder) in str(error.value)
    monkeypatch.setenv("COMPANION_REPOSITORY", ADDRESS)
    assert run_cell() == [f'install --quiet "attention-companion[book] @ {ADDRESS}"']


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def alone(tmp_path):
    """A folder with a wheel, and beside it a kernel that has our libraries, but not the package."""
    python = tmp_path / "env" / ("Scripts" if os.name == "nt" else "bin") / "python"
    run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "env")
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    # what is installed as editable does not count in a folder that a .pth file names
    (path,) = run(python, "-c", where).splitlines()
    Path(path, "libraries.pth").write_text(sysconfig.get_path("purelib"))
    add_kernel(tmp_path, python, PIP_NO_INDEX="1")  # nothing else may be needed
    build = ["-m", "build", "--wheel", "--no-isolation"]
    run(sys.executable, *build, "--outdir", tmp_path / "alone", cwd=ROOT)
    return tmp_path / "alone"


@pytest.mark.slow
def test_a_notebook_alone_with_a_wheel_passes_nbval(alone):
    shutil.copy(ROOT / "book" / "02_bahdanau.ipynb", alone)
    command = ["-m", "pytest", "-p", "no:cacheprovider", "--nbval"]
    environment = environment_outside(alone.parent)
    kernel = "--nbval-kernel-name=fresh"
    run(sys.executable, *command, kernel, cwd=alone, env=environment)
    assert [*alone.parent.glob("env/**/attention_course/training")]
