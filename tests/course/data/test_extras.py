"""A missing library gives an error that names the extra which installs it."""

import ast
import re
import subprocess
import sys
import tomllib

import pytest

from tests.conftest import ROOT
from tests.test_imports import FOLDERS, SOURCES

PROGRAM = """
import importlib, sys
sys.modules["{library}"] = None  # as if it were not installed
{call}
"""


@pytest.mark.parametrize(
    ("library", "extra", "call"),
    [
        ("num2words", "book", "import attention_course.data.numbers"),
        ("babel", "book", "import attention_course.data.facts"),
        (
            "sklearn.datasets",
            "book",
            "from attention_course.data import scenes; scenes.handwritten_digits()",
        ),
        ("pooch", "experiments", "import attention_course.data.imdb"),
        ("spacy", "experiments", "import attention_course.data.multi30k"),
        ("matplotlib", "book", "import companion.visualization"),
        ("numpy", "book", "import companion.visualization"),
        ("numpy", "book", "import attention_course.training"),
        ("tensorboard", "experiments", "import attention_course.experiments.log"),
    ],
)
def test_the_error_names_the_library_and_the_extra(library, extra, call):
    program = PROGRAM.format(library=library, call=call)
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True
    )
    expected = f'{library} is not installed: pip install "attention-companion[{extra}]"'
    assert run.stderr.strip().endswith(expected)


EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"][
    "optional-dependencies"
]


def installed_by(extra):
    """The libraries of an extra, those of the extras in it included."""
    for requirement in EXTRAS[extra]:
        if inner := re.match(r"attention-companion\[(\w+)\]", requirement):
            yield from installed_by(inner[1])
        else:
            yield re.match(r"[\w-]+", requirement)[0].replace("-", "_")


def imports(node, extra=None):
    """The libraries that a module imports, and the extra that the error would name."""
    match node:
        case ast.With(
            items=[ast.withitem(ast.Call(ast.Name("needs_extra"), [named])), *_]
        ):
            extra = named.value
        case ast.Import(names):
            yield from ((alias.name.split(".")[0], extra) for alias in names)
        case ast.ImportFrom(module):
            yield module.split(".")[0], extra
    for child in ast.iter_child_nodes(node):
        yield from imports(child, extra)


#: The core's; those that a package's first module guards; one that is there if it is used.
FREE = {"torch", "einops", "jaxtyping", "numpy", "matplotlib_inline", *FOLDERS}


def test_every_import_of_a_library_names_an_extra_that_installs_it():
    wrong = [
        (module, library, extra)
        for module, text in SOURCES.items()
        for library, extra in imports(ast.parse(text))
        if library not in FREE | sys.stdlib_module_names
        and {"sklearn": "scikit_learn"}.get(library, library)
        not in (installed_by(extra) if extra else ())
    ]
    assert wrong == []


def test_vocabulary_and_batches_need_no_extra():
    extras = ["num2words", "babel", "sklearn", "pooch", "spacy", "matplotlib"]
    program = f"""
import sys
sys.modules |= dict.fromkeys({extras})
from attention_course.data import Batches, Vocabulary, pad
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_data_set_is_imported_when_it_is_asked_for():
    program = """
import sys
from attention_course import data
assert "attention_course.data.numbers" not in sys.modules
assert data.numbers.english_words(97) == ("ninety", "seven")
assert "numbers" in dir(data) and not hasattr(data, "nothing")
"""
    subprocess.run([sys.executable, "-c", program], check=True)
