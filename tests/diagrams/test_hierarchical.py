"""What the drawings of chapter 9 compute."""

import xml.etree.ElementTree as ET

import pytest

from companion.diagrams import hierarchical

SVG = "{http://www.w3.org/2000/svg}"


def test_the_weights_of_each_sentence_and_of_the_document_sum_to_one():
    root = ET.fromstring(hierarchical.architecture().svg())
    totals = {}
    for path in root.iter(f"{SVG}path"):
        if path.get("class") == "stroke-key":
            end = path.get("d").rsplit(maxsplit=2)[1:]
            totals.setdefault(tuple(end), []).append(float(path.get("stroke-width")))
    assert [len(widths) for widths in totals.values()] == [4, 4, 2, 3]
    for widths in totals.values():
        assert sum(widths) == pytest.approx(hierarchical._THICKNESS, abs=0.02)


def test_as_many_steps_are_drawn_as_are_counted():
    root = ET.fromstring(hierarchical.flat_and_hierarchical().svg())
    texts = ["".join(text.itertext()) for text in root.iter(f"{SVG}text")]
    assert "4 × 5 = 20 steps" in texts
    assert "5 + 4 = 9 steps" in texts
    states = [rect for rect in root.iter(f"{SVG}rect") if rect.get("width") == "12"]
    columns = {height: set() for height in (rect.get("y") for rect in states)}
    for rect in states:
        columns[rect.get("y")].add(float(rect.get("x")))
    flat, *parts = [columns[y] for y in sorted(columns, key=float)]
    assert len(flat) == 20
    assert len(set().union(*parts)) == 9
