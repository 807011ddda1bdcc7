"""What the drawings of chapter 6 compute."""

from collections import Counter, defaultdict
from math import cos, sin

import pytest

from attention_course.diagrams import transformer
from tests.course.diagrams.test_drawing import elements


def curves(drawing, role):
    """The curves of a role, each as its width and where it ends."""
    return [
        (float(path.get("stroke-width")), tuple(map(float, path.get("d").split()[-2:])))
        for path in elements(drawing, "path")
        if path.get("class") == f"stroke-{role}" and " C" in path.get("d")
    ]


def test_the_rows_of_the_weights_sum_to_one():
    rows = defaultdict(float)
    for square in elements(transformer.scaled_dot_product(), "rect"):
        if square.get("class") == "fill-key" and float(square.get("x")) > 300:
            rows[square.get("y")] += float(square.get("fill-opacity"))
    assert list(rows.values()) == pytest.approx([1, 1, 1, 1], abs=0.02)


@pytest.mark.parametrize(
    ("make", "role"),
    [(transformer.one_token, "key"), (transformer.kv_cache, "value")],
)
def test_lines_are_as_thick_as_weights_that_sum_to_one(make, role):
    weights = [(width - 1) / 8 for width, _ in curves(make(), role)]
    assert len(weights) == 5
    assert sum(weights) == pytest.approx(1, abs=0.01)


def test_every_head_has_a_slice_of_the_queries_keys_and_values():
    drawing = transformer.multi_head()
    heads = Counter()
    for role in ("query", "key", "value"):
        ends = [x for _, (x, _) in curves(drawing, role)]
        heads.update(
            min((84, 240, 396), key=lambda x, end=end: abs(x - end)) for end in ends
        )
    assert heads == {84: 3, 240: 3, 396: 3}


def test_what_follows_a_token_is_crossed_out():
    drawing = transformer.causal_mask()
    allowed = [r for r in elements(drawing, "rect") if r.get("class") == "fill-key"]
    crosses = [
        path
        for path in elements(drawing, "path")
        if path.get("class") == "stroke-muted"
    ]
    assert (len(allowed), len(crosses)) == (15, 10)


def test_the_hands_point_where_the_equation_says():
    heads = elements(transformer.positions(), "polygon")
    tips = [
        tuple(map(float, head.get("points").split()[0].split(","))) for head in heads
    ]
    assert len(tips) == 8 * 4
    for number, (x, y) in enumerate(tips):
        position, pair = divmod(number, 4)
        angle = position * 10000 ** (-2 * pair / 16)
        assert x - (120 + 47 * position) == pytest.approx(17 * sin(angle), abs=0.01)
        assert 64 + 48 * pair - y == pytest.approx(17 * cos(angle), abs=0.01)


def test_the_frames_of_encoder_and_decoder_hold_their_layers():
    boxes = [
        [float(box.get(side)) for side in ("x", "y", "width", "height")]
        for box in elements(transformer.architecture(), "rect")[1:]
    ]
    frames = [box for box in boxes if box[3] > 200]
    for (left, top, width, height), layers in zip(frames, (4, 6), strict=True):
        held = [
            (y, y + tall)
            for x, y, wide, tall in boxes
            if left < x < x + wide < left + width and top < y < top + height
        ]
        assert len(held) == layers
        assert min(held)[0] == top + 14
        assert max(held)[1] < top + height
