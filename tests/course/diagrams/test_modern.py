"""What the drawings of chapter 12 compute."""

import re
from math import atan2, pi

import pytest

from attention_course.diagrams import modern
from tests.course.diagrams.test_drawing import elements, texts


def numbers(text):
    return [float(number) for number in re.findall(r"-?\d+(?:\.\d+)?", text)]


def test_both_layers_have_two_residual_connections():
    dashed = [
        path
        for path in elements(modern.layers(), "path")
        if path.get("stroke-dasharray")
    ]
    assert len(dashed) == 4


def test_the_angle_between_query_and_key_does_not_change():
    hands = {"query": [], "key": []}
    for path in elements(modern.distances(), "path"):
        role = path.get("class").removeprefix("stroke-")
        if role in hands:
            x0, y0, x, y = numbers(path.get("d"))
            hands[role].append(atan2(y0 - y, x - x0))
    differences = [
        (query - key) % (2 * pi)
        for query, key in zip(hands["query"], hands["key"], strict=True)
    ]
    assert len(differences) == 2
    assert differences[0] == pytest.approx(differences[1], abs=0.01)
    assert hands["query"][0] != pytest.approx(hands["query"][1], abs=0.5)


def test_heads_are_shared_and_vectors_counted():
    drawing = modern.shared_heads()
    lines = [
        path
        for path in elements(drawing, "path")
        if path.get("class") == "stroke-query"
    ]
    assert len(lines) == 4 * 8  # every query head has its keys
    boxes = [rect.get("class") for rect in elements(drawing, "rect")]
    assert boxes.count("fill-key-tint stroke-key") == 8 + 2 + 1 + 8
    counts = [re.fullmatch(r"cached: (\d+) vectors", text) for text in texts(drawing)]
    assert [int(count[1]) for count in counts if count] == [16, 4, 2]


def test_keys_of_the_last_query_are_counted_as_they_are_drawn():
    drawing = modern.windows()
    counts = [re.fullmatch(r"(\d+) keys", text) for text in texts(drawing)]
    assert [int(count[1]) for count in counts if count] == [12, 4, 6]
    shaded = [rect for rect in elements(drawing, "rect") if rect.get("fill-opacity")]
    below = max(float(rect.get("y")) for rect in shaded)
    last = [rect for rect in shaded if float(rect.get("y")) == below]
    assert len(last) == 12 + 4 + 6
    assert len(shaded) == 78 + (10 + 4 * 8 - 0) + (10 + 4 * 8) + 2 * 7 + 1


def test_one_tile_is_read_at_a_time():
    drawing = modern.streaming()
    wide = [
        path for path in elements(drawing, "path") if path.get("stroke-width") == "2.5"
    ]
    assert len(wide) == 2  # a curve and the line to its head
    assert sum(text.startswith("K") for text in texts(drawing)) == 4
