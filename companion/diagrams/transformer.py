"""The drawings of chapter 6: the Transformer."""

from companion.diagrams.drawing import Drawing, Rectangle, Role

_WIDTH, _HEIGHT = 148, 32  # of a layer's box
_PROJECTIONS: tuple[tuple[Role, str], ...] = (
    ("query", "Q"),
    ("key", "K"),
    ("value", "V"),
)


def architecture() -> Drawing:
    """The encoder and the decoder of the Transformer, with residual connections and shapes.

    Source: Vaswani et al. 2017, figure 1; post-norm, as there.

    Example:
        >>> architecture().height
        716
    """
    drawing = Drawing(
        716,
        "The Transformer. The encoder embeds the source tokens, adds positional encodings,"
        " and applies N layers of self-attention and a feed-forward network, each with a"
        " residual connection and layer normalisation. The decoder does the same with the"
        " target so far, under a causal mask, and between the two it attends to the"
        " encoder's output: queries from the decoder, keys and values from the encoder."
        " A linear layer and a softmax give the probabilities of the next token.",
    )
    encoder = _Stack(drawing, 122, residual_side=-1)
    encoder.embed("source tokens", "(*n*, *d*)")
    bottom = encoder.y - 5
    encoder.self_attention("self-attention")
    encoder.feed_forward()
    encoder.repeat(bottom)
    memory = encoder.y

    decoder = _Stack(drawing, 358, residual_side=1)
    decoder.embed("target tokens so far", "(*t*, *d*)")
    decoder.self_attention("causal\nself-attention")
    decoder.cross_attention(122, memory)
    decoder.feed_forward()
    decoder.repeat(bottom)
    decoder.layer("linear", gap=34)
    decoder.layer("softmax")
    drawing.arrow((358, decoder.y), (358, decoder.y - 20))
    drawing.text(358, decoder.y - 31, "next token's probabilities")
    drawing.text(240, encoder.sum.y + 5, "positional\nencodings")
    drawing.arrow((202, encoder.sum.y), encoder.sum.right)
    drawing.arrow((278, decoder.sum.y), decoder.sum.left)
    _legend(drawing, 22, 60)
    return drawing


def _legend(drawing: Drawing, x: float, y: float) -> None:
    for place, (role, letter) in enumerate(_PROJECTIONS):
        names = ("queries", "keys", "values")
        drawing.text(x, y + 22 * place, letter, role, anchor="start", bold=True)
        drawing.text(x + 30, y + 22 * place, names[place], role, anchor="start")
    drawing.arrow((x, y + 66), (x + 22, y + 66), role="muted")
    drawing.text(x + 30, y + 66, "residual connection", "muted", anchor="start")
    drawing.text(x, y + 88, "*d*", "muted", anchor="start")
    drawing.text(x + 30, y + 88, "dimension", "muted", anchor="start")
    drawing.text(x, y + 110, "*n*, *t*", "muted", anchor="start")
    drawing.text(x + 30, y + 110, "numbers of tokens", "muted", anchor="start")


class _Stack:
    """Layers drawn one above the other; ``y`` is the top of the last."""

    def __init__(self, drawing: Drawing, x: float, residual_side: int):
        self.drawing, self.x, self.y = drawing, x, 690.0
        self.residual_side = residual_side

    def layer(self, text: str, gap: float = 20, height: float = _HEIGHT) -> Rectangle:
        """A box above the last layer, with an arrow from there."""
        box = self.drawing.box(self.x, self.y - gap - height / 2, _WIDTH, height, text)
        self.drawing.arrow((self.x, self.y), box.bottom)
        self.y = box.top[1]
        return box

    def embed(self, tokens: str, shape: str) -> None:
        """Tokens, their embeddings of a shape, and a sum."""
        self.drawing.text(self.x, 702, tokens)
        self.layer("embedding", gap=18)
        self.sum = self.drawing.circle(self.x, self.y - 32, 10, "+")
        self.drawing.arrow((self.x, self.y), self.sum.bottom)
        self.drawing.text(self.x - 32, self.y - 11, shape, "muted")
        self.y = self.sum.top[1]

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

    def cross_attention(self, x: float, y: float) -> None:
        """Attention with queries from below, and keys and values from the point ``(x, y)``."""
        start = self.y - 12
        box = Rectangle(self.x, y - 40, _WIDTH, 44)
        self.drawing.arrow((self.x, self.y), box.bottom, role="query")
        self.drawing.text(self.x + 11, box.bottom[1] + 16, "Q", "query", bold=True)
        for offset, (role, letter) in zip((12, -12), _PROJECTIONS[1:], strict=True):
            height = box.y + offset
            self.drawing.arrow(
                (x - offset / 2, y),
                (x - offset / 2, height),
                (box.left[0], height),
                role=role,
            )
            self.drawing.text(box.left[0] - 44, height - 10, letter, role, bold=True)
        self.drawing.box(*box, "cross-attention")
        self.y = box.top[1]
        self.add_and_norm(start)

    def feed_forward(self) -> None:
        """The network that transforms each position independently."""
        start = self.y - 8
        self.layer("feed-forward", gap=22)
        self.add_and_norm(start)

    def repeat(self, bottom: float) -> None:
        """The frame, from the height ``bottom`` to above the last layer, of what is repeated."""
        left, right = self.x - _WIDTH / 2 - 30, self.x + _WIDTH / 2 + 30
        self.drawing.frame(left, self.y - 14, right, bottom)
        x = self.x + self.residual_side * (_WIDTH / 2 + 14)
        self.drawing.text(x, self.y - 28, "*N* ×", "muted", bold=True)

    def add_and_norm(self, start: float) -> None:
        """The residual connection from the height ``start``, and layer normalisation."""
        box = self.layer("add & layer norm", gap=12, height=24)
        side = self.x + self.residual_side * (_WIDTH / 2 + 16)
        edge = self.x + self.residual_side * _WIDTH / 2
        self.drawing.arrow(
            (self.x, start), (side, start), (side, box.y), (edge, box.y), role="muted"
        )
