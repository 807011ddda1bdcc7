"""What the drawings of chapter 7 compute."""

import re

import pytest

from attention_course.diagrams import sparse
from tests.course.diagrams.test_drawing import elements, texts


def blue_curves(drawing):
    return [
        path.get("d")
        for path in elements(drawing, "path")
        if path.get("class") == "stroke-key"
    ]


def test_the_marked_position_has_an_arc_to_every_other_that_it_attends_to():
    full, local, atrous = 16, 4, 4
    assert len(blue_curves(sparse.patterns())) == full + 2 * (local + atrous)


def test_two_layers_reach_every_input_once():
    starts = [tuple(path.split()[:2]) for path in blue_curves(sparse.reach())]
    assert len(starts) == 5 + 15
    assert len(set(starts)) == 5 + 15


def test_tiles_are_counted_as_they_are_drawn():
    drawing = sparse.tiles()
    counts = [re.fullmatch(r"(\d+) of 36 tiles", text) for text in texts(drawing)]
    computed = [int(count[1]) for count in counts if count]
    assert computed == [16, 36, 6, 36]
    shaded = [
        rect
        for rect in elements(drawing, "rect")
        if rect.get("width") == "28" and rect.get("fill-opacity")
    ]
    assert len(shaded) == sum(computed)


def test_merging_gives_the_weights_of_one_softmax():
    drawing = sparse.merged_softmaxes()
    numbers = {}
    for text in elements(drawing, "text"):
        if re.fullmatch(r"0\.\d\d", text.text or ""):
            numbers.setdefault(text.get("y"), []).append(float(text.text))
    *_, merged = (numbers[y] for y in sorted(numbers, key=float))
    groups = numbers[min(numbers, key=float)]
    first, second = (
        float(text.split("= ")[1]) for text in texts(drawing) if "/Z = " in text
    )
    assert first + second == pytest.approx(1)
    expected = [first * w for w in groups[:4]] + [second * w for w in groups[4:]]
    assert merged == pytest.approx(expected, abs=0.01)
    assert sum(merged) == pytest.approx(1, abs=0.03)
