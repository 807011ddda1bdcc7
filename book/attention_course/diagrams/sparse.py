"""The drawings of chapter 7: sparse attention."""

from math import exp, log
from typing import Literal

import torch
from torch import Tensor

from attention_course.diagrams.drawing import Drawing, Rectangle
from companion.attention import masks

_POSITIONS, _FOLLOWED = 17, 8  # of the sequence, and the one whose arcs are marked
_STEP = 13  # from one position to the next
_CELL = 7  # the side of a score in a matrix
_SCORES = {1: 0.2, 2: 1.4, 3: -0.6, 4: 0.5, 5: 1.9, 6: 0.3, 7: 0.8}
_GROUP_A: dict[int, float] = {1: 148, 2: 192, 3: 236, 4: 280}  # x of the values
_GROUP_B: dict[int, float] = {5: 350, 6: 394, 7: 438}


def patterns() -> Drawing:
    """Which positions attend to which, as arcs over a sequence: four patterns.

    Source: the patterns of Su 2019.
    """
    drawing = Drawing(
        348,
        "Four patterns of attention over 17 positions, as arcs between the positions that"
        " attend to each other; the arcs of the middle position, i, are marked. Full: i"
        " attends to all positions, which takes n² scores. Local: to two neighbours on"
        " either side, n (2r + 1) scores. Atrous: to every fourth position, n · n/ρ"
        " scores. Sparse: to both, n (2r + 1 + n/ρ) scores.",
    )
    local, atrous = masks.local(2), masks.atrous(4)
    sparse = masks.union(local, atrous)
    _arcs(drawing, 16, 122, "full", masks.local(_POSITIONS), "*n*^2 scores")
    _arcs(drawing, 256, 122, "local, *r* = 2", local, "*n* (2*r* + 1)")
    _arcs(drawing, 16, 284, "atrous, ρ = 4", atrous, "*n*^2/ρ")
    _arcs(drawing, 256, 284, "sparse", sparse, "*n* (2*r* + 1 + *n*/ρ)")
    for x, name in ((96, "*n*: positions"), (240, "*r*: radius"), (384, "ρ: rate")):
        drawing.text(x, 332, name, "muted")
    return drawing


def reach() -> Drawing:
    """How position i receives information from every position through two sparse layers."""
    drawing = Drawing(
        286,
        "Two sparse layers over 15 positions. In layer 1 each position attends to every"
        " fifth position, in layer 2 to itself and its two neighbours on either side. The"
        " output of position i depends on five positions after layer 1, one of each class"
        " modulo 5. Each of these depends on the three inputs of its class, so that all 15"
        " inputs reach i. The paths of one class are marked.",
    )
    places = [120 + 24 * j for j in range(15)]
    rows = {"inputs": 254, "after layer 1": 144, "after layer 2": 34}
    query, followed = 7, 9  # position i, and the neighbour whose class is marked
    neighbours = masks.dense(masks.local(2), 15)[query].tolist()
    classes = masks.dense(masks.atrous(5), 15).tolist()
    for m, near in enumerate(neighbours):
        if near:
            width = 4 if m == followed else 1.5
            drawing.flow((places[m], 144), (places[query], 34), "key", width)
            for x, same in zip(places, classes[m], strict=True):
                if same:
                    drawing.flow((x, 254), (places[m], 144), "key", width)
    for name, y in rows.items():
        drawing.text(12, y, name, anchor="start")
        for x in places:
            drawing.dot(x, y, 4.5, "muted")
    for x, near in zip(places, neighbours, strict=True):
        drawing.dot(x, 254, 5, "key")
        if near:
            drawing.dot(x, 144, 5, "key")
    drawing.dot(places[query], 34, 6, "query")
    drawing.text(places[query], 14, "*i*", "query")
    drawing.text(12, 89, "local,\n*r* = 2", "muted", anchor="start")
    drawing.text(12, 199, "atrous,\nρ = 5", "muted", anchor="start")
    return drawing


def tiles() -> Drawing:
    """Score matrices in tiles: which tiles a pattern needs, and which can be skipped."""
    drawing = Drawing(
        500,
        "Four score matrices of 24 queries and 24 keys, cut into tiles of 4 by 4. A tile is"
        " computed whole if the pattern allows any score in it, and skipped otherwise."
        " Local attention needs the 16 tiles along the diagonal, of 36. Atrous attention"
        " of rate 6 needs all 36, although it allows a sixth of the scores; with the"
        " positions sorted by class, it needs 6. The union of both needs all 36.",
    )
    natural = torch.arange(24)
    by_class = (natural % 6).argsort(stable=True)
    local, atrous = masks.local(2), masks.atrous(6)
    _tiles(drawing, 120, 122, "local", local, natural)
    _tiles(drawing, 360, 122, "atrous", atrous, natural)
    _tiles(drawing, 120, 352, "atrous, sorted by class", atrous, by_class)
    _tiles(drawing, 360, 352, "sparse", masks.union(local, atrous), natural)
    drawing.bar(43, 482, 10, 10)
    drawing.text(56, 482, "allowed", anchor="start")
    drawing.grid(152, 482, [[0.2]], side=14)
    drawing.text(166, 482, "computed, then masked", anchor="start")
    drawing.grid(364, 482, [[None]], side=14)
    drawing.text(378, 482, "skipped", anchor="start")
    return drawing


def _tiles(
    drawing: Drawing, x: float, y: float, name: str, rule: masks.Rule, order: Tensor
) -> None:
    """A pattern's score matrix around the point ``(x, y)``, its positions in an order."""
    allowed = masks.dense(rule, len(order))[order][:, order]
    computed = allowed.unflatten(0, (-1, 4)).unflatten(2, (-1, 4)).any(3).any(1)
    shades = [[0.2 if tile else None for tile in row] for row in computed.tolist()]
    matrix = drawing.grid(x, y, shades, side=4 * _CELL)
    left, top = matrix.left[0] + _CELL / 2, matrix.top[1] + _CELL / 2
    for i, j in allowed.nonzero().tolist():
        drawing.bar(left + _CELL * j, top + _CELL * i, _CELL - 1, _CELL - 1)
    drawing.text(matrix.left[0], matrix.top[1] - 16, name, anchor="start", bold=True)
    drawing.text(
        x,
        matrix.bottom[1] + 15,
        f"{computed.sum()} of {computed.numel()} tiles",
        "muted",
    )


def merged_softmaxes() -> Drawing:
    """Attention over two groups of keys, each with a softmax of its own, merged into one.

    Source: equations (7.5) and (7.6) of the chapter.
    """
    drawing = Drawing(
        386,
        "One query attends to seven keys in two groups, A with four and B with three. In"
        " each group a softmax over its own scores gives weights, a weighted sum of the"
        " values, c₁ or c₂, and the logarithm of the sum of exponentials, lse. The two"
        " vectors are added with weights that depend on the two logarithms alone. The"
        " result is that of one softmax over all seven keys.",
    )
    result = drawing.box(296, 34, 56, 28, "*c*", "value")
    whole = sum(map(exp, _SCORES.values()))
    for side, number, places in ((-1, 1, _GROUP_A), (1, 2, _GROUP_B)):
        total = sum(exp(_SCORES[j]) for j in places)
        context = _group(drawing, places, f"*c*_{number}", total)
        end = (result.x + 10 * side, result.bottom[1])
        drawing.flow(context.top, end, "value", 1 + 8 * total / whole)
        text = f"*Z*_{number}/*Z* = {total / whole:.2f}"
        anchor: Literal["start", "end"] = "end" if side < 0 else "start"
        drawing.text(result.x + 68 * side, 88, text, "value", anchor)
        text = f"lse_{number} = {log(total):.2f}"
        drawing.text(context.left[0] - 8, context.y, text, anchor="end")
    drawing.text(129, 246, "*A*", bold=True)
    drawing.text(331, 246, "*B*", bold=True)
    names = ("scores *e*_j", "group softmax", "one softmax")
    for row, name in enumerate(names):
        drawing.text(8, 322 + 22 * row, name, anchor="start")
    for j, x in (_GROUP_A | _GROUP_B).items():
        drawing.text(x, 366, f"{exp(_SCORES[j]) / whole:.2f}", "muted")
    return drawing


def _group(
    drawing: Drawing, places: dict[int, float], context: str, total: float
) -> Rectangle:
    """A group of values, and the box of their sum, weighted by the group's own softmax."""
    left, right = min(places.values()), max(places.values())
    drawing.frame(left - 27, 258, right + 27, 302)
    box = drawing.box((left + right) / 2, 162, 56, 28, context, "value")
    for j, x in places.items():
        value = drawing.box(x, 280, 38, 28, f"*v*_{j}", "value")
        weight = exp(_SCORES[j]) / total
        end = (box.x + (x - box.x) / 5, box.bottom[1])
        drawing.flow(value.top, end, "value", 1 + 8 * weight)
        drawing.text(x, 322, f"{_SCORES[j]:.1f}".replace("-", "−"), "muted")
        drawing.text(x, 344, f"{weight:.2f}", "muted")
    return box


def _arcs(
    drawing: Drawing,
    left: float,
    ground: float,
    name: str,
    rule: masks.Rule,
    scores: str,
) -> None:
    """A pattern's arcs, above its positions from the point ``(left, ground)``."""
    visible = masks.dense(rule, _POSITIONS)
    x = [left + _STEP * j for j in range(_POSITIONS)]
    pairs = visible.triu(1).nonzero().tolist()
    for i, j in sorted(pairs, key=lambda pair: _FOLLOWED in pair):
        followed = _FOLLOWED in (i, j)
        drawing.arc(
            (x[i], ground - 5),
            (x[j], ground - 5),
            5 * (j - i),
            role="key" if followed else "muted",
            width=2.5 if followed else 0.6,
        )
    for j, allowed in enumerate(visible[_FOLLOWED].tolist()):
        drawing.dot(x[j], ground, 4, "key" if allowed else "muted")
    drawing.dot(x[_FOLLOWED], ground, 5, "query")
    drawing.text(x[_FOLLOWED], ground + 18, "*i*", "query")
    drawing.text(left - 4, ground - 104, name, anchor="start", bold=True)
    drawing.text(x[-1] + 4, ground - 104, scores, "muted", anchor="end")
