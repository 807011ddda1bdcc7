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

from tests.conftest import ROOT

MODULES = {
    path.relative_to(ROOT).as_posix() for path in (ROOT / "companion").rglob("*.py")
}


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
    (wheel,) = tmp_path.glob("companion-*.whl")
    names = {
        name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name
    }
    assert names == {*MODULES, "companion/py.typed"}


def test_the_lines_of_the_readme_run():
    (block,) = re.findall(
        r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL
    )
    assert len(block.strip().splitlines()) <= 12
    exec(compile(block, "README.md", "exec"), {})


def imported(folder):
    """What the files of a folder import, by the names of the top packages."""
    nodes = [
        node
        for path in sorted((ROOT / folder).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
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
    """A distribution's name as all spell it: ``Jupyter_Book`` is ``jupyter-book``."""
    return re.sub("[-_.]+", "-", name).lower()


@pytest.mark.parametrize(
    ("folder", "extras"),
    [
        ("companion", ["experiments"]),
        *((folder, ["experiments", "book", "test"]) for folder in ("book", "tests")),
    ],
)
def test_every_import_is_declared(folder, extras):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    lines = sum(
        (project["optional-dependencies"][extra] for extra in extras),
        project["dependencies"],
    )
    declared = {normal(re.match(r"[\w.-]+", line)[0]) for line in lines}
    ours = {
        path.stem
        for place in ("book/tools", "tests/benchmarks")
        for path in (ROOT / place).glob("*.py")
    }
    owners = packages_distributions()
    foreign = imported(folder) - ours - {"companion", "tests"}
    assert {
        name
        for name in foreign
        if not declared & set(map(normal, owners.get(name, ())))
    } == set()


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
    "path", sorted(MODULES - {path for path in MODULES if "/exercises/" in path})
)
def test_every_public_constant_is_described(path):
    found = public_constants((ROOT / path).read_text("utf-8").splitlines())
    assert [
        name
        for name, line, above in found
        if "#: " not in line and not above.startswith("#: ")
    ] == []
