"""What the wheel holds, and what the README promises of it. (test_colab.py installs it.)"""

import ast
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import packages_distributions

import pytest
import yaml

import companion
from attention_course.experiments.recorded import FOLDER
from attention_course.studies.recording import FOLDER as STUDIES
from tests.conftest import NEED_EXPERIMENTS, ROOT

FOLDERS = (ROOT / "companion", ROOT / "book" / "attention_course")
MODULES = {path for folder in FOLDERS for path in folder.rglob("*.py")}

DATA = {
    ROOT / "companion" / "py.typed",
    ROOT / "book" / "attention_course" / "diagrams" / "speed_of_light.json",
    ROOT / "book" / "attention_course" / "live" / "beam.json",
    ROOT / "book" / "attention_course" / "live" / "heads.json",
    ROOT / "book" / "attention_course" / "live" / "hops.json",
    ROOT / "book" / "attention_course" / "live" / "question.json",
    *FOLDER.rglob("*.json"),
    *STUDIES.glob("*.json"),
}


def name_in_the_wheel(path):
    return path.relative_to(ROOT).as_posix().removeprefix("book/")


def test_the_wheel_holds_the_package_and_nothing_else(tmp_path):
    command = [
        sys.executable,
        "-m",
        "build",
        "--wheel",
        "--no-isolation",
        "--outdir",
        str(tmp_path),
    ]
    result = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert result.returncode == 0, result.stdout + result.stderr
    (wheel,) = tmp_path.glob("attention_companion-*.whl")
    names = {
        name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name
    }
    assert names == {name_in_the_wheel(path) for path in MODULES | DATA}


def test_the_citation_names_the_book_and_the_version_of_the_package():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    book = yaml.safe_load((ROOT / "_config.yml").read_text("utf-8"))
    assert citation["version"] == companion.__version__
    assert citation["title"] == book["title"]
    assert citation["authors"] == [{"name": book["author"]}]


def test_the_lines_of_the_readme_run():
    (block,) = re.findall(
        r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL
    )
    assert len(block.strip().splitlines()) <= 12
    exec(compile(block, "README.md", "exec"), {})


CORE = ("attention", "layers", "decoding", "models", "losses")
#: What each folder may import: the requirements of an extra, which may include others.
EXTRAS = {
    **{f"companion/{room}": "" for room in CORE},
    "companion/interop.py": "all",
    "companion": "book",
    "book/attention_course": "experiments",
    "book/tools": "site",
    "tests": "test",
    "tests/book": "site",
    "tests/benchmarks": "all",
}
#: Scripts import those beside them by their names.
SCRIPTS = ("book/tools/*.py", "tests/benchmarks/*.py")


def files_of(folder):
    """The Python files of a folder; without those that have another extra."""
    others = [
        "tests/book",
        "tests/benchmarks",
        *(f"tests/{x}" for x in NEED_EXPERIMENTS),
    ]
    others = {"tests": others, "companion": ["companion/interop.py"]}.get(folder, [])
    paths = [ROOT / folder] if folder.endswith(".py") else (ROOT / folder).rglob("*.py")
    return [
        path
        for path in sorted(paths)
        if not any(path.is_relative_to(ROOT / other) for other in others)
    ]


def imported(paths):
    """What these files import, by the names of the top packages."""
    nodes = [
        node for path in paths for node in ast.walk(ast.parse(path.read_text("utf-8")))
    ]
    found = {
        alias.name
        for node in nodes
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    found |= {node.module for node in nodes if isinstance(node, ast.ImportFrom)}
    return {name.split(".")[0] for name in found} - sys.stdlib_module_names


def normal(name):
    """A distribution's name in its normal form: ``Jupyter_Book`` is ``jupyter-book``."""
    return re.sub("[-_.]+", "-", name).lower()


def requirements(extra):
    """The distributions that an extra installs, those of the extras that it includes, and the core's."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    lines = [*project["dependencies"]]
    lines += project["optional-dependencies"][extra] if extra else []
    found = set()
    for line in lines:
        name, included = re.match(r"([\w.-]+)(?:\[(\w+)\])?", line).groups()
        found |= requirements(included) if included else {normal(name)}
    return found


@pytest.mark.parametrize(("folder", "extra"), EXTRAS.items())
def test_every_import_is_declared(folder, extra):
    ours = {path.stem for kind in SCRIPTS for path in ROOT.glob(kind)}
    owners, declared = packages_distributions(), requirements(extra)
    foreign = (
        imported(files_of(folder)) - ours - {"companion", "attention_course", "tests"}
    )
    missing = {
        name
        for name in foreign
        if not declared & {normal(owner) for owner in owners.get(name, [name])}
    }
    assert missing == set()


def test_a_copy_of_the_folder_needs_no_installation(tmp_path):
    shutil.copytree(
        ROOT / "companion",
        tmp_path / "companion",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    program = """
from importlib import metadata
def version(name):
    assert name != "companion", name
    return found(name)
found, metadata.version = metadata.version, version
import companion.attention.base, companion.visualization.plots
print(companion.__file__)
"""
    command = [sys.executable, "-c", program]
    run = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == str(tmp_path / "companion" / "__init__.py")


def public_constants(lines):
    """The names that a module assigns at its top, each with the line, and those above it, up to its own."""
    for node in ast.parse("\n".join(lines)).body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [
                x.id
                for target in targets
                for x in ast.walk(target)
                if isinstance(x, ast.Name)
            ]
            for name in names:
                if not name.startswith("_"):
                    yield name, lines[node.lineno - 1], lines[node.lineno - 2]


@pytest.mark.parametrize(
    "path",
    sorted((ROOT / "companion").rglob("*.py"), key=str),
    ids=lambda path: path.stem,
)
def test_every_public_constant_is_described(path):
    found = public_constants(path.read_text("utf-8").splitlines())
    assert [
        name
        for name, line, above in found
        if "#: " not in line and not above.startswith("#: ")
    ] == []
