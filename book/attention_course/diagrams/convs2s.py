"""The drawings of chapter 11: convolutional sequence to sequence learning."""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import torch

from attention_course.diagrams.drawing import Drawing, Point, Rectangle, Role

_WIDTH, _BLOCKS = 3, 3  # of a convolution, and in a stack
_CENTRED, _CAUSAL = (-1, 0, 1), (-2, -1, 0)  # what a window of that width holds
_TOKENS = 9
_PITCH, _FIRST = 38, 92  # of positions, and the middle of the first
_LEVEL = 46  # from one block to the next


def receptive_field() -> Drawing:
    """The words that one state depends on, in the encoder and in the decoder."""
    drawing = Drawing(
        478,
        f"Two stacks of {_BLOCKS} convolutions of width {_WIDTH}. One state of the"
        " third block depends on 3 states of the second, on 5 of the first and on 7"
        " words. In the encoder the words are to both sides of the state; in the causal"
        " decoder they are the state's own word and the six before it. One path leads"
        " from each of the outermost words to the state, and seven from the word in the"
        " middle.",
    )
    drawing.text(8, 18, "encoder", anchor="start", bold=True)
    drawing.text(472, 18, "receptive field", "key", anchor="end")
    _stack(drawing, 48, 4, _CENTRED)
    drawing.text(8, 258, "decoder", anchor="start", bold=True)
    _stack(drawing, 288, 6, _CAUSAL)
    drawing.text((_place(7) + _place(8)) / 2, 452, "future", "muted")
    return drawing


def _place(position: int) -> float:
    return _FIRST + _PITCH * position


def _role(is_key: bool) -> Role:
    return "key" if is_key else "muted"


def _paths(window: Sequence[int], blocks: int) -> Counter[int]:
    """From how many paths a state receives each position, relative to its own."""
    found = Counter({0: 1})
    for _ in range(blocks):
        wider = Counter[int]()
        for position, count in found.items():
            for offset in window:
                wider[position + offset] += count
        found = wider
    return found


def _stack(drawing: Drawing, top: float, state: int, window: Sequence[int]) -> None:
    """A stack of convolutions, and all on which a state at its top depends."""
    for level in range(_BLOCKS + 1):
        y = top + _LEVEL * level
        reached = _paths(window, level)
        if level < _BLOCKS:
            for position in reached:
                for offset in window:
                    end = (_place(state + position + offset), y + _LEVEL - 11)
                    drawing.line((_place(state + position), y + 11), end, role="key")
        for position in range(_TOKENS):
            role = _role(position - state in reached)
            drawing.box(_place(position), y, 26, 22, role=role)
        name = f"block {_BLOCKS - level}" if level < _BLOCKS else "words"
        drawing.text(8, y, name, anchor="start")
        drawing.text(472, y, str(len(reached)), "key", "end", bold=True)
        if level == _BLOCKS:
            drawing.text(8, y + 26, "paths", "muted", "start")
            for position, count in reached.items():
                drawing.text(_place(state + position), y + 26, str(count), "muted")


def glu() -> Drawing:
    """A block of the decoder: a convolution, a gated linear unit, a residual connection.

    Source: Gehring et al. 2017, section 3.2.
    """
    drawing = Drawing(
        456,
        "A block of the decoder. A convolution of width 3 maps the states at positions"
        " i − 2, i − 1 and i, of n dimensions each, to 2n dimensions. Their first half is"
        " A; the second half, B, passes through a sigmoid and multiplies A elementwise."
        " The input at position i is added, past both, and the sum is multiplied by the"
        " square root of one half.",
    )
    main, gate, past = 148, 284, 372
    convolution = drawing.box((main + gate) / 2, 372, 214, 32, "convolution, width 3")
    for x, name in zip((main, 216, gate), ("i−2", "i−1", "i"), strict=True):
        state = drawing.box(x, 438, 56, 26, f"*h*_{{{name}}}", "key")
        drawing.arrow(state.top, (x, convolution.bottom[1]))
    drawing.text(250, 406, "3 × (*n*)", "muted")
    halves = [
        drawing.box(x, 302, 56, 28, name, "muted")
        for x, name in ((main, "*A*_i"), (gate, "*B*_i"))
    ]
    for half in halves:
        drawing.arrow((half.x, convolution.top[1]), half.bottom)
        drawing.text(half.x + 10, 336, "(*n*)", "muted", "start")
    sigmoid = drawing.box(gate, 242, 84, 30, "sigmoid")
    drawing.arrow(halves[1].top, sigmoid.bottom)
    product = drawing.circle(main, 192, 11, "×")
    drawing.arrow(halves[0].top, product.bottom)
    drawing.arrow(sigmoid.top, (gate, 192), product.right)
    drawing.text(216, 180, "gate, 0 to 1")
    drawing.frame(main - 42, 166, gate + 56, 322)
    drawing.text(main - 52, 244, "gated\nlinear\nunit", "muted", "end")
    total = drawing.circle(main, 136, 11, "+")
    drawing.arrow(product.top, total.bottom)
    drawing.residual((gate + 28, 438), (past, 438), (past, 136), total.right)
    drawing.text(past + 8, 287, "residual\nconnection", "muted", "start")
    scale = drawing.box(main, 84, 64, 30, "× √½")
    drawing.arrow(total.top, scale.bottom)
    output = drawing.box(main, 24, 56, 26, "*h*′_i", "key")
    drawing.arrow(scale.top, output.bottom)
    drawing.text(main + 10, 53, "(*n*)", "muted", "start")
    return drawing


_ENCODER, _ATTENTION, _DECODER = 92, 240, 394  # the middles of three columns
_POSITIONS = (_ENCODER + _DECODER) / 2
_BOX, _ATTENDS = 124, 76  # the widths of a layer's box and of an attention's
_KEYS, _VALUES = 172, 186  # where keys and values pass the layers


def architecture() -> Drawing:
    """The two stacks of convolutions, and the attention of every layer of the decoder.

    Source: Gehring et al. 2017, sections 3.1 to 3.3, equations (1) and (2).
    """
    drawing = Drawing(
        564,
        "Convolutional sequence to sequence. The encoder adds positions to the"
        " embeddings of the source tokens and applies three gated convolutions; its"
        " outputs z are the keys, and z + e, the sums with the embeddings, are the"
        " values. The decoder applies three causal gated convolutions to the target"
        " tokens so far. After each of them it attends to the source: the query comes"
        " from the state and the embedding of the last target token, and the context is"
        " added to the state, which the next layer reads. A linear layer and a softmax"
        " give the probabilities of the next token.",
    )
    drawing.text(_POSITIONS, 464, "positions")
    drawing.text(14, 484, "encoder", anchor="start", bold=True)
    drawing.text(472, 484, "decoder", anchor="end", bold=True)
    e = _embedding(drawing, _ENCODER, "source tokens", "*e*_j")
    top = e
    for _ in range(_BLOCKS):
        top = _layer(drawing, _ENCODER, top, "gated\nconvolution").top
    z, values = (_ENCODER, top[1] - 20), drawing.circle(_ENCODER, top[1] - 56, 10, "+")
    drawing.arrow(top, values.bottom)
    drawing.text(_ENCODER + 10, z[1] - 14, "*z*_j", "key", "start", bold=True)
    text = "*z*_j + *e*_j"
    drawing.text(_ENCODER + 14, values.y - 14, text, "value", "start", bold=True)
    drawing.residual((_ENCODER, e[1] - 6), (14, e[1] - 6), (14, values.y), values.left)

    top = _embedding(drawing, _DECODER, "target tokens so far", "*g*_i")
    heights = []
    for _ in range(_BLOCKS):
        top, height = _decoder_layer(drawing, top)
        heights.append(height)
    _distribute(drawing, z, _KEYS, [y + 12 for y in heights], "key")
    _distribute(drawing, values.right, _VALUES, [y - 12 for y in heights], "value")
    box = drawing.box(_DECODER, top[1] - 33, _BOX, 28, "linear, softmax")
    drawing.arrow(top, box.bottom)
    drawing.arrow(box.top, (_DECODER, box.top[1] - 18))
    drawing.text(374, box.top[1] - 30, "next token's probabilities")
    _legend(drawing)
    return drawing


def _distribute(
    drawing: Drawing, start: Point, x: float, heights: Sequence[float], role: Role
) -> None:
    """Keys or values on their way to the attention of each layer."""
    drawing.line(start, (x, start[1]), role=role)
    drawing.line((x, heights[0]), (x, heights[-1]), role=role)
    for y in heights:
        drawing.arrow((x, y), (_ATTENTION - _ATTENDS / 2, y), role=role)


def _legend(drawing: Drawing) -> None:
    names: tuple[tuple[Role, str, str], ...] = (
        ("query", "*d*_i", "queries"),
        ("key", "*z*_j", "keys"),
        ("value", "*z*_j + *e*_j", "values"),
        ("value", "*c*_i", "contexts"),
        ("ink", "*e*_j, *g*_i", "embeddings"),
    )
    for place, (role, symbol, name) in enumerate(names):
        drawing.text(14, 20 + 22 * place, symbol, role, "start", bold=True)
        drawing.text(76, 20 + 22 * place, name, role, "start")
    drawing.residual((14, 130), (66, 130))
    drawing.text(76, 130, "residual", "muted", "start")
    text = "gated: with a gated\nlinear unit (GLU)"
    drawing.text(14, 160.4, text, anchor="start")


def _embedding(drawing: Drawing, x: float, tokens: str, name: str) -> Point:
    """Tokens, their embeddings, and the sum with the embeddings of their positions."""
    drawing.text(x, 552, tokens)
    box = drawing.box(x, 512, _BOX, 28, "embedding")
    drawing.arrow((x, 542), box.bottom)
    total = drawing.circle(x, 464, 10, "+")
    drawing.arrow(box.top, total.bottom)
    side = 1 if x < _POSITIONS else -1
    drawing.arrow((_POSITIONS - side * 38, 464), (x + side * 10, 464))
    drawing.text(x + 10, 444, name, "ink", "start", bold=True)
    return total.top


def _layer(drawing: Drawing, x: float, below: Point, text: str) -> Rectangle:
    box = drawing.box(x, below[1] - 42, _BOX, 40, text)
    drawing.arrow(below, box.bottom)
    return box


def _decoder_layer(drawing: Drawing, below: Point) -> tuple[Point, float]:
    """A layer of the decoder: where it ends, and the height of its attention."""
    block = _layer(drawing, _DECODER, below, "causal gated\nconvolution")
    y = block.top[1] - 28
    attention = drawing.box(_ATTENTION, y, _ATTENDS, 48, "attention")
    total = drawing.circle(_DECODER, y - 12, 10, "+")
    drawing.arrow(block.top, total.bottom)
    query = drawing.circle(316, y + 14, 8, "+")
    drawing.arrow((_DECODER, y + 14), query.right)
    drawing.arrow((query.x, y + 42), query.bottom)
    drawing.text(query.x, y + 52, "*g*_i", bold=True)
    drawing.arrow(query.left, (attention.right[0], y + 14), role="query")
    drawing.arrow((attention.right[0], y - 12), total.left, role="value")
    drawing.text(295, y + 1, "*d*_i", "query", bold=True)
    drawing.text(340, y - 24, "*c*_i", "value", bold=True)
    return total.top, y


#: Where things are: a key and a value each.
_FACTS = (("box", "car"), ("pen", "bag"), ("cup", "box"), ("car", "yard"))
_ASKED, _HOPS = "cup", 3
_SCALE = 3  # the score of a key that is the query
_THICKNESS = 12  # of the line of a weight of 1
_CHAIN_LEVEL = 42  # from one layer to the next, where chains are drawn
_HOP = 160  # from one layer to the next


def hops() -> Drawing:
    """Attention in several layers, where each context decides the next query."""
    drawing = Drawing(
        524,
        "Three layers attend to the same four facts: box in car, pen in bag, cup in box,"
        " car in yard. The query of the first is cup, and its context is box. The next"
        " layer's query is computed from that context: it finds box in car, and the"
        " third finds car in yard. Thicker lines are larger attention weights.",
    )
    things, attention = _hops()
    drawing.text(48, 503, "where is\nthe cup?", "query")
    start = (48.0, 482.0)
    for hop, weights in enumerate(attention):
        y = 440 - _HOP * hop
        query = drawing.box(48, y, 66, 28, f"*d*: {things[hop]}", "query")
        drawing.arrow(start, query.bottom, role="query")
        context = drawing.box(277, y - 92, 66, 28, f"*c*: {things[hop + 1]}", "value")
        _attend(drawing, query, weights, context)
        drawing.text(472, context.y, f"layer {hop + 1}", "muted", "end")
        if hop < _HOPS - 1:
            block = drawing.box(48, context.y, 88, 28, "convolution")
            drawing.arrow(context.left, block.right, role="value")
            start = block.top
    return drawing


def _attend(
    drawing: Drawing, query: Rectangle, weights: Sequence[float], context: Rectangle
) -> None:
    """The facts, each compared with the query, and averaged by their weights."""
    facts = []
    for place, ((key, value), weight) in enumerate(zip(_FACTS, weights, strict=True)):
        x, text = 142 + 90 * place, f"{key} in {value}"
        facts.append(drawing.box(x, query.y + 24, 82, 26, text, "key"))
        drawing.flow(facts[-1].top, context.bottom, "key", _THICKNESS * weight)
    drawing.compare(query, facts)


def _hops() -> tuple[list[str], list[list[float]]]:
    """What is asked for and found, one after another, and the weights of the facts."""
    things = sorted({thing for fact in _FACTS for thing in fact})
    keys, values = (  # one-hot vectors
        torch.stack(
            [torch.tensor([float(t == fact[i]) for t in things]) for fact in _FACTS]
        )
        for i in (0, 1)
    )
    query = torch.tensor([float(thing == _ASKED) for thing in things])
    asked, attention = [_ASKED], []
    for _ in range(_HOPS):
        weights = (_SCALE * keys @ query).softmax(0)
        query = weights @ values
        attention.append(weights.tolist())
        asked.append(things[int(query.argmax())])
    return asked, attention


def path_length() -> Drawing:
    """The longest chain of dependent operations from the first token to the last state."""
    layers = -(-(_TOKENS - 1) // (_WIDTH - 1))
    drawing = Drawing(
        454,
        f"How {_TOKENS} tokens reach the last state. In a recurrent network the first"
        f" token passes {_TOKENS} states, one after another. In a stack of causal"
        f" convolutions of width {_WIDTH} it passes {layers} layers, and in"
        " self-attention one, because the last state attends to every token directly.",
    )
    _recurrence(drawing, 46)
    _convolutions(drawing, 160, layers)
    _self_attention(drawing, 394)
    return drawing


def _recurrence(drawing: Drawing, top: float) -> None:
    states, tokens = _rows(drawing, "recurrence", top, 1, _TOKENS)
    for token, state in zip(tokens, states, strict=True):
        _connect(drawing, token, state)
    drawing.arrow(tokens[0].top, states[0].bottom, width=3)
    for state, following in pairwise(states):
        drawing.arrow(state.right, following.left, width=3)


def _convolutions(drawing: Drawing, top: float, layers: int) -> None:
    title = f"convolutions of width {_WIDTH}"
    for above, (upper, lower) in enumerate(
        pairwise(_rows(drawing, title, top, layers, layers))
    ):
        for position in _paths(_CAUSAL, above):
            for offset in _CAUSAL:
                state = upper[_TOKENS - 1 + position]
                _connect(drawing, lower[_TOKENS - 1 + position + offset], state)
        first = _TOKENS - 1 - above * (_WIDTH - 1)  # the first state that counts
        start = lower[first - _WIDTH + 1].top
        drawing.arrow(start, upper[first].bottom, width=3)


def _self_attention(drawing: Drawing, top: float) -> None:
    states, tokens = _rows(drawing, "self-attention", top, 1, 1)
    for token in tokens:
        _connect(drawing, token, states[-1])
    drawing.arrow(tokens[0].top, states[-1].bottom, width=3)


def _connect(drawing: Drawing, lower: Rectangle, upper: Rectangle) -> None:
    drawing.line(lower.top, upper.bottom, role="muted", width=0.75)


def _rows(
    drawing: Drawing, title: str, top: float, layers: int, length: int
) -> list[list[Rectangle]]:
    """Layers of states above a row of tokens, and how long the longest chain is."""
    drawing.text(20, top - 26, title, anchor="start", bold=True)
    steps = f"{length} steps" if length > 1 else "1 step"
    drawing.text(460, top - 26, steps, anchor="end")
    rows = list[list[Rectangle]]()
    for level in range(layers + 1):
        y, role = top + _CHAIN_LEVEL * level, _role(level < layers)
        rows.append(
            [
                drawing.box(36 + 51 * place, y, 26, 16, role=role)
                for place in range(_TOKENS)
            ]
        )
    return rows
