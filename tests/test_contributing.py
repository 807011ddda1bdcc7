"""CONTRIBUTING.md: its lists of files are true, and its example of a new mechanism works as it is written."""

import ast
import re
import shutil
import subprocess
import sys

import pytest

from tests.conftest import ROOT

TEXT = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
PART = re.compile(r"(?<=<!-- (files|tools) -->\n).*?(?=<!-- /\1 -->)", re.DOTALL)
FILE = re.compile(r"^`([\w/.]+\.py)`\n\n```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
FOLDERS = (
    "",
    "data",
    "attention",
    "attention/kernels",
    "layers",
    "decoding",
    "models",
    "training",
    "tasks",
    "studies",
    "visualization",
    "diagrams",
    "exercises",
    "experiments",
)


def purpose(path):
    """The first sentence of a module's docstring."""
    docstring = ast.get_docstring(ast.parse(path.read_text("utf-8")))
    return re.split(r"(?<=[^l]\.)\s", " ".join(docstring.split("\n\n")[0].split()))[0]


def list_of_files():
    """Every module of the package with its purpose, folder by folder, as it is in CONTRIBUTING.md."""
    rows = ["| file | what is in it |", "|---|---|"]
    for folder in FOLDERS:
        path = ROOT / "companion" / folder
        rows.append(
            f"| **`{path.relative_to(ROOT).as_posix()}/`** | {purpose(path / '__init__.py')} |"
        )
        names = sorted(x.name for x in path.glob("*.py") if x.name != "__init__.py")
        rows += [f"| `{name}` | {purpose(path / name)} |" for name in names]
    return "\n".join(rows) + "\n"


def list_of_tools():
    """Every file of book/tools with the first sentence of its docstring, or with its first comment."""
    folder = ROOT / "book" / "tools"
    found = {path.name: purpose(path) for path in folder.glob("*.py")}
    for path in folder.glob("*.css"):
        found[path.name] = re.match(r"/\* (.*?) \*/", path.read_text("utf-8"))[1]
    rows = "".join(f"| `{name}` | {found[name]} |\n" for name in sorted(found))
    return f"| file of `book/tools/` | what it is for |\n|---|---|\n{rows}"


LISTS = {"files": list_of_files, "tools": list_of_tools}


@pytest.mark.parametrize("name", LISTS)
def test_the_list_has_every_file_and_what_it_is_for(name):
    (found,) = [part[0] for part in PART.finditer(TEXT) if part[1] == name]
    assert found == LISTS[name](), "run: python -m tests.test_contributing"


def test_no_folder_is_missing_from_the_list():
    folders = {path.parent for path in (ROOT / "companion").rglob("*.py")}
    assert folders == {ROOT / "companion" / folder for folder in FOLDERS}


def test_a_new_mechanism_in_five_steps(tmp_path):
    for folder in ("companion", "tests"):
        shutil.copytree(
            ROOT / folder,
            tmp_path / folder,
            ignore=shutil.ignore_patterns("__pycache__", "book", "benchmarks"),
        )
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    files = dict(FILE.findall(TEXT))
    assert len(files) == 4
    for name, text in files.items():
        path = tmp_path / name
        if path.exists():  # a row that joins others
            before, after = path.read_text("utf-8").split("\nBATCHES = ", 1)
            text = f"from companion.attention import Gaussian  # noqa: E402\n{text}"
            text = f"{before}\n{text}\nBATCHES = {after}"
        path.write_text(text, "utf-8")
    rooms = tmp_path / "companion" / "attention" / "__init__.py"
    line = "\nfrom companion.attention.gaussian import Gaussian\n"
    rooms.write_text(rooms.read_text("utf-8") + line, "utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += [
        "tests/attention/test_gaussian.py",
        "tests/contracts/test_attention.py",
        "-k",
        "gaussian",
    ]
    run = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert run.returncode == 0, run.stdout
    assert int(re.search(r"(\d+) passed", run.stdout)[1]) > 30


if __name__ == "__main__":
    path = ROOT / "CONTRIBUTING.md"
    path.write_text(PART.sub(lambda part: LISTS[part[1]](), TEXT), "utf-8")
