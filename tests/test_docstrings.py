"""Docstrings are whole: every Example runs, and public names are described by the same rules."""

import doctest
import importlib
import inspect

import pytest
import torch
from torch import nn

from tests.test_imports import MODULES

ROOMS = (
    "companion.attention",
    "companion.layers",
    "companion.decoding",
    "companion.models",
    "companion.losses",
    "companion.visualization",
)


EXPERIMENTS = (
    "sacrebleu",
    "spacy",
    "tensorboard",
)  # only `make test-all` installs them


def importable(name):
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name not in EXPERIMENTS:
            raise
        return False
    return True


IMPORTABLE = [name for name in MODULES if importable(name)]


def examples():
    """Every docstring of the package that has an Example."""
    finder = doctest.DocTestFinder(exclude_empty=True)
    for name in IMPORTABLE:
        for test in finder.find(importlib.import_module(name), name):
            if test.examples:
                yield pytest.param(test, id=test.name.removeprefix("companion."))


@pytest.mark.parametrize("test", list(examples()))
@pytest.mark.usefixtures("unchecked")
def test_examples_run(test):
    torch.manual_seed(0)
    test.globs |= {"torch": torch, "nn": nn}
    report = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    results = runner.run(test, out=report.append)
    assert results.attempted > 0
    assert results.failed == 0, "".join(report)


# The rules


def public(rooms, kind):
    """The public names of these sub-packages whose values are of a kind."""
    found = {}
    for room in rooms:
        module = importlib.import_module(room)
        for name in getattr(module, "__all__", vars(module)):
            value = getattr(module, name)
            own = getattr(value, "__module__", "").startswith(room)
            if own and kind(value) and not name.startswith("_"):
                found[f"{room.removeprefix('companion.')}.{name}"] = value
    return found


def defined_names():
    """Every public class, function and method that the package defines, once."""
    found = {}
    for name in IMPORTABLE:
        module = importlib.import_module(name)
        for item, value in vars(module).items():
            own = getattr(value, "__module__", None) == name
            if not own or item.startswith("_") or not callable(value):
                continue
            found[f"{name}.{item}"] = value
            if inspect.isclass(value):
                for method, function in vars(value).items():
                    if inspect.isfunction(function) and not method.startswith("_"):
                        found[f"{name}.{item}.{method}"] = function
    return found


def needs_example(value):
    """Mechanisms and models do; tuples and what only subclasses complete need none."""
    return not issubclass(value, tuple) and not inspect.isabstract(value)


DEFINED = defined_names()
CLASSES = public(ROOMS[:2] + ROOMS[3:4], inspect.isclass)
FUNCTIONS = public((ROOMS[0], ROOMS[2]), inspect.isroutine)
NEED_EXAMPLE = {k: v for k, v in CLASSES.items() if needs_example(v)} | FUNCTIONS
PUBLIC = public(("companion.attention.masks", *ROOMS), callable)


def docstring(value):
    return inspect.cleandoc(value.__doc__ or "")


def first_sentence(text):
    return " ".join(text.split("\n\n")[0].split())


def arguments(value):
    """What a caller passes, without ``self``; nothing where the constructor is inherited."""
    if inspect.isclass(value):
        if "__init__" not in vars(value) or issubclass(value, tuple):
            return []
        if getattr(value, "_is_protocol", False):  # its constructor is a placeholder
            return []
        value = value.__init__
    names = list(inspect.signature(value).parameters)
    return [name for name in names if name not in ("self", "cls")]


@pytest.mark.parametrize("name", NEED_EXAMPLE)
def test_mechanisms_and_models_have_an_example(name):
    assert "Example:\n    >>> " in docstring(NEED_EXAMPLE[name])


@pytest.mark.parametrize("name", DEFINED)
def test_docstrings_begin_with_a_sentence(name):
    sentence = first_sentence(docstring(DEFINED[name]))
    assert sentence.endswith((".", ":"))
    assert sentence[0].isupper() or not sentence[0].isalpha()


@pytest.mark.parametrize("name", [x for x in PUBLIC if arguments(PUBLIC[x])])
def test_arguments_are_described(name):
    """In a section of their own, or each by its name in the text."""
    text = docstring(PUBLIC[name])
    named = all(x.lower() in text.lower() for x in arguments(PUBLIC[name]))
    assert "Args:\n    " in text or named
