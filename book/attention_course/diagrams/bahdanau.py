"""The drawings of chapter 2: Bahdanau's model, its score, and its use of location."""

from collections.abc import Sequence

import torch

from attention_course.diagrams.drawing import Drawing, Rectangle

_SOURCE = ("one", "hundred", "and", "eighty")
_SCORES = (0.0, 1.4, 0.6, 3.2)  # of the source tokens, when “quatre” is predicted
_COLUMNS = (142, 240, 338, 436)  # of the source tokens
_STATE = (60, 34)  # width and height of a hidden state's box

#: A source that repeats itself. The decoder has just attended to its second token, and
#: its query matches "six".
_REPEATED = ("six", "two", "six", "one", "six", "two")
_PREVIOUS_SCORES = (1.0, 4.0, 1.0, 0.0, 0.0, 0.0)
_CONTENT = {"six": 1.0, "two": -1.0, "one": -1.0}  # W_a s_{i−1} + U_a h_j
_FILTER = (1.0, 0.0, 0.0)  # F: the weight of the position before
_LOCATION, _BIAS, _SCALE = 3.0, -1.2, 3.0  # L, b and v_a, one number each
_MIDDLE, _SIDE = 340, 34  # of the rows of weights: their centre, a square's side


def architecture() -> Drawing:
    """A bidirectional encoder, and a decoder step that attends to all its states.

    Source: Bahdanau et al. 2015, figure 1, redrawn, with the output of appendix A.2.2.
    """
    drawing = Drawing(
        436,
        "Bahdanau's model translates “one hundred and eighty” and is about to predict"
        " “quatre”; the states of a forward and a backward encoder at source position"
        " j make h_j. The query, the previous decoder state s_{i−1}, is compared with"
        " every h_j, which gives the weights α_ij, drawn as lines as thick as the"
        " weights, the thickest from “eighty”. The average of the h_j, weighted by"
        " them, is the context vector c_i. From s_{i−1}, the previous token y_{i−1}"
        " and c_i, one decoder step computes the probabilities of the token y_i and"
        " the next state s_i.",
    )
    tops = _encode(drawing)
    context = drawing.box(240, 190, 60, 36, "*c*_i", "value")
    drawing.text(284, 186, "context vector\n= Σ_j *α*_{ij} *h*_j", "value", "start")
    query = drawing.box(44, 98, *_STATE, "*s*_{i−1}", "query")
    weights = torch.tensor(_SCORES).softmax(0).tolist()
    for number, (x, weight) in enumerate(zip(_COLUMNS, weights, strict=True), 1):
        drawing.flow((x, tops), context.bottom, "key", 0.8 + 10 * weight)
        drawing.dot(x, tops - 18, 3.5, "query")
        side = 20 if x > context.x else -20
        drawing.text(x + side, tops - 36, f"*α*_{{i{number}}}", "key")
    drawing.line(
        query.bottom, (query.x, tops - 18), (_COLUMNS[-1], tops - 18), role="query"
    )
    drawing.text(query.x + 10, 190, "query", "query", "start")
    drawing.text(query.x + 10, tops - 36, "weights", "key", "start")

    _step(drawing, query, context)
    return drawing


def _encode(drawing: Drawing) -> float:
    """Two chains of states over the source; the height of their upper side."""
    forward = [f"→*h*_{number}" for number in range(1, 5)]
    drawing.chain(_COLUMNS, 360, (60, 28), forward, "key")
    backward = [f"←*h*_{number}" for number in range(4, 0, -1)]
    upper = drawing.chain(_COLUMNS[::-1], 332, (60, 28), backward, "key")
    for x, word in zip(_COLUMNS, _SOURCE, strict=True):
        drawing.text(x, 420, word)
        drawing.arrow((x, 409), (x, 374))
    drawing.text(10, 326, "encoder", "muted", "start", bold=True)
    drawing.text(10, 347, "*h*_j =", "key", "start")
    drawing.text(10, 369, "[→*h*_j; ←*h*_j]", "key", "start")
    return upper[0].top[1]


def _step(drawing: Drawing, query: Rectangle, context: Rectangle) -> None:
    """One step from its previous state, the previous token and the context."""
    drawing.frame(144, 8, 336, 128)
    drawing.text(240, 23, "decoder step", "muted", bold=True)
    output = drawing.box(240, 52, 150, 30, "maxout, softmax")
    recurrent = drawing.box(240, 98, 150, 30, "GRU")
    state = drawing.box(436, 98, *_STATE, "*s*_i", "query")
    drawing.text(10, output.y, "*y*_{i−1}: cent", anchor="start")
    drawing.text(400, output.y, "*y*_i: quatre", anchor="start")
    drawing.arrow((94, output.y), (144, output.y))
    drawing.arrow(query.right, (144, query.y))
    drawing.arrow(context.top, (context.x, 128), role="value")
    drawing.arrow(output.right, (392, output.y))
    drawing.arrow(recurrent.right, state.left)


def additive_network() -> Drawing:
    """The network with one hidden layer that scores a query and a key.

    Source: Bahdanau et al. 2015, appendix A.1.2.
    """
    drawing = Drawing(
        190,
        "The score of additive attention. The query s_{i−1}, of dimension n, is"
        " multiplied by the matrix W_a, and the encoder state h_j, of dimension 2n,"
        " by U_a; both products have dimension n′. Their sum passes through a tanh,"
        " and the dot product with the vector v_a is the score e_ij, one number. U_a"
        " h_j is computed once for the whole source, W_a s_{i−1} once at each step.",
    )
    query = drawing.box(38, 56, 56, 34, "*s*_{i−1}", "query")
    key = drawing.box(38, 134, 56, 34, "*h*_j", "key")
    add = drawing.circle(248, 95, 13, "+", "ink")
    squash = drawing.circle(318, 95, 21, "tanh", "ink")
    for vector, size, name, when in (
        (query, "(*n*)", "*W*_a", "at each step"),
        (key, "(2*n*)", "*U*_a", "once for the whole source"),
    ):
        side = -1 if vector is query else 1
        matrix = drawing.box(150, vector.y, 44, 34, name)
        drawing.arrow(vector.right, matrix.left)
        drawing.text(97, vector.y - 12, size, "muted")
        end = (add.x, add.y + 13 * side)
        drawing.arrow(matrix.right, (add.x, vector.y), end)
        drawing.text(200, vector.y - 12, "(*n*′)", "muted")
        drawing.text(150, vector.y + 32 * side, when, "muted")
    weights = drawing.box(390, 95, 44, 34, "*v*_a^⊤")
    drawing.arrow(add.right, squash.left)
    drawing.arrow(squash.right, weights.left)
    drawing.arrow(weights.right, (444, 95))
    drawing.text(460, 95, "*e*_{ij}")
    drawing.text(354, 74, "(*n*′)", "muted")
    return drawing


def circle() -> Drawing:
    """The order of the computations of one step, which goes from state to state."""
    drawing = Drawing(
        288,
        "The order of one decoder step. The state s_{i−1} is compared with every"
        " encoder state h_j, a softmax gives the weights α_i, and the weighted"
        " average of the h_j is the context c_i. From c_i, y_{i−1} and s_{i−1} the"
        " GRU computes the state s_i, which is the query of the next step. An arrow"
        " from s_i back to α_i is crossed out: s_i depends on α_i and cannot be its"
        " query.",
    )
    query = drawing.box(116, 60, *_STATE, "*s*_{i−1}", "query")
    shades = torch.tensor(_SCORES).softmax(0).tolist()
    weights = drawing.grid(370, 60, [shades], "key", side=20)
    drawing.text(370, 36, "*α*_i", "key")
    context = drawing.box(370, 226, *_STATE, "*c*_i", "value")
    state = drawing.box(116, 226, *_STATE, "*s*_i", "query")
    drawing.arrow(query.right, weights.left, role="query")
    drawing.text(236, 26, "compare with\nevery *h*_j, softmax", "muted")
    drawing.arrow(weights.bottom, context.top, role="key")
    drawing.text(384, 143, "weighted\naverage\nof the *h*_j", "muted", "start")
    drawing.arrow(context.left, state.right, role="value")
    drawing.text(243, 262, "GRU, with *y*_{i−1} and *s*_{i−1}", "muted")
    drawing.arrow(state.top, query.bottom, role="query", dashed=True)
    drawing.text(102, 143, "query of\nthe next\nstep", "muted", "end")

    start, end = (state.x + 34, state.y - 20), (weights.x - 34, weights.y + 20)
    drawing.arrow(start, end, role="muted", dashed=True)
    x, y = (start[0] + end[0]) / 2, (start[1] + end[1]) / 2
    drawing.cross(x, y, 18, "ink", 2.5)
    drawing.text(298, 182, "*s*_i needs *α*_i:\nnot yet computed", "muted")
    return drawing


def location_sensitive() -> Drawing:
    """Scores that also depend on where the decoder attended at the previous step.

    Source: Chorowski et al. 2015, equations 8 and 9.
    """
    drawing = Drawing(
        370,
        "Location-sensitive attention over the source “six two six one six two”, with"
        " a query that matches “six”. The previous weights are largest at the second"
        " token, and a convolution of them with the filter F gives features f_i,"
        " which are largest at the third. They are added to the content terms W_a"
        " s_{i−1} and U_a h_j, before tanh, v_a and softmax. With the features nearly"
        " all weight is on the “six” after the last position; without them, the three"
        " “six” have the same weight.",
    )
    previous = torch.tensor(_PREVIOUS_SCORES).softmax(0).tolist()
    features = _convolve(previous)
    for place, token in enumerate(_REPEATED):
        drawing.text(_MIDDLE + _SIDE * (place - 2.5), 20, token)
    above = _row(drawing, 54, "previous weights *α*_{i−1}", previous)
    below = _row(drawing, 134, "features *f*_i", features)
    peak = features.index(max(features))
    for offset, factor in enumerate(_FILTER, -1):
        start = (_MIDDLE + _SIDE * (peak + offset - 2.5), above.bottom[1])
        end = (_MIDDLE + _SIDE * (peak - 2.5), below.top[1])
        drawing.line(start, end, role="muted", width=1 + 2 * factor)
    drawing.text(12, 94, "convolution with *F*", "muted", "start")

    box = drawing.box(_MIDDLE, 196, _SIDE * 6, 30, "add, tanh, *v*_a, softmax")
    drawing.arrow(below.bottom, box.top)
    drawing.text(_MIDDLE + 14, 164, "*L*", "muted")
    drawing.text(12, box.y, "*W*_a *s*_{i−1}, *U*_a *h*_j", anchor="start")
    drawing.text(12, box.y + 20, "(match “six”)", "muted", "start")
    drawing.arrow((126, box.y), box.left)
    result = _row(drawing, 262, "weights *α*_i", _attend(features))
    drawing.arrow(box.bottom, result.top)
    _row(drawing, 332, "weights without *f*_i", _attend([0.0] * len(features)))
    return drawing


def _row(drawing: Drawing, y: float, name: str, values: Sequence[float]) -> Rectangle:
    """A row of values, one for each source token, with its name."""
    drawing.text(12, y, name, anchor="start")
    return drawing.grid(_MIDDLE, y, [values], "key", side=_SIDE)


def _convolve(weights: Sequence[float]) -> list[float]:
    """The features f_i of one filter, with zeros beyond both ends."""
    padded = [0.0, *weights, 0.0]
    return [
        sum(factor * padded[j + place] for place, factor in enumerate(_FILTER))
        for j in range(len(weights))
    ]


def _attend(features: Sequence[float]) -> list[float]:
    """The weights α_i of the repeated source, with one hidden unit."""
    content = torch.tensor([_CONTENT[token] for token in _REPEATED])
    hidden = torch.tanh(content + _LOCATION * torch.tensor(features) + _BIAS)
    return (_SCALE * hidden).softmax(0).tolist()
