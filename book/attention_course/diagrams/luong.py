"""The drawings of chapter 5: Luong's decoder beside Bahdanau's, input feeding, and windows."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from attention_course.diagrams.drawing import Drawing, Point, Rectangle
from companion.attention.base import masked_softmax

_STATE = (50, 32)  # width and height of a state's box
_SCORES = (0.2, 1.2, 3.0, 0.6)  # of the four encoder states of both decoders
_STEPS, _FED = (92, 232, 372), 128  # columns of the steps; height of attentional states
_POSITIONS, _RADIUS, _PITCH = 10, 2, 21  # source positions, D, and their distance
_TARGETS = (2, 3, 4)  # t
_LOGITS = (-0.8, 0.7, 0.1)  # of the centres of local-p: p_t = S times their sigmoid
_PANELS, _BASES = (14, 256), (114, 220, 326)  # left sides, and the bars' lower ends
_SCALE, _SEED = 66, 1  # height of a weight of 1
_PATH = 4.0  # width of the lines from one state to the next


def one_step() -> Drawing:
    """A decoder step of Bahdanau's model, and one of Luong's with global attention.

    Source: Luong et al. 2015, sections 3 and 3.1.
    """
    drawing = Drawing(
        450,
        "Two decoder steps side by side. In Bahdanau's, the query is the previous state"
        " s_{i−1}; the context c_i enters the recurrence, so that the path from s_{i−1} to"
        " s_i, drawn thick, goes through attention. In Luong's, the LSTM computes h_t from"
        " h_{t−1} alone, and h_t is the query; context and state make the attentional"
        " state, from which the token is predicted. Nothing of it returns to the LSTM.",
    )
    _bahdanau(drawing)
    drawing.line((240, 12), (240, 364), role="muted", width=0.8)
    _luong(drawing)
    drawing.line((92, 392), (126, 392), width=_PATH)
    drawing.text(136, 392, "path from one state to the next", "muted", "start")
    drawing.dot(109, 414, 4, "query")
    drawing.text(136, 414, "comparison of the query with a key", "muted", "start")
    drawing.text(109, 436, "*s*, *h*", "query")
    drawing.text(136, 436, "decoder states", "query", "start")
    return drawing


def _bahdanau(drawing: Drawing) -> None:
    drawing.text(12, 16, "Bahdanau", anchor="start", bold=True)
    query = drawing.box(34, 100, *_STATE, "*s*_{i−1}", "query")
    output = drawing.box(132, 56, 80, 28, "softmax")
    recurrent = drawing.box(132, 100, 80, 28, "GRU")
    drawing.frame(80, 32, 184, 124)
    drawing.text(142, 138, "decoder step", "muted", "start")
    state = drawing.box(212, 100, 44, 32, "*s*_i", "query")
    context = drawing.box(132, 200, *_STATE, "*c*_i", "value")
    drawing.text(34, 56, "*y*_{i−1}")
    drawing.arrow((52, 56), (80, 56))
    drawing.arrow(output.right, (202, 56))
    drawing.text(212, 56, "*y*_i")
    drawing.arrow(query.right, (80, 100))
    drawing.arrow(context.top, (132, 124), role="value", width=_PATH)
    drawing.arrow(recurrent.right, state.left, width=_PATH)
    drawing.text(42, 176, "query", "query", "start")
    drawing.text(164, 200, "context", "value", "start")
    drawing.text(178, 256, "weights", "key", "start")
    _attend(drawing, "*h*", (62, 112, 162, 212), (34, query.bottom[1]), context, _PATH)


def _luong(drawing: Drawing) -> None:
    drawing.text(252, 16, "Luong", anchor="start", bold=True)
    previous = drawing.box(276, 100, *_STATE, "*h*_{t−1}", "query")
    recurrent = drawing.box(362, 100, 66, 28, "LSTM")
    state = drawing.box(446, 100, *_STATE, "*h*_t", "query")
    drawing.text(362, 56, "*y*_{t−1}")
    drawing.arrow((362, 66), recurrent.top)
    drawing.arrow(previous.right, recurrent.left, width=_PATH)
    drawing.arrow(recurrent.right, state.left, width=_PATH)

    attentional = drawing.box(372, 160, 46, 30, "*h̃*_t")
    context = drawing.box(372, 216, *_STATE, "*c*_t", "value")
    output = drawing.box(292, 160, 66, 28, "softmax")
    drawing.arrow((434, state.bottom[1]), (434, 160), attentional.right)
    drawing.arrow(context.top, attentional.bottom, role="value")
    drawing.arrow(attentional.left, output.right)
    drawing.arrow(output.bottom, (292, 200))
    drawing.text(292, 212, "*y*_t")
    drawing.text(426, 130, "attentional state *h̃*_t", "muted", "end")
    drawing.text(448, 216, "query", "query", "end")
    _attend(drawing, "*h̄*", (268, 318, 368, 418), (456, state.bottom[1]), context, 1.5)


def _attend(
    drawing: Drawing,
    letter: str,
    columns: Sequence[float],
    query: Point,
    context: Rectangle,
    width: float,
) -> None:
    """Encoder states, compared with a query, and lines to their average."""
    weights = torch.tensor(_SCORES).softmax(0).tolist()
    for number, (x, weight) in enumerate(zip(columns, weights, strict=True), start=1):
        drawing.box(x, 328, 42, 30, f"{letter}_{number}", "key")
        drawing.flow((x, 313), context.bottom, "key", 0.8 + 10 * weight)
    drawing.text((columns[0] + columns[-1]) / 2, 358, f"encoder states {letter}", "key")
    end = max(columns, key=lambda x: abs(x - query[0]))
    drawing.line(query, (query[0], 296), (end, 296), role="query", width=width)
    for x in columns:
        drawing.dot(x, 296, 4, "query")


def scores() -> Drawing:
    """The four scores: what is done with the query and with the key.

    Source: Luong et al. 2015, section 3.1.
    """
    drawing = Drawing(
        316,
        "Four scores as rows. Dot multiplies the decoder state h_t and the encoder state"
        " h̄_s. General multiplies h_t by the matrix W_a first. Concat writes both states"
        " below each other, multiplies them by W_a, takes the tanh, and multiplies by the"
        " vector v_a. Location multiplies h_t by W_a, whose row s gives the score; the"
        " encoder state is not used.",
    )
    for number, name in enumerate(("dot", "general", "concat", "location")):
        y = 42 + 78 * number
        drawing.text(10, y, name, anchor="start", bold=True)
        query = drawing.box(118, y - 19, 44, 30, "*h*_t", "query")
        key = drawing.box(118, y + 19, 44, 30, "*h̄*_s", "key")
        if name == "concat":
            both = drawing.box(196, y, 46, 30, "[ ; ]")
            last = drawing.box(258, y, 42, 30, "*W*_a")
            drawing.arrow(query.right, (both.left[0], y - 5), role="query")
            drawing.arrow(key.right, (both.left[0], y + 5), role="key")
            drawing.arrow(both.right, last.left)
            for part in (
                drawing.circle(318, y, 20, "tanh", "ink"),
                drawing.box(376, y, 42, 30, "*v*_a^⊤"),
            ):
                drawing.arrow(last.right, part.left)
                last = part
        else:
            last = (
                drawing.box(318, y, 62, 30, "row *s*")
                if name == "location"
                else drawing.circle(318, y, 12, "·", "ink")
            )
            start = query
            if name != "dot":
                start = drawing.box(218, y - 19, 42, 30, "*W*_a")
                drawing.arrow(query.right, start.left, role="query")
            side, height = last.left[0], 0 if name == "location" else 5
            drawing.arrow(start.right, (side, y - height), role="query")
            if name != "location":
                drawing.arrow(key.right, (side, y + height), role="key")
        drawing.arrow(last.right, (428, y))
        drawing.text(452, y, "*e*_t(*s*)")
    return drawing


def all_at_once() -> Drawing:
    """Three decoder steps without input feeding: only the LSTM is sequential.

    Source: Luong et al. 2015, section 3.
    """
    drawing = Drawing(
        372,
        "Three decoder steps. The thick path leads from LSTM to LSTM and through nothing"
        " else. Above the LSTMs the three attention steps are in one dashed frame, because"
        " in training one matrix product computes all of them; each makes an attentional"
        " state, from which a softmax predicts the token.",
    )
    steps = _three_steps(drawing, 1.5)
    drawing.arrow((4, 252), steps[0].state.left, width=_PATH)
    for step, following in pairwise(steps):
        drawing.arrow(step.state.right, following.state.left, width=_PATH)
    drawing.arrow(steps[-1].state.right, (474, 252), width=_PATH)
    drawing.frame(_STEPS[0] - 54, 166, _STEPS[-1] + 84, 206)
    drawing.line((20, 346), (54, 346), width=_PATH)
    drawing.text(64, 346, "path of sequential operations", "muted", "start")
    drawing.text(318, 346, "*h̄*  encoder states", "key", "start")
    drawing.text(20, 364, "dashed: one matrix product in training", "muted", "start")
    return drawing


def input_feeding() -> Drawing:
    """Three decoder steps in which each attentional state is fed to the next step.

    Source: Luong et al. 2015, figure 4, redrawn.
    """
    drawing = Drawing(
        372,
        "Three decoder steps with input feeding. At each step an LSTM reads the previous"
        " token and the previous attentional state, attention compares its state with the"
        " encoder states and makes the attentional state, and a softmax predicts the"
        " token. The path from one attentional state to the next, drawn thick, goes"
        " through LSTM and attention, so the steps are computed sequentially.",
    )
    steps = _three_steps(drawing, _PATH)
    _feed(drawing, (4, _FED), steps[0].state)
    for step, following in pairwise(steps):
        drawing.arrow(step.state.right, following.state.left)
        _feed(drawing, step.fed.right, following.state)
    drawing.arrow(steps[-1].fed.right, (474, _FED), width=_PATH)
    drawing.line((20, 358), (54, 358), width=_PATH)
    drawing.text(64, 358, "path of sequential operations", "muted", "start")
    drawing.text(318, 358, "*h̄*  encoder states", "key", "start")
    return drawing


def _three_steps(drawing: Drawing, width: float) -> list["_Column"]:
    times = pairwise(("t−2", "t−1", "t", "t+1"))
    return [
        _step(drawing, x, *time, width) for x, time in zip(_STEPS, times, strict=True)
    ]


class _Column(NamedTuple):
    """The boxes of a step that other steps are joined to."""

    state: Rectangle
    fed: Rectangle


def _step(drawing: Drawing, x: float, before: str, t: str, width: float) -> _Column:
    """LSTM, attention and attentional state of step ``t``; ``width`` is that of their arrows."""
    state = drawing.box(x, 252, 90, 30, f"LSTM: *h*_{{{t}}}", "query")
    attention = drawing.box(x, 186, 90, 30, "attention")
    fed = drawing.box(x, _FED, 60, 30, f"*h̃*_{{{t}}}")
    output = drawing.box(x, 70, 72, 26, "softmax")
    drawing.text(x + 16, 318, f"*y*_{{{before}}}")
    drawing.arrow((x + 16, 306), (x + 16, 267))
    drawing.arrow(state.top, attention.bottom, role="query", width=width)
    drawing.arrow((x + 61, 186), attention.right, role="key")
    drawing.text(x + 68, 186, "*h̄*", "key")
    drawing.arrow(attention.top, fed.bottom, width=width)
    drawing.text(x + 8, 157, "[*c*; *h*]", "muted", "start")
    drawing.arrow(fed.top, output.bottom)
    drawing.arrow(output.top, (x, 36))
    drawing.text(x, 22, f"*y*_{{{t}}}")
    return _Column(state, fed)


def _feed(drawing: Drawing, start: Point, state: Rectangle) -> None:
    """The attentional state on its way to the next step's input."""
    lane, x = state.left[0] - 12, state.x - 16
    corners = (start, (lane, _FED), (lane, 290), (x, 290))
    drawing.arrow(*corners, (x, state.bottom[1]), width=_PATH)


def window() -> Drawing:
    """Local attention at three target steps: the windows of local-m and of local-p.

    Source: Luong et al. 2015, section 3.2, equations (9) and (10).
    """
    drawing = Drawing(
        390,
        "Bars of attention weights over ten source positions, at three target steps, for"
        " two kinds of local attention with a window of two positions to each side. In"
        " local-m the centre p_t is t, the window moves by one position at each step, and"
        " the weights sum to 1. In local-p the state predicts the centre, which moves"
        " freely and lies between two positions. The weights are multiplied by a Gaussian"
        " around it, so they sum to less than 1.",
    )
    generator = torch.Generator().manual_seed(_SEED)
    scores = 0.8 * torch.randn(len(_TARGETS), _POSITIONS, generator=generator)
    predicted = _POSITIONS * torch.tensor(_LOGITS).sigmoid()
    left, right = _PANELS
    drawing.text(left, 18, "local-m: *p*_t = *t*", anchor="start", bold=True)
    drawing.text(right, 18, "local-p: predicted *p*_t", anchor="start", bold=True)
    for t, y, row, centre in zip(
        _TARGETS, _BASES, scores, predicted.tolist(), strict=True
    ):
        _panel(drawing, left, y, t, t, _local_weights(row, t))
        _curve(drawing, right, y, centre)
        gaussian = _gaussian(torch.arange(_POSITIONS), centre)
        weights = _local_weights(row, centre) * gaussian
        _panel(drawing, right, y, t, centre, weights)
    label = f"window, *D* = {_RADIUS}"
    drawing.text(left + 208, _BASES[0] - 28, label, "query", "end")
    drawing.text(right + 138, _BASES[0] - 28, "Gaussian", "muted", "start")
    for start in _PANELS:
        for position in range(_POSITIONS):
            x = start + _PITCH * (position + 0.5)
            drawing.text(x, _BASES[-1] + 26, str(position), "muted")
        x = start + _PITCH * _POSITIONS / 2
        drawing.text(x, _BASES[-1] + 48, "source position *s*", "muted")
    return drawing


def _local_weights(scores: Tensor, centre: float) -> Tensor:
    """The softmax of the scores in a window, zero outside."""
    distance = torch.arange(len(scores)) - centre
    return masked_softmax(scores, distance.abs() <= _RADIUS)


def _gaussian(position: Tensor, centre: float) -> Tensor:
    sigma = _RADIUS / 2
    return torch.exp(-((position - centre) ** 2) / (2 * sigma**2))


def _curve(drawing: Drawing, left: float, y: float, centre: float) -> None:
    """The Gaussian around a centre, within its window."""
    at = torch.linspace(centre - _RADIUS, centre + _RADIUS, 41)
    points = [
        (left + _PITCH * (x + 0.5), y - 52 * height)
        for x, height in zip(at.tolist(), _gaussian(at, centre).tolist(), strict=True)
    ]
    drawing.line(*points, role="muted")


def _panel(
    drawing: Drawing,
    left: float,
    y: float,
    t: int,
    centre: float,
    weights: Tensor,
) -> None:
    """Bars of weights above the source positions, with the window below them."""
    drawing.text(left, y - 72, f"*p*_{t} = {centre:.2g}", "query", "start")
    total = f"Σ_s *a*_{t}(*s*) = {weights.sum():.2f}"
    drawing.text(left + 208, y - 72, total, "key", "end")
    for position, weight in enumerate(weights.tolist()):
        x = left + _PITCH * (position + 0.5)
        drawing.bar(x, y - _SCALE * weight / 2, 13, _SCALE * weight)
    drawing.line((left, y), (left + 210, y), role="muted", width=1)
    x = left + _PITCH * (centre + 0.5)
    drawing.line(
        (x - _PITCH * _RADIUS, y + 10),
        (x + _PITCH * _RADIUS, y + 10),
        role="query",
        width=3,
    )
    drawing.dot(x, y + 10, 5, "query")
