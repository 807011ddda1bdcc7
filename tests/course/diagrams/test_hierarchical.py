"""What the drawings of chapter 9 compute."""

import pytest

from attention_course.diagrams import hierarchical
from tests.course.diagrams.test_drawing import elements, texts


def test_the_weights_of_each_sentence_and_of_the_document_sum_to_one():
    totals = {}
    for path in elements(hierarchical.architecture(), "path"):
        if path.get("class") == "stroke-key":
            end = path.get("d").rsplit(maxsplit=2)[1:]
            totals.setdefault(tuple(end), []).append(float(path.get("stroke-width")))
    assert [len(widths) for widths in totals.values()] == [4, 4, 2, 3]
    for widths in totals.values():
        assert sum(widths) == pytest.approx(hierarchical._THICKNESS, abs=0.02)


def test_as_many_steps_are_drawn_as_are_counted():
    drawing = hierarchical.flat_and_hierarchical()
    assert "4 × 5 = 20 steps" in texts(drawing)
    assert "5 + 4 = 9 steps" in texts(drawing)
    states = [r for r in elements(drawing, "rect") if r.get("width") == "12"]
    columns = {height: set() for height in (rect.get("y") for rect in states)}
    for rect in states:
        columns[rect.get("y")].add(float(rect.get("x")))
    flat, *parts = [columns[y] for y in sorted(columns, key=float)]
    assert len(flat) == 20
    assert len(set().union(*parts)) == 9
