"""Imports go down, room by room: the folders' names are all that these tests know of the package."""

import ast
import importlib
import re
import subprocess
import sys
from collections import Counter
from graphlib import CycleError, TopologicalSorter

import pytest

from tests.conftest import ROOT

#: A later room may import earlier ones, never the reverse.
ROOMS = (
    "_checks",
    "data",
    "attention",
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
INDEPENDENT = ("profiling", "notebook")  # import nothing of the package
CORE = ("attention", "layers", "decoding", "models")  # need PyTorch and little else


def module_name(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


PACKAGE = sorted((ROOT / "companion").rglob("*.py"))
SOURCES = {module_name(path): path.read_text("utf-8") for path in PACKAGE}
FACADES = {module_name(path) for path in PACKAGE if path.name == "__init__.py"}
MODULES = sorted(set(SOURCES) - {"companion"})


def room(module):
    return module.split(".")[1]


def imported(text, modules=SOURCES):
    """The modules of the package that a source imports, at its top or anywhere else.

    ``from companion.attention import masks`` imports a module, and
    ``from companion.attention import Dot`` the facade ``companion.attention``.
    """
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: write imports in full"
            for alias in node.names:
                submodule = f"{node.module}.{alias.name}"
                found.add(submodule if submodule in modules else node.module)
    return {name for name in found if name.split(".")[0] == "companion"}


def upward(module, text, modules=SOURCES):
    """What a module imports although it is not in an earlier room or its own."""
    own = room(module)
    below = () if own in INDEPENDENT else ROOMS[: ROOMS.index(own)]
    allowed = {own, *below} | (set() if own in INDEPENDENT else set(INDEPENDENT))
    names = imported(text, modules)
    return {x for x in names if x == "companion" or room(x) not in allowed}


def cycle(sources):
    """The modules of an import cycle, or an empty list."""
    graph = {name: imported(text, sources) - {name} for name, text in sources.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]
    return []


def test_every_module_is_in_a_room():
    assert {room(module) for module in MODULES} == {*ROOMS, *INDEPENDENT}


def test_there_are_at_most_six_modules_at_the_top():
    files = list((ROOT / "companion").glob("*.py"))
    assert len(files) - 1 <= 6  # without __init__.py


@pytest.mark.parametrize("module", MODULES)
def test_imports_go_down(module):
    assert upward(module, SOURCES[module]) == set()


@pytest.mark.parametrize("name", ROOMS)
def test_there_is_no_import_cycle_within_a_room(name):
    own = {
        module: text
        for module, text in SOURCES.items()
        if module != "companion" and room(module) == name and module not in FACADES
    }
    assert cycle(own) == []


@pytest.mark.parametrize("module", sorted(set(MODULES) - FACADES))
def test_a_module_imports_names_from_the_modules_that_define_them(module):
    assert imported(SOURCES[module]) & FACADES == set()


PLANTED = dict.fromkeys(
    [
        "companion",
        "companion._checks",
        "companion.profiling",
        "companion.data.batching",
        "companion.attention",
        "companion.attention.base",
        "companion.attention.masks",
        "companion.models.luong",
        "companion.experiments.run",
    ],
    "",
)


@pytest.mark.parametrize(
    ("module", "text", "expected"),
    [
        ("models.luong", "import torch\nfrom companion.attention.base import x", set()),
        ("models.luong", "from companion._checks import x", set()),
        ("models.luong", "import companion.profiling", set()),
        ("attention.base", "from companion.attention import masks", set()),
        ("attention.base", "from companion.models.luong import x", {"models.luong"}),
        ("attention.base", "import companion.models.luong", {"models.luong"}),
        ("attention.base", "def f():\n    import companion.tasks.x", {"tasks.x"}),
        ("data.batching", "from companion.attention import Dot", {"attention"}),
        ("data.batching", "from companion.attention import masks", {"attention.masks"}),
        ("_checks", "from companion.data.batching import x", {"data.batching"}),
        ("profiling", "from companion._checks import x", {"_checks"}),
        ("profiling", "import torch", set()),
        ("experiments.run", "from companion.exercises.search import x", set()),
        ("exercises.search", "import companion.experiments.run", {"experiments.run"}),
    ],
)
def test_the_rule_of_rooms_itself(module, text, expected):
    found = upward(f"companion.{module}", text, PLANTED)
    assert found == {f"companion.{name}" for name in expected}


def test_no_module_may_import_the_whole_package():
    assert upward("companion.experiments.run", "import companion") == {"companion"}


def test_a_relative_import_is_refused():
    with pytest.raises(AssertionError, match="line 1: write imports in full"):
        imported("from .base import Attention")


@pytest.mark.parametrize(
    ("imports", "expected"),
    [
        ({"a": "", "b": "a", "c": "ab"}, set()),
        ({"a": "b", "b": "a", "c": "a"}, {"a", "b"}),
        ({"a": "c", "b": "a", "c": "b"}, {"a", "b", "c"}),
    ],
)
def test_the_search_for_cycles_itself(imports, expected):
    sources = {
        f"companion.{name}": "\n".join(f"import companion.{x}" for x in others)
        for name, others in imports.items()
    }
    assert {name.removeprefix("companion.") for name in cycle(sources)} == expected


@pytest.mark.parametrize("module", SOURCES)
def test_annotations_are_evaluated(module):
    nodes = ast.walk(ast.parse(SOURCES[module]))
    assert not any(
        isinstance(node, ast.ImportFrom) and node.module == "__future__"
        for node in nodes
    )


# Public names


def public_names(module):
    return getattr(importlib.import_module(module), "__all__", [])


def order(name):
    """Constants, classes, functions, each in alphabetical order: as ruff sorts them."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2), name


@pytest.mark.parametrize("name", sorted(FACADES))
def test_public_names_resolve_and_are_sorted(name):
    names = public_names(name)
    assert names == sorted(set(names), key=order)
    module = importlib.import_module(name)
    assert [x for x in names if not hasattr(module, x)] == []


@pytest.mark.parametrize("name", sorted(FACADES - {"companion"}))
def test_what_an_init_imports_is_public(name):
    module_level = ast.parse(SOURCES[name]).body
    names = {
        alias.asname or alias.name
        for node in module_level
        if isinstance(node, ast.ImportFrom) and node.module.startswith("companion")
        for alias in node.names
    }
    public = public_names(name)
    assert not public or names <= set(public)


def test_class_names_are_unique():
    names = Counter(
        node.name
        for text in SOURCES.values()
        for node in ast.parse(text).body
        if isinstance(node, ast.ClassDef)
    )
    assert [name for name, count in names.items() if count > 1] == []


# What an import costs

TOP_LEVEL = "{name.split('.')[0] for name in sys.modules}"


def brought_along(statement, before=""):
    """The packages that a statement imports in a new Python where the core's requirements are loaded."""
    program = f"""
import sys
{before}
import torch, einops, jaxtyping
before = {TOP_LEVEL}
{statement}
print(*({TOP_LEVEL} - before - sys.stdlib_module_names - {{"companion"}}))
"""
    command = [sys.executable, "-c", program]
    run = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout.split()


@pytest.mark.parametrize("modules", ["companion", *(f"companion.{x}" for x in CORE)])
def test_the_core_imports_pytorch_and_little_else(modules):
    """Not even NumPy, without which PyTorch can be installed."""
    without_numpy = "sys.modules['numpy'] = None"
    assert brought_along(f"import {modules}", without_numpy) == []


def test_the_measure_of_imports_itself():
    assert "matplotlib" in brought_along("import companion.visualization.plots")
    with pytest.raises(AssertionError, match="numpy"):
        brought_along("import numpy", "sys.modules['numpy'] = None")


# Names of the first edition

OLD_NAMES = """
keys_placed hides look look_back Look Seen Asked Lesson Traced Placed
Part Piece Classes Windows Joined Past Step Encoder Decoder
Dense Aligned Learned Sinusoidal fade locate
enter widen judge obtain one_by_one faultless harden occurrences
"""
TEXTS = [
    *PACKAGE,
    *sorted((ROOT / "tests").rglob("*.py")),
    *sorted((ROOT / "book").glob("*.md")),
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md")),
]


CELL = re.compile(
    r"^```(?:python|\{code-cell\}[^\n]*)\n(?:---\n.*?\n---\n)?(.*?)^```", re.M | re.S
)
NOT_PYTHON = re.compile(r"^( *)(?::[\w-]+:|[%!]).*$", re.M)  # options of cells, magics


def code_of(path):
    """The source of a Python file, or the Python cells and blocks of a Markdown file."""
    text = path.read_text("utf-8")
    if path.suffix == ".py":
        return text
    return NOT_PYTHON.sub(r"\1pass", "\n".join(CELL.findall(text)))


def identifiers(text):
    """Every name that a source defines or uses; words of comments and strings do not count."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        for field in ("id", "attr", "name", "arg", "asname", "module"):
            value = getattr(node, field, None)
            if isinstance(value, str):
                found |= set(value.split("."))
    return found


@pytest.mark.parametrize(
    "path", [path for path in TEXTS if path.exists()], ids=lambda path: path.name
)
def test_no_name_of_the_first_edition_is_left(path):
    assert identifiers(code_of(path)) & set(OLD_NAMES.split()) == set()


@pytest.mark.parametrize(
    "text",
    [
        "from x import Look",
        "x.look()",
        "def look(): 1",
        "f(look=1)",
        "import a.look",
        "lambda look: 1",
    ],
)
def test_the_search_for_old_names_itself(text):
    assert identifiers(text) & {"Look", "look"}
    assert identifiers(f"{text!r}  # look") == set()


@pytest.mark.parametrize("module", sorted(FACADES - {"companion"}))
def test_dir_lists_the_names_that_are_imported_at_their_first_use(module):
    facade = importlib.import_module(module)
    assert set(getattr(facade, "__all__", ())) <= set(dir(facade))
