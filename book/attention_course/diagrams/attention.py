"""The drawings of chapter 3: what attention is, and the map of its kinds."""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from attention_course.diagrams.drawing import Drawing, Point, Rectangle, Role, masked
from companion.attention.base import masked_softmax
from companion.attention.scores import Dot

_QUERY = [[1.2, 0.7]]
_KEYS = [[1.0, 1.0], [1.125, -0.5], [-0.45, 1.2], [-0.975, -0.9]]
_VALUES = [[1.0, 0.9], [0.6, -1.2], [-0.7, 1.3], [-0.9, -0.9]]
_UNIT = 54  # of a plane's axes
_THICKNESS = 10  # of the line of a weight of 1
#: The map: what each stage computes, and the chapters and names of what changes it.
_STAGES: dict[str, tuple[str, dict[str, int]]] = {
    "inputs": ("", {"cross-attention": 2, "attention pooling": 3, "self-attention": 6}),
    "score": (
        "*e*_{ij} = *a*(*q*_i, *k*_j)",
        {
            "additive": 2,
            "dot, scaled dot product": 3,
            "cosine, general": 3,
            "location": 5,
            "Synthesizer: no keys": 8,
            "rotary positions, ALiBi": 12,
        },
    ),
    "mask": (
        "*m*_{ij} ∈ {0, 1}",
        {
            "padding": 2,
            "local-m, local-p": 5,
            "causal": 6,
            "local, atrous, sparse": 7,
            "window with sinks": 12,
        },
    ),
    "normalise": (
        "*α*_i = softmax *e*_i",
        {
            "softmax": 2,
            "Gumbel-softmax": 4,
            "softmax × Gaussian": 5,
            "attention over attention": 10,
            "none: linear attention": 13,
        },
    ),
    "average": (
        "*c*_i = Σ_j *α*_{ij} *v*_j",
        {
            "soft: all values": 2,
            "hard: one value": 4,
            "pointer sum: no values": 10,
            "values + embeddings": 11,
        },
    ),
    "in the model": (
        "",
        {
            "none: one fixed vector": 1,
            "input feeding": 5,
            "multi-head": 6,
            "hierarchical: two levels": 9,
            "multi-step: every layer": 11,
            "grouped queries, KV cache": 12,
        },
    ),
}
_SPINE, _SEED = 164, 4  # the centre of the map's matrices, and the numbers in them
_LINE = 19  # of the map's lists
_COLUMNS, _ENTRY = (48, 176, 240, 304, 432), 68  # of a lookup: centres, width of boxes


def lookup() -> Drawing:
    """A query among four keys in the plane: scores, weights, and the average of the values."""
    drawing = Drawing(
        272,
        "Attention in three steps. Score: a query, drawn as an arrow in the plane, is"
        " compared with four keys by the dot product, which is largest for the key that"
        " points in the query's direction. Normalise: a softmax turns the four scores"
        " into weights that sum to 1. Average: the output is the weighted average of the"
        " four values, a point between them, nearest to the value of the best key.",
    )
    query, key, value = (torch.tensor(rows) for rows in (_QUERY, _KEYS, _VALUES))
    scores = Dot().score(query, key)[0].tolist()
    context, weights = Dot().attend(query, key, value)
    _step(drawing, 84, "score", "*e*_j = *q* · *k*_j")
    _step(drawing, 246, "normalise", "*α* = softmax(*e*)")
    _step(drawing, 400, "average", "*c* = Σ_j *α*_j *v*_j")
    for left, right in ((114, 194), (290, 360)):
        drawing.arrow((left, 18), (right, 18))
    _keys(drawing, (84, 172))
    _weights(drawing, scores, weights[0].tolist())
    _average(drawing, (400, 172), weights[0].tolist(), context[0].tolist())
    return drawing


def hard_and_soft_lookup() -> Drawing:
    """A lookup in a dictionary, by equality, above one by attention, by similarity."""
    drawing = Drawing(
        352,
        "Two lookups among three keys with their values. In a dictionary the query Lima"
        " equals one key. That key has weight 1, the others 0, and the answer is its"
        " value; the query lima finds nothing. In attention the query is a vector. It is"
        " compared with every key, the weights are between 0 and 1 and sum to 1, and the"
        " answer is the average of all values under these weights.",
    )
    names = ("query", "key", "weight", "value", "answer")
    for x, name in zip(_COLUMNS, names, strict=True):
        drawing.text(x, 48, name, "muted")
    titles = {
        18: "dictionary: is the query equal to a key?",
        216: "attention: how similar is the query to each key?",
    }
    for y, title in titles.items():
        drawing.text(14, y, title, anchor="start", bold=True)
    cities, populations = ('"Oslo"', '"Lima"', '"Cairo"'), ("0.7", "10.0", "10.2")
    _entries(drawing, 122, cities, populations, [0, 1, 0])
    _ends(drawing, 122, '"Lima"', "10.0")
    drawing.text(_COLUMNS[0], 160, '"lima" is\nnot found', "muted")

    query, key = torch.tensor(_QUERY), torch.tensor(_KEYS)[[2, 0, 1]]
    weights = Dot().weights(query, key)[0].tolist()
    keys, values = ([f"*{letter}*_{j}" for j in (1, 2, 3)] for letter in "kv")
    _entries(drawing, 292, keys, values, weights)
    _ends(drawing, 292, "*q*", "*c*")
    drawing.text(_COLUMNS[-1], 324, "Σ_j *α*_j *v*_j", "muted")
    return drawing


def _ends(drawing: Drawing, y: float, query: str, answer: str) -> None:
    drawing.box(_COLUMNS[0], y, _ENTRY, 32, query, "query")
    drawing.box(_COLUMNS[-1], y, _ENTRY, 32, answer, "value")


def _entries(
    drawing: Drawing,
    y: float,
    keys: Sequence[str],
    values: Sequence[str],
    weights: Sequence[float],
) -> None:
    """Rows of a key, its weight and its value, with lines as thick as the weights."""
    query, key, middle, value, answer = _COLUMNS
    for row, (name, content, weight) in enumerate(
        zip(keys, values, weights, strict=True)
    ):
        height = y + 42 * (row - 1)
        to_key = (query + _ENTRY / 2, y), (key - _ENTRY / 2, height)
        to_answer = (value + _ENTRY / 2, height), (answer - _ENTRY / 2, y)
        for ends in (to_key, to_answer):
            drawing.line(
                *ends,
                role="key",
                width=max(0.5, _THICKNESS * weight),
                dashed=not weight,
            )
        drawing.box(key, height, _ENTRY, 30, name, "key")
        drawing.text(middle, height, f"{weight:.2g}")
        drawing.box(value, height, _ENTRY, 30, content, "value")


def _step(drawing: Drawing, x: float, name: str, equation: str) -> None:
    drawing.text(x, 18, name, bold=True)
    drawing.text(x, 42, equation, "muted")


def _plane(drawing: Drawing, origin: Point) -> None:
    x, y = origin
    drawing.line((x - 74, y), (x + 74, y), role="muted", width=0.6)
    drawing.line((x, y - 88), (x, y + 88), role="muted", width=0.6)


def _at(origin: Point, vector: list[float], stretch: float = 1) -> Point:
    """Where a vector of the plane ends, on the drawing."""
    return (
        origin[0] + stretch * _UNIT * vector[0],
        origin[1] - stretch * _UNIT * vector[1],
    )


def _keys(drawing: Drawing, origin: Point) -> None:
    _plane(drawing, origin)
    for number, key in enumerate(_KEYS, start=1):
        drawing.arrow(origin, _at(origin, key), role="key", width=2)
        drawing.text(*_at(origin, key, 1.2), f"*k*_{number}", "key")
    drawing.arrow(origin, _at(origin, _QUERY[0]), role="query", width=3)
    drawing.text(*_at(origin, _QUERY[0], 1.15), "*q*", "query", bold=True)


def _weights(drawing: Drawing, scores: list[float], weights: list[float]) -> None:
    drawing.text(228, 90, "*e*_j", "muted")
    drawing.text(266, 90, "*α*_j", "muted")
    for row, (score, weight) in enumerate(zip(scores, weights, strict=True)):
        y = 122 + 34 * row
        drawing.text(184, y, f"*k*_{row + 1}", "key", anchor="start")
        drawing.text(240, y, f"{score:.1f}".replace("-", "−"), anchor="end")
        drawing.bar(254 + 28 * weight, y, 56 * weight, 14)
        drawing.text(261 + 56 * weight, y, f"{weight:.2f}", anchor="start")


def _average(
    drawing: Drawing, origin: Point, weights: list[float], context: list[float]
) -> None:
    _plane(drawing, origin)
    for number, (value, weight) in enumerate(
        zip(_VALUES, weights, strict=True), start=1
    ):
        end = _at(origin, value)
        drawing.line(
            _at(origin, context), end, role="key", width=max(0.5, _THICKNESS * weight)
        )
        drawing.dot(*end, 5, "value")
        drawing.text(*_at(origin, value, 1.25), f"*v*_{number}", "value")
    x, y = _at(origin, context)
    drawing.circle(x, y, 8, role="value")
    drawing.text(x + 16, y + 6, "*c*", "value", bold=True)


def kinds() -> Drawing:
    """The map of the kinds of attention: what each mechanism of the book changes."""
    drawing = Drawing(
        708,
        "A map of attention. Queries, keys and values enter. The keys are scored for each"
        " query, the scores are masked and normalised to weights, the values are averaged"
        " under the weights, and the result is used in a model. Beside each stage stand"
        " the mechanisms that change it, with their chapters. "
        + " ".join(
            f"{stage.capitalize()}: "
            + ", ".join(f"{name} (chapter {number})" for name, number in names.items())
            + "."
            for stage, (_, names) in _STAGES.items()
        ),
    )
    drawing.text(242, 14, "chapter and mechanism", "muted", anchor="start")
    centres, top = {}, 28.0
    for stage, (equation, names) in _STAGES.items():
        height = _LINE * len(names) + 8
        y = centres[stage] = top + height / 2
        _card(drawing, y, height, names)
        if equation:
            drawing.text(14, y - 10, stage, anchor="start", bold=True)
            drawing.text(14, y + 12, equation, "muted", anchor="start")
        top += height + 14
    _pipeline(drawing, centres)
    return drawing


def _card(drawing: Drawing, y: float, height: float, names: dict[str, int]) -> None:
    """The mechanisms of a stage, each with its chapter."""
    drawing.box(354, y, 228, height)
    for row, (name, chapter) in enumerate(names.items()):
        line = y + _LINE * (row - (len(names) - 1) / 2)
        drawing.text(266, line, str(chapter), anchor="end", bold=True)
        drawing.text(276, line, name, anchor="start")


def _pipeline(drawing: Drawing, centres: dict[str, float]) -> None:
    """The tensors of one example, from its queries, keys and values to its output."""
    generator = torch.Generator().manual_seed(_SEED)
    query, key, value = (torch.randn(n, 2, generator=generator) for n in (3, 5, 5))
    mask = torch.ones(3, 5, dtype=torch.bool).tril(2)
    scores = Dot().score(query, key)
    weights = masked_softmax(scores, mask)
    query_box, key_box, value_box = _inputs(
        drawing, centres["inputs"], query, key, value
    )

    unmasked = scores.sigmoid().tolist()
    stages: tuple[tuple[str, list[list[float | None]], Role], ...] = (
        ("score", unmasked, "key"),
        ("mask", masked(unmasked, mask.tolist()), "key"),
        ("normalise", weights.tolist(), "key"),
        ("average", (weights @ value).sigmoid().tolist(), "value"),
    )
    boxes = [
        drawing.grid(_SPINE, centres[stage], shades, role, side=12)
        for stage, shades, role in stages
    ]
    drawing.arrow(query_box.bottom, (query_box.x, boxes[0].top[1]), role="query")
    drawing.arrow(key_box.bottom, (key_box.x, boxes[0].top[1]), role="key")
    boxes.append(_model(drawing, centres["in the model"]))
    for above, below in pairwise(boxes):
        drawing.arrow(above.bottom, below.top)
    output = boxes[3]
    drawing.arrow(value_box.bottom, (value_box.x, output.y), output.right, role="value")


def _inputs(
    drawing: Drawing, y: float, query: Tensor, key: Tensor, value: Tensor
) -> list[Rectangle]:
    """Queries, keys and values as matrices, a row for each vector."""
    rows: tuple[tuple[str, Role, Tensor], ...] = (
        ("queries *q*_i", "query", query),
        ("keys *k*_j", "key", key),
        ("values *v*_j", "value", value),
    )
    boxes = []
    for number, (name, role, vectors) in enumerate(rows):
        drawing.text(14, y + 20 * (number - 1), name, role, anchor="start")
        shades = vectors.sigmoid().tolist()
        boxes.append(drawing.grid(_SPINE - 20 + 36 * number, y, shades, role, side=12))
    return boxes


def _model(drawing: Drawing, y: float) -> Rectangle:
    """A stack of layers, one of which is attention."""
    drawing.text(14, y, "in the model", anchor="start", bold=True)
    boxes = [drawing.box(_SPINE, y + 14 * (layer - 1), 60, 10) for layer in range(3)]
    return Rectangle(_SPINE, y, 60, boxes[-1].bottom[1] - boxes[0].top[1])
