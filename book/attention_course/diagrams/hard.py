"""The drawings of chapter 4: soft and hard attention, and how each gets a gradient."""

import random
from collections.abc import Sequence
from itertools import pairwise
from math import log

import torch

from attention_course.diagrams.drawing import Drawing, Point, Rectangle, Role

_SIDE, _ROW = 22, 6  # of a region of the image; regions in a row
#: A four and a seven, in regions from the upper left corner.
_STROKES: list[list[Point]] = [
    [(1.9, 3.4), (0.9, 4.8), (2.6, 4.8)],
    [(1.9, 3.4), (1.9, 5.6)],
    [(3.4, 0.5), (4.9, 0.5), (4.0, 2.6)],
]
_PEAK = (4.2, 1.2)  # where the score is largest: the seven
_VISIBLE, _THICKNESS = 0.02, 12  # the smallest weight with a line; a weight of 1
_SCORES = [1.0, 0.5, 0.0, -0.5, 0.3]  # as in section 3 of the chapter
_REGION_SEED, _NOISE_SEED = 9, 10
_LETTERS: tuple[tuple[float, Role, str], ...] = (
    (16, "query", "*h*: decoder state"),
    (156, "key", "*α*: weights"),
    (252, "value", "*a*: region vectors"),
    (392, "value", "*z*: context"),
)
_CELL, _READ = 13, 438  # side of a vector's squares; x of the values read
_HEIGHTS = range(80, 280, 40)  # of the rows of the table


def soft_and_hard() -> Drawing:
    """One step of a captioner with soft and with hard attention, and their gradients.

    Source: Xu et al. 2015, section 4.
    """
    drawing = Drawing(
        474,
        "One step of a captioner, twice, with an image of a four and a seven that is"
        " divided into regions. Soft attention averages all regions under their weights,"
        " and the gradient goes back from the word through the average to the scores."
        " Hard attention samples one region by the same weights. The decoder still gets"
        " a gradient, but the path from the sampled region to the scores is broken.",
    )
    weights = _region_weights()
    one_hot = _sampled(weights)
    soft = _Captioner(drawing, 104, "soft attention", "*z*_t = Σ_i *α*_{ti} *a*_i")
    soft.image(weights, weights)
    drawing.text(104, 426, "reads all regions", "muted")
    hard = _Captioner(drawing, 376, "hard attention", "*z*_t = *a*_s")
    hard.image(weights, one_hot)
    hard.outline(one_hot.index(1))
    drawing.text(420, 272, "*s* ~ *α*_t", "key")
    drawing.text(376, 426, "reads one region", "muted")

    _gradient(drawing, (soft.word.right, soft.scores.right), 192)
    _gradient(drawing, (hard.word.left, (hard.z.left[0], hard.z.y + 4)), 288)
    _gradient(
        drawing, ((hard.z.left[0], hard.z.y - 4), hard.scores.left), 288, dashed=True
    )
    drawing.cross(288, 252)
    drawing.text(238, 252, "broken by\nsampling", "gradient")
    drawing.text(240, hard.word.y, "gradient", "gradient")
    for x, role, name in _LETTERS:
        drawing.text(x, 458, name, role, "start")
    return drawing


def gumbel() -> Drawing:
    """A sample by Gumbel noise: the largest of scores plus noise, and its softmax as τ falls.

    Source: Jang et al. 2017, figure 1, with other numbers.
    """
    noise, sums = _gumbel_noise(), _noisy_scores()
    one_hot = _one_hot(sums)
    drawing = Drawing(
        296,
        "A table of five positions. To the score of each, Gumbel noise is added, and the"
        " largest sum is a sample from the softmax of the scores. At a temperature of 2 a"
        " softmax of the sums is spread out, at 0.5 it is sharper, and at 0.1 it is"
        " nearly one-hot: its weight is on the largest sum, as in the argmax.",
    )
    columns = (
        (52, "score", "*e*_i", _SCORES),
        (118, "noise", "*g*_i", noise),
        (188, "sum", "*e*_i + *g*_i", sums),
    )
    for x, name, symbol, numbers in columns:
        drawing.text(x, 18, name, bold=True)
        drawing.text(x, 44, symbol, "muted")
        for y, number in zip(_HEIGHTS, numbers, strict=True):
            text = f"{number:.1f}".replace("-", "−")
            drawing.text(x, y, text, bold=number == max(sums))
    for row, y in enumerate(_HEIGHTS, start=1):
        drawing.text(14, y, str(row), "muted")
        drawing.text(86, y, "+", "muted")
        drawing.text(152, y, "=", "muted")
    drawing.text(314, 18, "softmax(sum / *τ*)", bold=True)
    for left, temperature in ((230, 2), (292, 0.5), (354, 0.1)):
        drawing.text(left + 22, 44, f"*τ* = {temperature}", "muted")
        weights = (torch.tensor(sums) / temperature).softmax(0).tolist()
        _bars(drawing, left, weights, [f"{weight:.2f}" for weight in weights])
    drawing.text(444, 18, "argmax", bold=True)
    _bars(drawing, 422, one_hot, [str(one) for one in one_hot])
    drawing.arrow((230, 268), (466, 268), role="muted")
    drawing.text(348, 284, "the temperature falls", "muted")
    return drawing


def _bars(
    drawing: Drawing, left: float, weights: Sequence[float], texts: Sequence[str]
) -> None:
    """A column of numbers, each above a bar."""
    drawing.line(
        (left, _HEIGHTS[0] - 14), (left, _HEIGHTS[-1] + 18), role="muted", width=1
    )
    for y, weight, text in zip(_HEIGHTS, weights, texts, strict=True):
        drawing.text(left + 6, y - 3, text, anchor="start")
        drawing.bar(left + 22 * weight, y + 11, 44 * weight, 8)


def _gumbel_noise() -> list[float]:
    generator = random.Random(_NOISE_SEED)
    return [-log(-log(generator.random())) for _ in _SCORES]


def estimators() -> Drawing:
    """Four ways to a gradient for the scores: what each computes forward and backward.

    Source: Xu et al. 2015, Jang et al. 2017 and Bengio et al. 2013.
    """
    drawing = Drawing(
        490,
        "Four estimators of the gradient of the scores, one below the other. Soft"
        " attention and the Gumbel-softmax read all values forward and backward, and"
        " their gradient goes back through the weights. REINFORCE reads the sampled value"
        " only; its gradient does not go back through the sample, but reaches the weights"
        " as reward times the gradient of a log-probability. Straight-through uses one"
        " value forward, but its gradient bypasses the argmax and flows through the"
        " weights, and needs all values.",
    )
    noisy = _noisy_scores()
    weights = torch.tensor(_SCORES).softmax(0).tolist()
    relaxed = (torch.tensor(noisy) / 0.5).softmax(0).tolist()
    one, every = _one_hot(noisy), [1] * len(_SCORES)
    drawing.text(_READ, 18, "values read", "value")

    soft = _Estimator(drawing, 72, "soft attention", weights)
    soft.average(every)
    soft.gradient_through_weights()

    reinforce = _Estimator(drawing, 186, "REINFORCE", weights)
    reinforce.sample(one, "*s*_t ~ *α*_t")
    reinforce.average(one)
    reinforce.gradient(reinforce.loss, reinforce.context)
    reinforce.log_derivative()
    reinforce.gradient(reinforce.weights, reinforce.scores)

    relaxation = _Estimator(drawing, 320, "Gumbel-softmax", relaxed, noisy)
    relaxation.average(every)
    relaxation.gradient_through_weights()

    straight = _Estimator(drawing, 434, "straight-through", relaxed, noisy)
    straight.sample(one, "onehot(*w*_t)")
    straight.average(one, every)
    straight.gradient_through_weights()
    return drawing


class _Estimator:
    """Scores, weights, perhaps a sample, context and loss, from left to right."""

    def __init__(
        self,
        drawing: Drawing,
        y: float,
        name: str,
        weights: Sequence[float],
        noisy: Sequence[float] = (),
    ):
        self.drawing, self.y = drawing, y
        drawing.text(14, y - 46, name, anchor="start", bold=True)
        scores = noisy or _SCORES
        self.scores = self._vector(47, torch.tensor(scores).sigmoid().tolist())
        drawing.text(47, y - 20, "*e*_t + *g*_t" if noisy else "*e*_t", "key")
        self.weights = self.averaged = self._vector(150, weights)
        drawing.text(150, y - 20, "*w*_t" if noisy else "*α*_t", "key")
        self.context = drawing.box(318, y, 36, 26, "*z*_t", "value")
        self.loss = drawing.box(374, y, 42, 26, "loss")
        drawing.arrow(self.scores.right, self.weights.left)
        drawing.arrow(self.context.right, self.loss.left)

    def _vector(self, x: float, shades: Sequence[float]) -> Rectangle:
        return self.drawing.grid(x, self.y, [shades], "key", _CELL)

    def sample(self, one_hot: Sequence[float], symbol: str) -> None:
        """One position, chosen by the weights."""
        self.averaged = self._vector(250, one_hot)
        self.drawing.text(250, self.y - 20, symbol, "key")
        self.drawing.arrow(self.weights.right, self.averaged.left)

    def average(self, forward: Sequence[float], backward: Sequence[float] = ()) -> None:
        """The context, and which values it needs forward and backward (default: the same)."""
        self.drawing.arrow(self.averaged.right, self.context.left)
        self.drawing.text(_READ, self.y - 20, "forward", "muted")
        self.drawing.grid(_READ, self.y, [forward], "value", _CELL)
        self.drawing.text(_READ, self.y + 20, "backward", "gradient")
        self.drawing.grid(_READ, self.y + 40, [backward or forward], "value", _CELL)

    def gradient(self, *parts: Rectangle) -> None:
        """The way of the gradient from part to part, below them."""
        for start, end in pairwise(parts):
            self._back(start, end, (-7, 7), 28)

    def gradient_through_weights(self) -> None:
        """The gradient of the scores where the weights are differentiable, or taken to be."""
        self.gradient(self.loss, self.context, self.weights, self.scores)

    def log_derivative(self) -> None:
        """REINFORCE: no way through the sample, but one by the logarithm of its weight."""
        self._back(self.context, self.weights, (-7, 7), 28, dashed=True)
        self.drawing.cross(self.averaged.x - 16, self.y + 28)
        self._back(self.loss, self.weights, (7, 0), 46)
        self.drawing.text(
            262, self.y + 62, "(*R*_t − *b*_t) ∇ log *α*_{t,s}", "gradient"
        )

    def _back(
        self,
        start: Rectangle,
        end: Rectangle,
        offsets: tuple[float, float],
        depth: float,
        dashed: bool = False,
    ) -> None:
        right, left, lane = start.x + offsets[0], end.x + offsets[1], self.y + depth
        self.drawing.arrow(
            (right, start.bottom[1]),
            (right, lane),
            (left, lane),
            (left, end.bottom[1]),
            role="gradient",
            width=2,
            dashed=dashed,
        )


def _noisy_scores() -> list[float]:
    return [e + g for e, g in zip(_SCORES, _gumbel_noise(), strict=True)]


def _one_hot(scores: Sequence[float]) -> list[int]:
    return [int(score == max(scores)) for score in scores]


def _region_weights() -> list[float]:
    """The weights of all regions, row by row: a softmax of scores that fall with distance."""
    column, row = _PEAK
    scores = [
        -0.7 * ((x + 0.5 - column) ** 2 + (y + 0.5 - row) ** 2)
        for y in range(_ROW)
        for x in range(_ROW)
    ]
    return torch.tensor(scores).softmax(0).tolist()


def _sampled(weights: Sequence[float]) -> list[int]:
    """One region, sampled by its weight, as a one-hot vector."""
    region = random.Random(_REGION_SEED).choices(range(len(weights)), weights)[0]
    return [int(place == region) for place in range(len(weights))]


def _gradient(
    drawing: Drawing, ends: tuple[Point, Point], x: float, dashed: bool = False
) -> None:
    """The way back from one part to another, beside the column at ``x``."""
    start, end = ends
    drawing.arrow(
        start, (x, start[1]), (x, end[1]), end, role="gradient", width=2, dashed=dashed
    )


class _Captioner:
    """One step, from top to bottom: scores, weights over an image, ``z``, a word."""

    def __init__(self, drawing: Drawing, x: float, title: str, context: str):
        self.drawing = drawing
        drawing.text(x, 18, title, bold=True)
        drawing.text(x, 46, "*h*_{t−1}", "query")
        self.scores = drawing.box(x, 88, 132, 28, "score, softmax")
        drawing.arrow((x, 56), self.scores.top, role="query")
        self.area = Rectangle(x, 190, _SIDE * _ROW, _SIDE * _ROW)
        drawing.arrow(self.scores.bottom, self.area.top)
        drawing.text(x + 16, 112, "*α*_t", "key")
        self.z = drawing.box(x, 304, 132, 28, context, "value")
        decoder = drawing.box(x, 352, 132, 28, "decoder")
        drawing.arrow(self.z.bottom, decoder.top)
        self.word = Rectangle(x, 396, 72, 20)
        drawing.text(x, self.word.y, "“seven”")
        drawing.arrow(decoder.bottom, self.word.top)

    def image(self, shades: Sequence[float], weights: Sequence[float]) -> None:
        """Shaded regions, and from each a line to ``z``, as thick as its weight."""
        peak = max(shades)
        rows = [
            [0.7 * shade / peak for shade in shades[start : start + _ROW]]
            for start in range(0, len(shades), _ROW)
        ]
        self.drawing.grid(self.area.x, self.area.y, rows, "key", _SIDE)
        for region, weight in enumerate(weights):
            if weight > _VISIBLE:
                x, y = self._point(*self._centre(region))
                end = (self.z.x + 0.7 * (x - self.z.x), self.z.top[1])
                self.drawing.line((x, y), end, role="key", width=_THICKNESS * weight)
        for stroke in _STROKES:
            self.drawing.line(*(self._point(*corner) for corner in stroke), width=4)

    def outline(self, region: int) -> None:
        """A frame around one region."""
        x, y = self._point(*self._centre(region))
        self.drawing.outline(Rectangle(x, y, _SIDE, _SIDE), "value")

    def _centre(self, region: int) -> Point:
        row, column = divmod(region, _ROW)
        return column + 0.5, row + 0.5

    def _point(self, column: float, row: float) -> Point:
        return self.area.left[0] + _SIDE * column, self.area.top[1] + _SIDE * row
