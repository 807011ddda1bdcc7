"""What the drawings of chapter 8 compute."""

from collections import defaultdict

import pytest

from attention_course.diagrams import synthesizer
from tests.course.diagrams.test_drawing import elements, texts


@pytest.mark.parametrize(
    ("make", "matrices"), [(synthesizer.four_ways, 4), (synthesizer.mixture, 1)]
)
def test_the_rows_of_weights_sum_to_one(make, matrices):
    """Rows are told apart by their heights, and matrices by the side on which they are."""
    rows = defaultdict(float)
    for square in elements(make(), "rect"):
        if square.get("class") == "fill-key":
            side = float(square.get("x")) > 240
            rows[square.get("y"), side] += float(square.get("fill-opacity"))
    assert len(rows) == 4 * matrices
    assert list(rows.values()) == pytest.approx([1] * len(rows), abs=0.02)


def test_wires_are_cut_where_a_score_does_not_depend_on_a_token():
    dashed = [
        path
        for path in elements(synthesizer.four_ways(), "path")
        if path.get("stroke-dasharray")
    ]
    assert len(dashed) == 1 + 2 + 2  # dense, random, factorized


def test_the_proportions_of_a_mixture_sum_to_one():
    found = [text for text in texts(synthesizer.mixture()) if text.startswith("α")]
    proportions = [float(text.split("= ")[1]) for text in found]
    assert len(proportions) == 2
    assert sum(proportions) == pytest.approx(1)
