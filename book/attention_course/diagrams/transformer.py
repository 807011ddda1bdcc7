"""The drawings of chapter 6: the Transformer."""

from itertools import pairwise

import torch
from torch import Tensor

from attention_course.diagrams.drawing import Drawing, Rectangle, Role, masked
from companion.attention import masks
from companion.attention.scores import ScaledDot
from companion.layers.positional_encoding import sinusoids

_WIDTH, _HEIGHT = 148, 32  # of a layer's box
_COLUMNS = (84, 240, 396)  # the middles of three columns
_SIDE = 18  # of a square of a matrix
_ENCODER_LAYER = (  # the name, height above the ground and size of each part
    ("self-attention", 222, _HEIGHT),
    ("add & layer norm", 178, 24),
    ("feed-forward", 122, _HEIGHT),
    ("add & layer norm", 82, 24),
)
_OUTPUT = 34  # the same height for what a layer returns
_PROJECTIONS: tuple[tuple[Role, str], ...] = (
    ("query", "Q"),
    ("key", "K"),
    ("value", "V"),
)


def architecture() -> Drawing:
    """The encoder and the decoder of the Transformer, with residual connections and shapes.

    Source: Vaswani et al. 2017, figure 1; post-norm, as there.
    """
    drawing = Drawing(
        706,
        "The Transformer. The encoder embeds the source tokens, adds positional encodings,"
        " and applies N layers of self-attention and a feed-forward network, each with a"
        " residual connection and layer normalisation. The decoder does the same with the"
        " target so far, under a causal mask, and between the two it attends to the"
        " encoder's output: queries from the decoder, keys and values from the encoder."
        " A linear layer and a softmax give the probabilities of the next token.",
    )
    encoder = _Stack(drawing, 122, residual_side=-1)
    encoder.embed("source tokens")
    encoder.repeat("encoder", 235, "(*n*, *d*)")
    encoder.self_attention("self-attention")
    encoder.feed_forward()
    memory = encoder.y

    decoder = _Stack(drawing, 358, residual_side=1)
    decoder.embed("target tokens so far")
    decoder.repeat("decoder", 419, "(*t*, *d*)")
    decoder.self_attention("causal\nself-attention")
    decoder.cross_attention(122, memory, "(*n*, *d*)")
    text = "output of the\nlast layer"
    drawing.text(112, memory - 36, text, "muted", anchor="end")
    decoder.feed_forward()
    decoder.layer("linear", gap=28)
    decoder.layer("softmax")
    drawing.arrow((358, decoder.y), (358, decoder.y - 20))
    text = "(*t*, vocabulary)"
    drawing.text(366, decoder.y - 11, text, "muted", anchor="start")
    drawing.text(358, decoder.y - 31, "next token's probabilities")
    drawing.text(240, encoder.sum.y + 5, "positional\nencodings")
    drawing.arrow((202, encoder.sum.y), encoder.sum.right)
    drawing.arrow((278, decoder.sum.y), decoder.sum.left)
    _legend(drawing, 22, 60)
    return drawing


def multi_head() -> Drawing:
    """Queries, keys and values projected, split into heads, attended to, and joined.

    Source: Vaswani et al. 2017, figure 2, right, with the split and the shapes.
    """
    drawing = Drawing(
        484,
        "Multi-head attention. The vectors X, of shape n × d, are projected to the queries;"
        " the vectors Z, of shape m × d, to the keys and to the values. Each projection is"
        " split into h heads of d/h dimensions; three are drawn. Every head attends with"
        " its own queries, keys and values. The outputs of the heads are concatenated to a"
        " matrix of shape n × d, and a last matrix projects them.",
    )
    slices = [
        _projection(drawing, x, role, letter)
        for x, (role, letter) in zip(_COLUMNS, _PROJECTIONS, strict=True)
    ]
    drawing.text(84, 468, "*X*  (*n*, *d*)")
    drawing.arrow((84, 456), (84, 417))
    drawing.text(318, 468, "*Z*  (*m*, *d*)")
    for x in _COLUMNS[1:]:
        drawing.arrow((318, 456), (318, 438), (x, 438), (x, 417))

    outputs = _segments(drawing, 240, 122, 58, "head")
    for head, (x, output) in enumerate(zip(_COLUMNS, outputs, strict=True)):
        box = drawing.box(x, 200, 116, 32, "attention")
        for start, offset, (role, _) in zip(
            slices, (-36, 0, 36), _PROJECTIONS, strict=True
        ):
            end = (x + offset, box.bottom[1])
            drawing.curved_arrow(start[head].top, end, role)
        drawing.curved_arrow(box.top, output.bottom)
    drawing.text(74, 164, "(*n*, *d*/*h*)", "muted", anchor="end")
    drawing.text(336, 122, "concatenated\n(*n*, *d*)", "muted", anchor="start")
    box = drawing.box(240, 68, 64, 30, "*W*^O")
    drawing.arrow((240, 109), box.bottom)
    drawing.arrow(box.top, (240, 28))
    drawing.text(240, 16, "output  (*n*, *d*)")
    _roles(drawing, 26, 16)
    drawing.text(454, 16, "*h* = 3 heads", "muted", anchor="end")
    return drawing


def scaled_dot_product() -> Drawing:
    """Scaled dot-product attention on small matrices: scores, mask, softmax, average.

    Each score lies where a row of Q meets a column of Kᵀ, and each output where a row of
    weights meets a column of V.

    Source: Vaswani et al. 2017, figure 2, left, as matrices.
    """
    drawing = Drawing(
        268,
        "Scaled dot-product attention of four queries to four keys. The matrix of queries"
        " times the transposed matrix of keys, divided by the square root of their"
        " dimension, gives four by four scores. The causal mask crosses out the keys after"
        " each query. A softmax turns every row into weights that sum to one. The weights"
        " times the matrix of values give four outputs. One row is marked throughout: the"
        " third query, its scores, its weights and its output.",
    )
    queries, keys, values = torch.randn(3, 4, 3, generator=_generator(29))
    mask = masks.dense(masks.causal(), 4)
    weights = ScaledDot().weights(queries, keys, mask)
    scores = _shades(ScaledDot().score(queries, keys))
    averaged = _shades(torch.cat([values, weights @ values]))  # on one scale
    drawing.grid(114, 90, _shades(keys.mT), "key", _SIDE)
    drawing.text(114, 50, "*K*^⊤ (*d*_k, *n*)", "key")
    drawing.grid(435, 81, averaged[:4], "value", _SIDE)
    drawing.text(435, 32, "*V* (*n*, *d*_v)", "value")
    rows = [
        drawing.grid(45, 159, _shades(queries), "query", _SIDE),
        drawing.grid(114, 159, scores, "muted", _SIDE),
        drawing.grid(232, 159, masked(scores, mask.tolist()), "muted", _SIDE),
        drawing.grid(366, 159, masked(weights.tolist(), mask.tolist()), "key", _SIDE),
        drawing.grid(435, 159, averaged[4:], "value", _SIDE),
    ]
    names = ("*Q*", "scores", "masked", "weights", "output")
    shapes = ("(*n*, *d*_k)", "(*n*, *n*)", "(*n*, *n*)", "(*n*, *n*)", "(*n*, *d*_v)")
    roles: tuple[Role, ...] = ("query", "ink", "ink", "ink", "value")
    for grid, name, shape, role in zip(rows, names, shapes, roles, strict=True):
        drawing.outline(Rectangle(grid.x, grid.y + _SIDE / 2, grid.width, _SIDE))
        drawing.text(grid.x, 210, name, role)
        drawing.text(grid.x, 228, shape, "muted")
    drawing.text(114, 250, "*QK*^⊤ / √*d*_k", "muted")
    drawing.text(366, 250, "each row sums to 1", "muted")
    for start, end, operation in ((1, 2, "mask"), (2, 3, "softmax")):
        left, right = rows[start].right[0] + 4, rows[end].left[0] - 4
        drawing.arrow((left, 159), (right, 159))
        drawing.text((left + right) / 2, 147, operation)
    return drawing


def one_token() -> Drawing:
    """The path of one token through a layer of the encoder, beside those of the others."""
    drawing = Drawing(
        358,
        "One token's path through an encoder layer. Five tokens stand side by side; the"
        " one in the middle is followed. Self-attention gives it a weighted sum over all five"
        " positions. After the residual connection and layer normalisation, the"
        " feed-forward network transforms this position alone. A second residual"
        " connection and normalisation end the layer. The other positions take the same"
        " path, in parallel and with the same parameters.",
    )
    query, *keys = torch.randn(6, 4, generator=_generator(0))
    weights = ScaledDot().weights(query[None], torch.stack(keys))[0].tolist()
    words = ("ninety", "seven", "thousand", "and", "six")
    tokens = []
    for j, (x, word) in enumerate(zip((40, 116, 240, 364, 440), words, strict=True)):
        drawing.text(x, 342, word)
        tokens.append(drawing.box(x, 312, 60, 26, f"*x*_{j}"))
    attention = _followed_path(drawing, tokens[2])
    for j, (token, weight) in enumerate(zip(tokens, weights, strict=True)):
        end = attention.x + 22 * (j - 2)
        drawing.flow(token.top, (end, attention.bottom[1]), "key", 1 + 8 * weight)
        if j != 2:
            _other_path(drawing, token, f"*y*_{j}")
    drawing.text(78, 256, "α_{2j}", "key")
    return drawing


def _followed_path(drawing: Drawing, token: Rectangle) -> Rectangle:
    """A token's layers with their residual connections; the box of the attention."""
    boxes = [
        drawing.box(token.x, y, 132, height, name) for name, y, height in _ENCODER_LAYER
    ]
    boxes.append(drawing.box(token.x, _OUTPUT, 60, 26, "*y*_2"))
    for below, above in pairwise(boxes):
        drawing.arrow(below.top, above.bottom)
    between = (token.x, boxes[1].top[1] - 14)
    for start, norm in ((token.right, boxes[1]), (between, boxes[3])):
        edge, side = norm.right[0], norm.right[0] + 16
        drawing.residual(start, (side, start[1]), (side, norm.y), (edge, norm.y))
    return boxes[0]


def _other_path(drawing: Drawing, token: Rectangle, output: str) -> None:
    """The same layers for a token that is not followed."""
    boxes = [token]
    for _, y, height in _ENCODER_LAYER:
        boxes.append(drawing.box(token.x, y, 60, height, role="muted"))
    boxes.append(drawing.box(token.x, _OUTPUT, 60, 26, output, "muted"))
    for below, above in pairwise(boxes):
        drawing.line(below.top, above.bottom, role="muted", width=1)


def causal_mask() -> Drawing:
    """Which tokens a decoder's tokens may attend to while it is trained."""
    drawing = Drawing(
        320,
        "The causal mask over five target tokens: the beginning of the sentence, quatre,"
        " vingt, dix, sept. Rows are queries, columns are keys. Each token may attend to"
        " itself and to the tokens before it; the later ones are crossed out. To the right"
        " of each row stands the token that it has to predict, which it never attends to.",
    )
    tokens = ("<bos>", "quatre", "vingt", "dix", "sept", "<eos>")
    allowed = masks.dense(masks.causal(), 5)
    side = 50.0
    shades = masked((0.45 * allowed).tolist(), allowed.tolist())
    grid = drawing.grid(213, 186, shades, side=side)
    left, top, right = grid.left[0], grid.top[1], grid.right[0]
    for place, (token, following) in enumerate(pairwise(tokens)):
        middle = side * (place + 0.5)
        drawing.text(left + middle, top - 14, token, "key")
        drawing.text(left - 10, top + middle, token, "query", anchor="end")
        drawing.arrow((right + 10, top + middle), (right + 36, top + middle))
        drawing.text(right + 44, top + middle, following, anchor="start")
    drawing.text(grid.x, 20, "keys", "key", bold=True)
    drawing.text(left - 10, 47, "queries", "query", anchor="end", bold=True)
    drawing.text(right + 44, 47, "predicted", anchor="start", bold=True)
    return drawing


def positions() -> Drawing:
    """The sinusoids of eight positions as the hands of clocks, one clock a frequency.

    Source: Vaswani et al. 2017, section 3.5, for d = 16.
    """
    drawing = Drawing(
        290,
        "Sinusoidal positional encodings as clocks. A column is a position from 0 to 7, a"
        " row is a pair of dimensions. At position 0 all hands point up. From position to"
        " position the hand of the first row turns by 1 radian, that of the second by"
        " 0.32, that of the third by 0.1, that of the fourth by 0.03. The four hands of a"
        " column are the first 8 of the 16 dimensions of its position's encoding.",
    )
    hands = sinusoids(torch.arange(8), 16).unflatten(-1, (8, 2))
    drawing.text(10, 22, "position", anchor="start")
    for position, pairs in enumerate(hands[:, :4].tolist()):
        x = 120 + 47 * position
        drawing.text(x, 22, str(position))
        for pair, (sine, cosine) in enumerate(pairs):
            y = 64 + 48 * pair
            drawing.circle(x, y, 19)
            drawing.line((x, y - 19), (x, y - 15), role="muted")
            drawing.arrow((x, y), (x + 17 * sine, y - 17 * cosine))
    for pair in range(4):
        frequency = 10000 ** (-2 * pair / 16)
        drawing.text(10, 64 + 48 * pair, f"ω_{pair} = {frequency:.2g}", anchor="start")
    drawing.frame(332, 8, 378, 234)
    drawing.text(468, 250, "*PE*(5), 8 of its 16 dimensions", anchor="end")
    drawing.text(10, 272, "horizontal: sin(*pos* · ω_i)", "muted", anchor="start")
    drawing.text(468, 272, "vertical: cos(*pos* · ω_i)", "muted", anchor="end")
    return drawing


def kv_cache() -> Drawing:
    """A step of decoding, in which only the newest token is projected."""
    drawing = Drawing(
        398,
        "A decoding step with a KV cache. The keys and values of positions 0 to 3 were"
        " computed at earlier steps and are kept. Only the new token, at position 4, is"
        " projected, to a query, a key and a value; the key and the value join the cache."
        " The query is compared with all five keys, which gives five weights, and the"
        " output is the weighted sum of the five values.",
    )
    query, *keys = torch.randn(6, 4, generator=_generator(4))
    weights = ScaledDot().weights(query[None], torch.stack(keys))[0].tolist()
    drawing.frame(24, 84, 312, 222)
    drawing.text(24, 244, "KV cache", anchor="start", bold=True)
    asking = drawing.box(216, 286, 52, 28, "*q*_4", "query")
    output = drawing.box(216, 28, 90, 28, "output", "value")
    for j, (x, weight) in enumerate(
        zip((64, 132, 200, 268, 364), weights, strict=True)
    ):
        key = drawing.box(x, 192, 52, 28, f"*k*_{j}", "key")
        value = drawing.box(x, 114, 52, 28, f"*v*_{j}", "value")
        width = 1 + 8 * weight
        drawing.flow(asking.top, key.bottom, "query")
        drawing.line(key.top, value.bottom, role="key", width=width)
        drawing.text(x + 9, 153, f"α_{{4{j}}}", "key", anchor="start")
        end = (output.x + 16 * (j - 2), output.bottom[1])
        drawing.flow(value.top, end, "value", width)
    _project_newest(drawing, Rectangle(364, 352, 52, 28), asking, key, value)
    return drawing


def _project_newest(
    drawing: Drawing,
    token: Rectangle,
    query: Rectangle,
    key: Rectangle,
    value: Rectangle,
) -> None:
    """The newest token, and the query, key and value made of it."""
    drawing.box(*token, "*x*_4")
    drawing.text(token.x, 382, "newest token")
    drawing.arrow(token.left, (query.x, token.y), query.bottom, role="query")
    drawing.text(290, token.y - 13, "*W*^Q", "query")
    for x, made, (role, letter) in zip(
        (408, 444), (key, value), _PROJECTIONS[1:], strict=True
    ):
        drawing.arrow(token.right, (x, token.y), (x, made.y), made.right, role=role)
        drawing.text(x + 6, 272, f"*W*^{letter}", role, anchor="start")


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _shades(matrix: Tensor) -> list[list[float]]:
    """A matrix as shades: 0 for its least entry, 1 for its greatest."""
    least, greatest = matrix.aminmax()
    return ((matrix - least) / (greatest - least)).tolist()


def _projection(drawing: Drawing, x: float, role: Role, letter: str) -> list[Rectangle]:
    """The matrix that makes queries, keys or values, and what it makes, a box a head."""
    box = drawing.box(x, 402, 64, 30, f"*W*^{letter}", role)
    segments = _segments(drawing, x, 336, 46, f"*{letter}*", role)
    drawing.arrow(box.top, (x, segments[1].bottom[1]), role=role)
    length = "*n*" if letter == "Q" else "*m*"
    drawing.text(x + 10, 368, f"({length}, *d*)", "muted", anchor="start")
    return segments


def _segments(
    drawing: Drawing, x: float, y: float, width: float, name: str, role: Role = "layer"
) -> list[Rectangle]:
    """A matrix as the columns of three heads, side by side."""
    return [
        drawing.box(x + (head - 2) * width, y, width, 26, f"{name}_{head}", role)
        for head in (1, 2, 3)
    ]


def _roles(drawing: Drawing, x: float, y: float) -> None:
    """What the letters Q, K and V stand for."""
    for place, (role, letter) in enumerate(_PROJECTIONS):
        names = ("queries", "keys", "values")
        drawing.text(x, y + 22 * place, letter, role, anchor="start", bold=True)
        drawing.text(x + 30, y + 22 * place, names[place], role, anchor="start")


def _legend(drawing: Drawing, x: float, y: float) -> None:
    _roles(drawing, x, y)
    drawing.text(x, y + 66, "all attention is multi-head", anchor="start")
    drawing.residual((x, y + 92), (x + 42, y + 92))
    drawing.text(x + 52, y + 92, "residual connection", "muted", anchor="start")
    drawing.text(x, y + 116, "(*n*, *d*)", "muted", anchor="start")
    text = "shape: *n* source or\n*t* target tokens,\n*d* dimensions"
    drawing.text(x + 52, y + 132.8, text, "muted", anchor="start")


class _Stack:
    """Layers drawn one above the other; ``y`` is the top of the last."""

    def __init__(self, drawing: Drawing, x: float, residual_side: int):
        self.drawing, self.x, self.y = drawing, x, 680.0
        self.residual_side = residual_side

    def layer(self, text: str, gap: float = 20, height: float = _HEIGHT) -> Rectangle:
        """A box above the last layer, with an arrow from there."""
        box = self.drawing.box(self.x, self.y - gap - height / 2, _WIDTH, height, text)
        self.drawing.arrow((self.x, self.y), box.bottom)
        self.y = box.top[1]
        return box

    def embed(self, tokens: str) -> None:
        """Tokens, their embeddings, and a sum."""
        self.drawing.text(self.x, 692, tokens)
        self.layer("embedding", gap=18)
        self.sum = self.drawing.circle(self.x, self.y - 32, 10, "+")
        self.drawing.arrow((self.x, self.y), self.sum.bottom)
        self.y = self.sum.top[1]

    def repeat(self, name: str, height: float, shape: str) -> None:
        """The frame of one of N layers, of this height, with what it is and its inputs' shape."""
        bottom, side = self.y - 5, self.residual_side
        self.drawing.box(self.x, bottom - height / 2, _WIDTH + 60, height)
        self.drawing.text(self.x - 26 * side, bottom - 12, shape, "muted")
        title = f"{name},\n*N* layers"
        self.drawing.text(self.x + 62 * side, bottom + 23, title, bold=True)

    def self_attention(self, text: str) -> None:
        """Attention whose queries, keys and values are projections of the same vectors."""
        start = self.y - 22
        box = Rectangle(self.x, start - 56, _WIDTH, 44)
        self.drawing.line((self.x, self.y), (self.x, start - 8))
        for offset, (role, letter) in zip((-44, 0, 44), _PROJECTIONS, strict=True):
            x = self.x + offset
            self.drawing.arrow(
                (self.x, start - 8), (x, start - 8), (x, box.bottom[1]), role=role
            )
            self.drawing.text(x + 11, start - 22, letter, role, bold=True)
        self.drawing.box(*box, text)
        self.y = box.top[1]
        self.add_and_norm(start)

    def cross_attention(self, x: float, y: float, shape: str) -> None:
        """Attention with queries from below, and keys and values, of a shape, from ``(x, y)``."""
        start = self.y - 12
        box = Rectangle(self.x, y - 36, _WIDTH, 44)
        self.drawing.arrow((self.x, self.y), box.bottom, role="query")
        self.drawing.text(self.x + 11, box.bottom[1] + 16, "Q", "query", bold=True)
        fork = box.y + 12
        self.drawing.line((x, y), (x, fork))
        for offset, (role, letter) in zip((12, -12), _PROJECTIONS[1:], strict=True):
            height = box.y + offset
            corners = ((x, fork), (x, height)) if height < fork else ((x, fork),)
            self.drawing.arrow(*corners, (box.left[0], height), role=role)
            self.drawing.text(box.left[0] - 44, height - 10, letter, role, bold=True)
        self.drawing.text(x + 54, box.y, shape, "muted")
        self.drawing.box(*box, "cross-attention")
        self.y = box.top[1]
        self.add_and_norm(start)

    def feed_forward(self) -> None:
        """The network that transforms each position independently."""
        start = self.y - 8
        self.layer("feed-forward", gap=22)
        self.add_and_norm(start)

    def add_and_norm(self, start: float) -> None:
        """The residual connection from the height ``start``, and layer normalisation."""
        box = self.layer("add & layer norm", gap=12, height=24)
        side = self.x + self.residual_side * (_WIDTH / 2 + 16)
        edge = self.x + self.residual_side * _WIDTH / 2
        self.drawing.residual(
            (self.x, start), (side, start), (side, box.y), (edge, box.y)
        )
