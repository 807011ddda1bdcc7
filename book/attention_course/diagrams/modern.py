"""The drawings of chapter 12: what language models of today changed in the Transformer."""

from itertools import pairwise
from math import cos, pi, sin

from attention_course.diagrams.drawing import Drawing, Rectangle, Role
from companion.attention import masks
from companion.attention.linear_bias import alibi_slopes

_ANGLE = pi / 9  # of one position, in the drawing of the rotation
_QUERY, _KEY = 0.9, 0.3  # the directions of query and key before the rotation
_HEADS = 8
_WINDOW, _SINKS, _POSITIONS = 4, 2, 12


def layers() -> Drawing:
    """A layer of the Transformer of 2017 beside one of today, each change with its section.

    Source: Vaswani et al. 2017, figure 1; Touvron et al. 2023 (LLaMA), section 2.2.
    """
    drawing = Drawing(
        494,
        "Two layers of a language model, side by side. 2017: position vectors are added to"
        " the embeddings; multi-head attention, then add and LayerNorm; a feed-forward"
        " network with ReLU, then add and LayerNorm. Today: embeddings alone; RMSNorm,"
        " grouped-query attention whose queries and keys are rotated and sometimes"
        " normalised, add; RMSNorm, a gated network called SwiGLU, add. Both have residual"
        " connections. Beside each changed part is the section about it.",
    )
    drawing.text(124, 18, "2017", bold=True)
    drawing.text(362, 18, "today", bold=True)
    _stack(
        drawing,
        116,
        (
            ("embedding + position", "layer"),
            ("multi-head attention", "query"),
            ("add, LayerNorm", "layer"),
            ("feed-forward, ReLU", "layer"),
            ("add, LayerNorm", "layer"),
        ),
        residuals=((1, 2), (3, 4)),
    )
    _stack(
        drawing,
        354,
        (
            ("embedding", "layer"),
            ("RMSNorm", "value"),
            ("rotate queries, keys", "key"),
            ("grouped-query attention", "query"),
            ("add", "layer"),
            ("RMSNorm", "value"),
            ("SwiGLU", "value"),
            ("add", "layer"),
        ),
        residuals=((1, 4), (5, 7)),
    )
    drawing.text(8, 454, "2  rotary positions, ALiBi", "key", anchor="start")
    drawing.text(8, 474, "3–5, 7  cache, sinks, gates, flash", "query", anchor="start")
    drawing.text(300, 454, "6  norms and gates", "value", anchor="start")
    return drawing


def _stack(
    drawing: Drawing,
    x: float,
    parts: tuple[tuple[str, Role], ...],
    residuals: tuple[tuple[int, int], ...],
) -> None:
    """Boxes from the bottom up, with arrows, and residual connections on the left."""
    step = 380 / (len(parts) - 0.4)
    boxes = [
        drawing.box(x + 8, 412 - step * place, 190, 30, text, role)
        for place, (text, role) in enumerate(parts)
    ]
    for lower, upper in pairwise(boxes):
        drawing.arrow(lower.top, upper.bottom)
    drawing.arrow(boxes[-1].top, (x + 8, boxes[-1].top[1] - 14))
    for first, last in residuals:
        start, end = boxes[first], boxes[last]
        below = start.bottom[1] + (boxes[first - 1].top[1] - start.bottom[1]) / 2
        left = x - 94
        drawing.residual((x + 8, below), (left, below), (left, end.y), end.left)


def distances() -> Drawing:
    """Rotations that depend on positions, and a dot product that depends on their distance.

    Below, ALiBi: what is subtracted from the scores, for a steep head and a flat one.

    Source: equations (12.2) and (12.3) of the chapter.
    """
    drawing = Drawing(
        420,
        "Rotary positions: a query at position 3 and a key at position 1 are rotated by"
        " three steps and by one. At the positions 8 and 6 both have turned five steps"
        " further, and the angle between them is the same. ALiBi: two lower triangles of"
        " biases, darker the more is subtracted from a score. In the head with a steep"
        " slope all but the nearest keys are dark, in the one with a flat slope none is.",
    )
    drawing.text(8, 18, "rotary", anchor="start", bold=True)
    for x, i, j in ((120, 3, 1), (360, 8, 6)):
        _clock(drawing, x, 118, i, j)
    drawing.text(240, 118, "same\nangle", "muted")
    drawing.text(8, 244, "ALiBi", anchor="start", bold=True)
    slopes = alibi_slopes(4)
    for x, slope in ((120, slopes[0]), (360, slopes[1])):
        shades = [
            [min(1.0, slope * (i - j) / 2) if j <= i else None for j in range(8)]
            for i in range(8)
        ]
        matrix = drawing.grid(x, 318, shades, role="key", side=17)
        drawing.text(x, matrix.bottom[1] + 18, f"slope {slope:g}", "muted")
    return drawing


def _clock(drawing: Drawing, x: float, y: float, i: int, j: int) -> None:
    """A query and a key as hands, each turned by its position."""
    drawing.circle(x, y, 78)
    for start, position, role in _hands(i, j):
        angle = start + position * _ANGLE
        end = (x + 66 * cos(angle), y - 66 * sin(angle))
        drawing.arrow((x, y), end, role=role, width=2.5)
    drawing.text(x, y + 96, f"*q*, position {i}", "query")
    drawing.text(x, y + 112, f"*k*, position {j}", "key")


def _hands(i: int, j: int) -> tuple[tuple[float, int, Role], ...]:
    """The direction before the rotation, the position and the role of each hand."""
    return (_QUERY, i, "query"), (_KEY, j, "key")


def shared_heads() -> Drawing:
    """Which keys and values eight heads use, and what a KV cache holds for one token.

    Source: Ainslie et al. 2023, figure 2; DeepSeek-AI 2024, figure 3.
    """
    drawing = Drawing(
        424,
        "Four ways to give eight query heads their keys and values. Multi-head: eight"
        " key–value heads, one each. Grouped-query: two, shared by four heads each."
        " Multi-query: one for all. Latent: one small vector, from which the keys and values"
        " of all heads are computed. Only the lower row of each is cached: 16, 4 and 2"
        " vectors of a head's size, and one latent vector.",
    )
    for (x, y), name, groups in (
        ((8, 20), "multi-head", 8),
        ((252, 20), "grouped-query", 2),
        ((8, 226), "multi-query", 1),
    ):
        _heads(drawing, x, y, name, groups)
    x, y = 252, 226
    drawing.text(x, y, "latent", anchor="start", bold=True)
    latent = drawing.box(x + 110, y + 142, 64, 24, "latent", "value")
    keys = [
        drawing.box(x + 13 + 27 * head, y + 88, 18, 20, "", "key")
        for head in range(_HEADS)
    ]
    queries = _queries(drawing, x, y)
    for query, key in zip(queries, keys, strict=True):
        drawing.line(query.bottom, key.top, role="query")
        drawing.line(latent.top, key.bottom, role="value", width=1)
    drawing.text(x, y + 176, "cached: one vector", "muted", anchor="start")
    return drawing


def _queries(drawing: Drawing, x: float, y: float) -> list[Rectangle]:
    return [
        drawing.box(x + 13 + 27 * head, y + 34, 18, 20, "", "query")
        for head in range(_HEADS)
    ]


def _heads(drawing: Drawing, x: float, y: float, name: str, groups: int) -> None:
    """Eight queries, and the key–value heads that they share."""
    drawing.text(x, y, name, anchor="start", bold=True)
    queries = _queries(drawing, x, y)
    share = _HEADS // groups
    for group in range(groups):
        first = queries[group * share : (group + 1) * share]
        middle = sum(query.x for query in first) / share
        key = drawing.box(middle, y + 112, 20, 22, "", "key")
        drawing.box(middle, y + 138, 20, 22, "", "value")
        for query in first:
            drawing.line(query.bottom, key.top, role="query")
    drawing.text(x, y + 176, f"cached: {2 * groups} vectors", "muted", anchor="start")


def windows() -> Drawing:
    """Three masks: dense causal attention, a sliding window, and a window with sinks."""
    drawing = Drawing(
        214,
        "Three masks of 12 positions. Dense causal attention is a triangle: the last query"
        " attends to all 12 keys. A window of 4 is a band: the last query attends to 4"
        " keys, and the cache forgets the others. With sinks the band has the first two"
        " columns besides it: the last query attends to 6 keys. Keys that the cache has"
        " forgotten are crossed out.",
    )
    for x, name, rule in (
        (84, "dense", masks.causal()),
        (240, "window", masks.sliding_window(_WINDOW)),
        (396, "window and sinks", masks.sink_window(_WINDOW, _SINKS)),
    ):
        allowed = masks.dense(rule, _POSITIONS).tolist()
        causal = masks.dense(masks.causal(), _POSITIONS).tolist()
        shades = [
            [
                0.75 if may else (None if seen else 0.0)
                for may, seen in zip(*rows, strict=True)
            ]
            for rows in zip(allowed, causal, strict=True)
        ]
        matrix = drawing.grid(x, 104, shades, side=11)
        drawing.text(x, 18, name, bold=True)
        drawing.outline(Rectangle(x, matrix.bottom[1] - 5.5, matrix.width, 11), "query")
        drawing.text(x, 196, f"{sum(allowed[-1])} keys", "query")
    return drawing


def streaming() -> Drawing:
    """FlashAttention: tiles of keys and values, in sequence, and a running softmax.

    Source: Dao et al. 2022, figure 1 and algorithm 1; the merge is equation (7.6).
    """
    drawing = Drawing(
        330,
        "Below, in large slow memory: tiles of keys and values. Above, in small"
        " fast memory: one tile of queries and, for each query, a running context c and"
        " log-sum-exp. One tile of keys and values after the other is read, its scores are"
        " computed, and its context is merged into the running one. The scores are never"
        " written to the slow memory.",
    )
    drawing.frame(8, 8, 472, 204)
    drawing.text(20, 26, "small, fast memory", "muted", anchor="start")
    drawing.frame(8, 226, 472, 322)
    drawing.text(20, 305, "large, slow memory", "muted", anchor="start")
    query = drawing.box(74, 100, 92, 40, "queries *Q*_i", "query")
    score = drawing.box(232, 100, 128, 40, "scores of a tile")
    running = drawing.box(400, 100, 108, 40, "*c*, lse", "value")
    drawing.arrow(query.right, score.left, role="query")
    drawing.arrow(score.right, running.left, role="value")
    drawing.text(400, 66, "merge (7.6)")
    drawing.arc((436, 120), (364, 120), -32, role="value")
    tiles = [
        drawing.box(97 + 90 * j, 262, 78, 34, f"*K*_{j + 1}, *V*_{j + 1}", "key")
        for j in range(4)
    ]
    drawing.curved_arrow(
        tiles[1].top, (score.x, score.bottom[1]), role="key", width=2.5
    )
    for read, following in pairwise(tiles[1:]):
        drawing.arrow(read.right, following.left, role="muted", width=1)
    drawing.text(250, 176, "one tile after the other", "muted", anchor="start")
    return drawing
