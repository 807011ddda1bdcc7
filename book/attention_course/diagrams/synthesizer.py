"""The drawings of chapter 8: the Synthesizer."""

import torch
from torch import Tensor

from attention_course.diagrams.drawing import Drawing, Point, Rectangle

_SIDE = 18  # of a square of a matrix
_ROW, _COLUMN = 1, 2  # i and j, the pair that is followed


def four_ways() -> Drawing:
    """How the weights are made: by queries and keys, by queries alone, or by neither.

    Source: Tay et al. 2021, figure 1, with the factorized table.
    """
    drawing = Drawing(
        504,
        "Four ways to make the matrix of attention weights. Dot product: the score of row i"
        " and column j compares the query of token i with the key of token j. Dense: a"
        " network computes row i from token i alone; the wire from token j is cut. Random:"
        " the scores are a table of parameters, and both wires are cut. Factorized random:"
        " the table is the product of two thin matrices of parameters. In all four the"
        " weights are the softmax of each row of scores.",
    )
    generator = torch.Generator().manual_seed(8)
    x, W_Q, W_K, W_1, W_2, R = torch.randn(6, 4, 4, generator=generator)
    R_1, R_2 = 1.5 * torch.randn(2, 4, 1, generator=generator)

    scores = x @ W_Q @ (x @ W_K).mT / 2
    panel = _Panel(drawing, 0, 0, "dot product", scores, "*B* = *QK*^⊤ / √*d*")
    panel.query("*q*_i")
    panel.key()

    scores = (x @ W_1).relu() @ W_2
    panel = _Panel(drawing, 240, 0, "dense", scores, "*B*_i = MLP(*x*_i)")
    panel.query("MLP")
    panel.cut_key()

    panel = _Panel(drawing, 0, 230, "random", R, "*B* = *R*, parameters")
    panel.cut_query()
    panel.cut_key()

    scores = R_1 @ R_2.mT
    panel = _Panel(
        drawing, 240, 230, "factorized", scores, "*B* = *R*_1 *R*_2^⊤, parameters"
    )
    panel.cut_query(_SIDE + 6)
    panel.cut_key(_SIDE + 6)
    panel.factors(R_1, R_2)
    drawing.text(240, 464, "shaded: the weights, softmax of each row of *B*", "muted")
    drawing.text(90, 488, "*x*_i, *x*_j: tokens", "muted")
    drawing.text(210, 488, "*B*: scores", "muted")
    drawing.text(364, 488, "MLP: two-layer network", "muted")
    return drawing


def mixture() -> Drawing:
    """A mixture of a learnt table and dot products, in proportions that are learnt too.

    Source: Tay et al. 2021, section 3.4.
    """
    drawing = Drawing(
        252,
        "A mixture of two kinds of scores. The table R, which is the same for all"
        " sentences, and the dot products of queries and keys are added with the weights"
        " alpha 1 and alpha 2, a softmax of two parameters. One softmax of each row of the"
        " sum gives the attention weights, which combine the values.",
    )
    generator = torch.Generator().manual_seed(5)
    R, Q, K = torch.randn(3, 4, 4, generator=generator)
    proportions = torch.tensor([0.0, 0.8]).softmax(0).tolist()  # a softmax of w
    mixed, middle = torch.zeros(4, 4), 143
    for number, name, formula, scores, proportion, y in (
        (1, "random", "*B*_1 = *R*", 2 * R, proportions[0], 82),
        (2, "dot product", "*B*_2 = *QK*^⊤ / √*d*", Q @ K.mT / 2, proportions[1], 204),
    ):
        mixed += proportion * scores
        matrix = drawing.grid(76, y, scores.sigmoid().tolist(), "muted", _SIDE)
        drawing.text(76, y - 68, name, bold=True)
        drawing.text(76, y - 50, formula)
        drawing.line((matrix.right[0] + 6, y), (206, middle), width=1 + 8 * proportion)
        height = y + (8 if y > middle else -8)
        drawing.text(152, height, f"α_{number} = {proportion:.2f}", anchor="start")
    plus = drawing.circle(206, middle, 10, "+")
    weights = drawing.grid(346, middle, mixed.softmax(-1).tolist(), side=_SIDE)
    drawing.arrow(plus.right, (weights.left[0] - 6, middle))
    drawing.text(260, middle - 12, "softmax")
    drawing.text(346, weights.top[1] - 14, "weights")
    drawing.arrow((weights.right[0] + 6, middle), (442, middle))
    drawing.text(412, middle - 12, "*V*", "value")
    drawing.text(456, middle, "*Y*", "value")
    return drawing


class _Panel:
    """One way: a matrix of weights, and what its row i and its column j are made of."""

    def __init__(
        self,
        drawing: Drawing,
        left: float,
        top: float,
        name: str,
        scores: Tensor,
        formula: str,
    ):
        self.drawing, self.left, self.top = drawing, left, top
        shades = scores.softmax(-1).tolist()
        self.matrix = drawing.grid(left + 180, top + 142, shades, side=_SIDE)
        self.row = self.matrix.y + (_ROW - 1.5) * _SIDE
        self.column = self.matrix.x + (_COLUMN - 1.5) * _SIDE
        drawing.text(left + 14, top + 20, name, anchor="start", bold=True)
        drawing.text(left + 14, top + 200, formula, anchor="start")

    def query(self, made: str) -> None:
        """Row i, computed from token i."""
        token = self.drawing.box(self.left + 28, self.row, 30, 26, "*x*_i", "query")
        query = self.drawing.box(self.left + 93, self.row, 46, 26, made, "query")
        self.drawing.arrow(token.right, query.left, role="query")
        self.drawing.arrow(query.right, (self.matrix.left[0], self.row), role="query")
        self.drawing.outline(Rectangle(self.matrix.x, self.row, 4 * _SIDE, _SIDE))

    def key(self) -> None:
        """Column j, computed from token j."""
        token = self.drawing.box(self.column, self.top + 22, 30, 26, "*x*_j", "key")
        key = self.drawing.box(self.column, self.top + 69, 46, 26, "*k*_j", "key")
        self.drawing.arrow(token.bottom, key.top, role="key")
        self.drawing.arrow(key.bottom, (self.column, self.matrix.top[1]), role="key")
        column = Rectangle(self.column, self.matrix.y, _SIDE, 4 * _SIDE)
        self.drawing.outline(column, "key")

    def cut_query(self, thickness: float = 0) -> None:
        """Token i, its wire cut off from the scores.

        The wire ends to the left of the matrix, or of a factor of this thickness there.
        """
        token = self.drawing.box(self.left + 28, self.row, 30, 26, "*x*_i", "muted")
        self._cut(token.right, (self.matrix.left[0] - thickness - 6, self.row))

    def cut_key(self, thickness: float = 0) -> None:
        """Token j, its wire cut off from the scores.

        The wire ends above the matrix, or above a factor of this thickness there.
        """
        token = self.drawing.box(self.column, self.top + 22, 30, 26, "*x*_j", "muted")
        self._cut(token.bottom, (self.column, self.matrix.top[1] - thickness - 6))

    def factors(self, first: Tensor, second: Tensor) -> None:
        """The two thin matrices whose product the scores are."""
        (left, _), (_, top) = self.matrix.left, self.matrix.top
        x, y = left - 6 - _SIDE / 2, top - 6 - _SIDE / 2
        self.drawing.grid(x, self.matrix.y, first.sigmoid().tolist(), "muted", _SIDE)
        self.drawing.grid(
            self.matrix.x, y, second.mT.sigmoid().tolist(), "muted", _SIDE
        )
        self.drawing.text(x - 14, self.matrix.y + 27, "*R*_1", anchor="end")
        self.drawing.text(left - 8, y, "*R*_2^⊤", anchor="end")

    def _cut(self, start: Point, end: Point) -> None:
        self.drawing.line(start, end, role="muted", dashed=True)
        x, y = (start[0] + end[0]) / 2, (start[1] + end[1]) / 2
        self.drawing.cross(x, y, role="ink", width=2.5)
