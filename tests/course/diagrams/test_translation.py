"""What the drawing of a translation says of it, as the live page does."""

import re

import pytest

from attention_course.diagrams import translation
from tests.conftest import ROOT
from tests.course.diagrams.test_drawing import elements, texts

TARGET = ["quatre", "vingt", "dix"]


@pytest.mark.parametrize(
    ("words", "verdict", "crossed"),
    [
        ("quatre vingt dix", "exact", 0),
        ("quatre vingt dix neuf", "1 word wrong or extra", 1),
        ("quatre cent vingt deux", "2 words wrong or extra", 2),
        ("quatre dix", "1 word missing", 0),
        ("", "3 words missing", 0),
    ],
)
def test_the_verdict_counts_the_words_that_are_crossed_out_or_missing(
    words, verdict, crossed
):
    weights = [[1.0]] * len(TARGET)
    drawing = translation.two_translations(
        "90", ["ninety"], TARGET, TARGET, weights, words.split()
    )
    assert texts(drawing)[:2] == ["without attention", verdict]
    assert drawing.description.endswith(f"({verdict}).")
    assert drawing.svg().count("✗") == crossed


def test_every_visible_weight_has_a_curve_as_thick_as_it():
    weights = [[0.03, 0.97], [0.04, 0.96], [0.5, 0.5]]
    source = ["ninety", "<eos>"]
    drawing = translation.two_translations("90", source, TARGET, TARGET, weights, [])
    curves = [float(path.get("stroke-width")) for path in elements(drawing, "path")]
    assert curves == [1, 1, 9.7, 0.4, 9.6, 5, 5]  # the first two lead to the box


def test_it_draws_the_weights_that_the_live_page_draws():
    stage = (ROOT / "book/_static/live/stage.js").read_text("utf-8")
    for name in ("VISIBLE", "THICKNESS"):
        (number,) = re.findall(rf"const {name} = ([\d.]+);", stage)
        assert float(number) == getattr(translation, f"_{name}"), name
