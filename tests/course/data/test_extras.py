"""A missing library gives an error that names the extra which installs it."""

import subprocess
import sys

import pytest

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
        ("pooch", "book", "import attention_course.data.imdb"),
        ("spacy", "experiments", "import attention_course.data.multi30k"),
        ("matplotlib", "book", "import companion.visualization"),
    ],
)
def test_the_error_names_the_library_and_the_extra(library, extra, call):
    program = PROGRAM.format(library=library, call=call)
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True
    )
    expected = f'{library} is not installed: pip install "attention-companion[{extra}]"'
    assert run.stderr.strip().endswith(expected)


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
