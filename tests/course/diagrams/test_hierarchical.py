"""What the drawings of chapter 9 compute."""

import pytest

from attention_course.diagrams import hierarchical
from attention_course.diagrams.drawing import COLOURS
from tests.conftest import ROOT
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


def test_padding_is_crossed_out_and_each_sentence_goes_to_the_front_of_its_document():
    drawing = hierarchical.masks()
    lists = str([list(map(list, one)) for one in hierarchical.DOCUMENTS])
    text = (ROOT / "book/09_hierarchical.md").read_text("utf-8")
    assert f"pad_documents({lists})" in text
    numbers = [int(one) for one in texts(drawing) if one.isdigit()]
    tokens = [t for one in hierarchical.DOCUMENTS for s in one for t in s]
    assert sorted(numbers) == sorted([1, 2, 3, *tokens, *tokens])
    assert numbers[-len(tokens) :] == tokens
    squares = elements(drawing, "rect")[1:]
    filled = [one for one in squares if one.get("fill") == COLOURS["value"]]
    heights = [float(one.get("y")) for one in filled]
    assert heights == [56, 80, 160, 184, 264]  # from the top of each document
    frames = [one for one in squares if one.get("fill") == COLOURS["paper"]]
    crosses = [
        path
        for path in elements(drawing, "path")
        if path.get("class") == "stroke-muted" and path.get("stroke-width") == "1"
    ]
    # 36 places for words, 15 in the batch and 12 for vectors, of which 10, 10 and 5 are used
    assert (len(frames), len(crosses)) == (63, 38)
