"""The drawings of chapter 1: encoder and decoder, their cells, and beam search."""

from collections.abc import Sequence
from itertools import pairwise
from textwrap import fill
from typing import NamedTuple

from attention_course.diagrams.drawing import Drawing, Point, Rectangle, Role

_STATE = (60, 34)  # width and height of a hidden state's box
_SOURCE = ("one", "hundred", "and", "eighty")
_TARGET = ("cent", "quatre", "vingts", "<eos>")

#: Sentences of 5 and of 25 words, and the dimension of the vector that holds either.
_SHORT = "a dog runs on grass"
_LONG = (
    "a brown dog with a red collar runs on the wet grass behind two children who are"
    " throwing a big yellow ball over a fence"
)
_DIMENSION = 10

#: A language model as a table: the probability of each token after a token.
_FOLLOWING = {
    "S": {"A": 0.6, "B": 0.4},
    "A": {"C": 0.6, "D": 0.4},
    "B": {"E": 0.8, "F": 0.2},
    "C": {"G": 0.45, "H": 0.55},
    "D": {"G": 0.5, "H": 0.5},
    "E": {"I": 0.1, "K": 0.9},
    "F": {"I": 0.5, "K": 0.5},
}
_BEAM = 2  # the width of the beam
_COLUMNS, _NODE = (40, 172, 306, 440), (62, 42)  # of the tree; the size of a node


def encoder_decoder() -> Drawing:
    """An encoder, the one vector that it leaves, and a decoder, unrolled in time.

    Source: Cho et al. 2014, figure 1, redrawn.
    """
    drawing = Drawing(
        446,
        "An encoder–decoder that translates “one hundred and eighty” into “cent"
        " quatre vingts”. The encoder's hidden states h_1 to h_4 read one source"
        " token each, and the last of them alone gives the vector c. The decoder's"
        " first state is computed from c, and each later state from the previous state,"
        " the previous target token and c; a softmax over each predicts the next token,"
        " up to the end of the sentence. The previous token is the ground truth in"
        " training, otherwise the decoder's own prediction.",
    )
    columns = [44 + 98 * number for number in range(5)]
    encoder = drawing.chain(columns[1:], 332, _STATE, _names("*h*", 1, 4), "key")
    for box, word in zip(encoder, _SOURCE, strict=True):
        drawing.text(box.x, 390, word)
        drawing.arrow((box.x, 378), box.bottom)
    context = drawing.box(240, 232, 64, 36, "*c*", "value")
    drawing.curved_arrow(encoder[-1].top, context.bottom, "key")

    decoder = drawing.chain(columns, 122, _STATE, _names("*h*′", 0, 4), "query")
    for box in decoder:
        drawing.curved_arrow(context.top, box.bottom, "value")
    drawing.text(columns[0], 20, "<bos>")
    _predict(drawing, decoder[1:])
    _feed_back(drawing, 31, decoder, "muted")
    _name_parts(drawing)
    return drawing


def _predict(drawing: Drawing, decoder: Sequence[Rectangle]) -> None:
    """A softmax over each decoder state, and the token that it predicts."""
    for box, word in zip(decoder, _TARGET, strict=True):
        softmax = drawing.box(box.x, 68, 66, 24, "softmax")
        drawing.arrow(box.top, softmax.bottom)
        drawing.arrow(softmax.top, (box.x, 30))
        drawing.text(box.x, 20, word)


def _name_parts(drawing: Drawing) -> None:
    """What the states, the vector and the tokens of an encoder–decoder are."""
    drawing.text(12, 66, "decoder", "muted", "start", bold=True)
    drawing.text(12, 84, "states *h*′", "query", "start")
    drawing.text(12, 324, "encoder", "muted", "start", bold=True)
    drawing.text(12, 342, "states *h*", "key", "start")
    drawing.text(
        284,
        232,
        "*c*: one vector of fixed size,\nhowever long the source",
        "value",
        "start",
    )
    drawing.arrow((14, 210), (30, 222), role="muted")
    drawing.text(40, 216, "previous token:", "muted", "start")
    drawing.text(
        12, 242, "ground truth in training,\notherwise own prediction", "muted", "start"
    )
    text = "<bos>, <eos>: beginning and end of a sentence"
    drawing.text(240, 428, text, "muted")


def teacher_forcing() -> Drawing:
    """What the decoder reads in training, and what it reads at inference."""
    drawing = Drawing(
        352,
        "A decoder in training and at inference. In training it reads the"
        " ground-truth tokens “<bos> cent quatre vingts” whatever it has predicted,"
        " so that its one wrong prediction, “mille”, does not change what it reads"
        " next. At inference it reads its own predictions, and after the wrong"
        " “mille” it continues with “quatre vingts”, which fits “cent mille” but not"
        " the source.",
    )
    decoder = _decode(drawing, 18, ("cent", "mille", "vingts", "<eos>"))
    drawing.text(12, 18, "training: teacher forcing", anchor="start", bold=True)
    for box, word in zip(decoder, ("<bos>", *_TARGET[:-1]), strict=True):
        _read(drawing, box, word)
    drawing.text(12, decoder[0].y + 52, "ground truth", "muted", "start")

    decoder = _decode(drawing, 200, ("cent", "mille", "quatre", "vingts"))
    drawing.text(12, 200, "inference: free-running", anchor="start", bold=True)
    _read(drawing, decoder[0], "<bos>")
    _feed_back(drawing, 243, decoder, "query")
    return drawing


def _decode(drawing: Drawing, y: float, predictions: Sequence[str]) -> list[Rectangle]:
    """Four decoder states and what they predict, below a title at the height ``y``."""
    columns = [148 + 98 * number for number in range(4)]
    decoder = drawing.chain(columns, y + 82, _STATE, _names("*h*′", 1, 4), "query")
    for box, word in zip(decoder, predictions, strict=True):
        drawing.arrow(box.top, (box.x, y + 42))
        note = " (wrong)" if word == "mille" else ""
        drawing.text(box.x, y + 32, word + note, "query", bold=bool(note))
    drawing.text(12, y + 32, "predictions", "muted", "start")
    return decoder


def _read(drawing: Drawing, state: Rectangle, word: str) -> None:
    """A token below a state, which reads it."""
    drawing.text(state.x, state.y + 52, word)
    drawing.arrow((state.x, state.y + 41), state.bottom)


def _feed_back(
    drawing: Drawing, y: float, states: Sequence[Rectangle], role: Role
) -> None:
    """Arrows from the tokens above all states but the last to the states after them."""
    for box, following in pairwise(states):
        end = (following.x - 24, following.top[1])
        drawing.arrow((box.x + 22, y), end, role=role)


def sutskever() -> Drawing:
    """A deep LSTM that reads the source in reverse, and one that continues from it.

    Source: Sutskever et al. 2014, figure 1 and section 3.3; two layers instead of four.
    """
    drawing = Drawing(
        270,
        "Two LSTMs of two layers each. The encoder reads the source “ninety seven”"
        " from its last token to its first. The decoder starts from the last hidden"
        " state h and cell state c of each layer, reads the previous target tokens,"
        " “<bos> quatre vingt dix sept”, and predicts “quatre vingt dix sept <eos>”."
        " It receives nothing else from the source.",
    )
    columns = [84 + 60 * number for number in range(7)]
    source, target = columns[:2], columns[2:]
    softmax = drawing.box(
        sum(target) / 5, 62, target[-1] - target[0] + 46, 24, "softmax"
    )
    inputs: list[Point] = [(x, 218) for x in columns]
    for number, y in enumerate((176, 118), 1):
        drawing.text(8, y, f"layer {number}", "muted", "start")
        encoder = drawing.chain(source, y, (46, 30), ["*h*, *c*"] * 2, "key")
        decoder = drawing.chain(target, y, (46, 30), ["*h*, *c*"] * 5, "query")
        drawing.arrow(encoder[-1].right, decoder[0].left, role="value", width=3)
        for start, box in zip(inputs, encoder + decoder, strict=True):
            drawing.arrow(start, box.bottom)
        inputs = [box.top for box in encoder + decoder]
    words = ["seven", "ninety", "<bos>", "quatre", "vingt", "dix", "sept", "<eos>"]
    for x, word in zip(columns, words[:-1], strict=True):
        drawing.text(x, 228, word)
    for x, top, word in zip(target, inputs[2:], words[3:], strict=True):
        drawing.arrow(top, (x, softmax.bottom[1]))
        drawing.arrow((x, softmax.top[1]), (x, 30))
        drawing.text(x, 20, word)
    drawing.text(sum(source) / 2, 253, "source, reversed", "muted")
    drawing.text(softmax.x, 253, "previous target token", "muted")
    drawing.text(
        8,
        46,
        "the decoder receives\nonly the last *h* and *c*\nof the source",
        "value",
        "start",
    )
    return drawing


def bottleneck() -> Drawing:
    """A short and a long sentence in vectors of the same size."""
    drawing = Drawing(
        276,
        "Two sentences, of 5 and of 25 words, are each encoded in one vector c of 10"
        " components. The short sentence has two components for each word, the long one"
        " two for every five words.",
    )
    drawing.text(8, 116, "encoder", "muted", "start", bold=True)
    _squeeze(drawing, 120, _SHORT)
    _squeeze(drawing, 360, _LONG)
    return drawing


def _squeeze(drawing: Drawing, x: float, sentence: str) -> None:
    """Lines from the tokens of a sentence to one vector above them."""
    count = len(sentence.split())
    drawing.text(x, 22, f"*c*: {_DIMENSION} components", "value")
    vector = drawing.grid(x, 44, [[0.3] * _DIMENSION], "value", side=11)
    spread = vector.width / count
    for number in range(count):
        offset = number - (count - 1) / 2
        drawing.bar(x + 9 * offset, 146, 6, 14)
        end = (x + spread * offset, vector.bottom[1] + 2)
        drawing.flow((x + 9 * offset, 139), end, "key", width=1)
    lines = fill(sentence, 30)
    drawing.text(x, 170 + 8.4 * lines.count("\n"), lines)
    for_each = _DIMENSION / count
    drawing.text(x, 258, f"{count} words: {for_each:g} components each", "muted")


def gru_cell() -> Drawing:
    """A gated recurrent unit: reset gate, update gate, candidate and new state.

    Source: Cho et al. 2014, figure 2, with PyTorch's conventions: the reset gate r
    is applied after the matrix U_n, and the update gate z keeps the old state.
    """
    drawing = Drawing(
        364,
        "A GRU cell. The update gate z and the reset gate r are sigmoids of the input"
        " x_t and the old state h_{t−1}. The candidate state n is a tanh of x_t and"
        " of r times U_n h_{t−1}. The new state h_t is the sum of z times h_{t−1} and"
        " 1 − z times n, all element by element.",
    )
    cell = _Cell(drawing)
    keep, add = cell.update("*h*", "key", 90, 372)
    update = cell.layer(90, "σ", "*z*_t", "update\ngate")
    reset = cell.layer(180, "σ", "*r*_t", "reset\ngate")
    candidate = cell.layer(372, "tanh", "*n*_t", "candidate\nstate")
    cell.read([update, reset])

    one_minus = cell.elementwise(231, 120, "1 −", radius=17)
    renew = cell.elementwise(372, 120, "×")
    drawing.arrow(update.top, keep.bottom)
    drawing.dot(update.x, one_minus.y, 3)
    drawing.arrow((update.x, one_minus.y), one_minus.left)
    drawing.arrow(one_minus.right, renew.left)
    drawing.arrow(candidate.top, renew.bottom)
    drawing.arrow(renew.top, add.bottom)

    gated = cell.elementwise(282, candidate.y, "×")
    matrix = drawing.box(282, 266, 38, 24, "*U*_n")
    drawing.text(282, 320, "*h*_{t−1}")
    drawing.arrow((282, 308), matrix.bottom)
    drawing.arrow(matrix.top, gated.bottom)
    drawing.arrow(reset.right, gated.left)
    drawing.arrow(gated.right, candidate.left)
    drawing.text(candidate.x, 320, "*x*_t")
    drawing.arrow((candidate.x, 308), candidate.bottom)
    return drawing


class _Cell:
    """The parts of the drawing of a recurrent cell."""

    def __init__(self, drawing: Drawing):
        self.drawing = drawing
        drawing.circle(150, 350, 6)
        drawing.text(162, 350, "layer", "muted", "start")
        drawing.circle(238, 350, 6, role="ink")
        drawing.text(250, 350, "element by element", "muted", "start")

    def state(self, x: float, y: float, name: str, role: Role) -> Rectangle:
        """A vector that the cell receives or returns."""
        return self.drawing.box(x, y, 46, 32, name, role)

    def elementwise(
        self, x: float, y: float, operation: str, radius: float = 13
    ) -> Rectangle:
        """An operation without parameters."""
        return self.drawing.circle(x, y, radius, operation, "ink")

    def layer(self, x: float, function: str, name: str, purpose: str) -> Rectangle:
        """A linear layer and its activation function, named after what it computes."""
        self.drawing.text(x + 8, 174, name, anchor="start")
        self.drawing.text(x + 7, 258, purpose, "muted", "start")
        return self.drawing.circle(x, 206, 20, function)

    def read(self, layers: Sequence[Rectangle]) -> None:
        """The vectors x_t and h_{t−1}, which all these layers receive."""
        left, right = layers[0].x - 30, layers[-1].x + 30
        names = "*x*_t, *h*_{t−1}"
        box = self.drawing.box((left + right) / 2, 318, right - left, 28, names, "ink")
        for layer in layers:
            self.drawing.arrow((layer.x, box.top[1]), layer.bottom)

    def update(
        self, letter: str, role: Role, keep: float, add: float
    ) -> tuple[Rectangle, Rectangle]:
        """A state, multiplied at one node and added to at another."""
        boxes = [
            self.state(32, 50, f"{letter}_{{t−1}}", role),
            self.elementwise(keep, 50, "×"),
            self.elementwise(add, 50, "+"),
            self.state(448, 50, f"{letter}_t", role),
        ]
        for box, following in pairwise(boxes):
            self.drawing.arrow(box.right, following.left, role=role)
        return boxes[1], boxes[2]


def beam_tree() -> Drawing:
    """The partial hypotheses that a beam search of width 2 tries, keeps and drops."""
    tried, kept = _search(_BEAM)
    best, greedy = kept[-_BEAM], _search(1)[1][-1]
    drawing = Drawing(
        440,
        f"A tree of the hypotheses of a beam search of width {_BEAM}: at each of three"
        " time steps the two most probable nodes are kept. Each node is a token with"
        " the probability of the whole path to it, and each branch has the"
        " probability of the next token. Greedy search follows"
        f" {' '.join(greedy.tokens)}, with probability {greedy.probability:.3g}. The"
        f" beam search finds {' '.join(best.tokens)}, with {best.probability:.3g},"
        " although its first token was less probable.",
    )
    for step, x in enumerate(_COLUMNS[1:], 1):
        drawing.text(x, 18, f"step {step}", "muted")
    places = _places([hypothesis.tokens for hypothesis in tried])
    for hypothesis in tried:
        _add_branch(drawing, places, hypothesis, hypothesis in kept)
    drawing.box(22, 58, 24, 16, role="key")
    drawing.text(42, 58, "kept", "muted", "start")
    drawing.frame(10, 76, 34, 92)
    drawing.text(42, 84, "dropped", "muted", "start")
    _multiply(drawing, 396, "greedy search", greedy)
    _multiply(drawing, 420, f"beam of {_BEAM}", best)
    return drawing


class _Hypothesis(NamedTuple):
    """A prefix, and its probability."""

    tokens: str
    probability: float

    @property
    def factors(self) -> list[float]:
        """The probability of each token after the first."""
        return [_FOLLOWING[token][after] for token, after in pairwise(self.tokens)]


def _search(width: int) -> tuple[list[_Hypothesis], list[_Hypothesis]]:
    """A beam search for three tokens: all that it tries, and what it keeps."""
    beam = [_Hypothesis("S", 1.0)]
    tried, kept = list(beam), list(beam)
    for _ in range(3):
        longer = [
            _Hypothesis(prefix + token, probability * factor)
            for prefix, probability in beam
            for token, factor in _FOLLOWING[prefix[-1]].items()
        ]
        beam = sorted(longer, key=lambda hypothesis: -hypothesis.probability)[:width]
        tried, kept = tried + longer, kept + beam
    return tried, kept


def _places(prefixes: Sequence[str]) -> dict[str, Point]:
    """The nodes' positions: leaves in rows, others halfway between children."""
    parents = {prefix[:-1] for prefix in prefixes if len(prefix) > 1}
    leaves = sorted(set(prefixes) - parents)
    rows = {leaf: 60.0 + 57 * number for number, leaf in enumerate(leaves)}
    for parent in sorted(parents, key=len, reverse=True):
        children = [y for prefix, y in rows.items() if prefix[:-1] == parent]
        rows[parent] = sum(children) / len(children)
    return {prefix: (_COLUMNS[len(prefix) - 1], y) for prefix, y in rows.items()}


def _add_branch(
    drawing: Drawing, places: dict[str, Point], hypothesis: _Hypothesis, kept: bool
) -> None:
    """The last token of a hypothesis, and the line to it."""
    (x, y), (width, height) = places[hypothesis.tokens], _NODE
    text = f"{hypothesis.tokens[-1]}\n{hypothesis.probability:.3g}"
    if kept:
        drawing.box(x, y, width, height, text, "key")
    else:
        drawing.frame(x - width / 2, y - height / 2, x + width / 2, y + height / 2)
        drawing.text(x, y, text, "muted")
    if hypothesis.factors:
        before, top = places[hypothesis.tokens[:-1]]
        start, end = (before + width / 2, top), (x - width / 2, y)
        role: Role = "key" if kept else "muted"
        drawing.line(start, end, role=role, width=3 if kept else 1.5, dashed=not kept)
        _label(drawing, start, end, f"{hypothesis.factors[-1]:g}")


def _label(drawing: Drawing, start: Point, end: Point, text: str) -> None:
    """Text above a line that rises to the right, or below one that falls."""
    (x0, y0), (x1, y1) = start, end
    length = ((x1 - x0) ** 2 + (y1 - y0) ** 2) ** 0.5
    right, down = (x1 - x0) / length, (y1 - y0) / length
    distance = 12 + 10 * abs(down)  # a text is wider than high
    x = (x0 + x1) / 2 - distance * abs(down)
    y = (y0 + y1) / 2 + distance * (right if down > 0 else -right)
    drawing.text(x, y, text, "muted")


def _multiply(drawing: Drawing, y: float, name: str, hypothesis: _Hypothesis) -> None:
    """The probability of a hypothesis as a product, in a line of text."""
    product = " · ".join(f"{factor:g}" for factor in hypothesis.factors)
    drawing.text(40, y, name, anchor="start", bold=True)
    drawing.text(164, y, " ".join(hypothesis.tokens), anchor="start")
    drawing.text(240, y, f"{product} = {hypothesis.probability:.3g}", anchor="start")


def _names(letter: str, first: int, last: int) -> list[str]:
    """Names of states: the letter with each index."""
    return [f"{letter}_{index}" for index in range(first, last + 1)]
