"""Imports go down, room by room: the folders' names are all that these tests know of the package."""

import ast
import importlib
import subprocess
import sys
from collections import Counter
from graphlib import CycleError, TopologicalSorter

import pytest

from tests.conftest import ROOT

#: A later room may import earlier ones, never the reverse.
ROOMS = (
    "companion._transforms",
    "companion._checks",
    "companion.attention",
    "companion.layers",
    "companion.decoding",
    "companion.models",
    "companion.interop",
    "companion.losses",
    "companion.visualization",
    "attention_course.notebook",
    "attention_course.profiling",
    "attention_course.data",
    "attention_course.training",
    "attention_course.tasks",
    "attention_course.diagrams",
    "attention_course.exercises",
    "attention_course.experiments",
    "attention_course.studies",
    "attention_course.live",
)
LIBRARY = [room for room in ROOMS if room.startswith("companion.")]
PLAIN = [
    room for room in LIBRARY if "visualization" not in room
]  # need PyTorch and little else
FOLDERS = {
    "companion": ROOT / "companion",
    "attention_course": ROOT / "book" / "attention_course",
}


def module_name(path, folder):
    parts = path.relative_to(folder.parent).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


FILES = {
    module_name(path, folder): path
    for folder in FOLDERS.values()
    for path in sorted(folder.rglob("*.py"))
}
SOURCES = {name: path.read_text("utf-8") for name, path in FILES.items()}
FACADES = {name for name, path in FILES.items() if path.name == "__init__.py"}
MODULES = sorted(set(SOURCES) - set(FOLDERS))


def room(module):
    return ".".join(module.split(".")[:2])


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
    return {name for name in found if name.split(".")[0] in FOLDERS}


def upward(module, text, modules=SOURCES):
    """What a module imports although it is not in an earlier room or its own."""
    allowed = ROOMS[: ROOMS.index(room(module)) + 1]
    return {x for x in imported(text, modules) if room(x) not in allowed}


def cycle(sources):
    """The modules of an import cycle, or an empty list."""
    graph = {name: imported(text, sources) - {name} for name, text in sources.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]
    return []


def test_every_module_is_in_a_room():
    assert {room(module) for module in MODULES} == set(ROOMS)


@pytest.mark.parametrize("module", MODULES)
def test_imports_go_down(module):
    assert upward(module, SOURCES[module]) == set()


@pytest.mark.parametrize("name", ROOMS)
def test_there_is_no_import_cycle_within_a_room(name):
    own = {
        module: text
        for module, text in SOURCES.items()
        if room(module) == name and module not in FACADES
    }
    assert cycle(own) == []


@pytest.mark.parametrize("module", sorted(set(MODULES) - FACADES))
def test_a_module_imports_names_from_the_modules_that_define_them(module):
    assert imported(SOURCES[module]) & FACADES == set()


PLANTED = dict.fromkeys([*FOLDERS, *ROOMS, "companion.attention.masks"], "")


@pytest.mark.parametrize(
    ("module", "text", "expected"),
    [
        ("models", "import torch\nfrom companion.attention.base import x", set()),
        ("models", "from companion._checks import x", set()),
        ("attention", "from companion.attention import masks", set()),
        (
            "attention",
            "from companion.models.luong import x",
            {"companion.models.luong"},
        ),
        ("attention", "def f():\n    import companion.models", {"companion.models"}),
        ("losses", "import attention_course.data", {"attention_course.data"}),
        ("layers", "import companion", {"companion"}),
    ],
)
def test_the_rule_of_rooms_itself(module, text, expected):
    assert upward(f"companion.{module}", text, PLANTED) == expected


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


@pytest.mark.parametrize("name", sorted(FACADES - set(FOLDERS)))
def test_what_an_init_imports_is_public(name):
    module_level = ast.parse(SOURCES[name]).body
    names = {
        alias.asname or alias.name
        for node in module_level
        if isinstance(node, ast.ImportFrom) and node.module.split(".")[0] in FOLDERS
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


@pytest.mark.parametrize("modules", ["companion", *PLAIN])
def test_the_core_imports_pytorch_and_little_else(modules):
    """Not even NumPy, without which PyTorch can be installed."""
    without_numpy = "sys.modules['numpy'] = None"
    assert brought_along(f"import {modules}", without_numpy) == []


def test_the_measure_of_imports_itself():
    assert "matplotlib" in brought_along("import companion.visualization.plots")
    with pytest.raises(AssertionError, match="numpy"):
        brought_along("import numpy", "sys.modules['numpy'] = None")


@pytest.mark.parametrize("module", sorted(FACADES - set(FOLDERS)))
def test_dir_lists_the_names_that_are_imported_at_their_first_use(module):
    facade = importlib.import_module(module)
    assert set(getattr(facade, "__all__", ())) <= set(dir(facade))
