"""The drawings of chapter 9: hierarchical attention."""

from collections.abc import Sequence

import torch

from attention_course.data.vocabulary import PAD, pad_documents
from attention_course.diagrams.drawing import Drawing, Rectangle
from companion.models.hierarchical import sentence_masks

#: The documents whose padding is drawn: the tokens of each sentence.
DOCUMENTS = (((4, 7, 5), (9,)), ((), (5, 10, 3), (), (6, 4)), ((7,),))

#: Each word of a document, and its score: the dot product of its key with the query.
_DOCUMENT = (
    (("we", 0.2), ("had", 0.3), ("to", 0.0), ("wait", 2.0)),
    (("the", 0.0), ("food", 1.2), ("is", 0.2), ("great", 2.8)),
    (("try", 1.6), ("it", 0.5)),
)
_SENTENCE_SCORES = (0.2, 1.8, 0.7)
_PITCH, _GAP, _FIRST = 35, 22, 92  # of words, between sentences, the first word
_MIDDLE = 271.5  # of the document
_LABELS = 36  # the middle of the column of queries and labels
_THICKNESS = 11  # of the line of a weight of 1

_SENTENCES, _WORDS = 4, 5  # of the document whose time steps are drawn
_STEP, _FIRST_STEP = 21, 40  # the width of a time step, and the middle of the first
_NOTES = 262  # left edge of the notes
_STATE = 12  # the side of a state in that drawing
_SIDE = 24  # of the square of a word or a sentence vector where padding is drawn
_SHADE = 0.2  # of a word, on which its number is read


def architecture() -> Drawing:
    """Words pooled to sentence vectors, and these to one document vector.

    Source: Yang et al. 2016, figure 2, for a document whose sentences differ in length.
    """
    drawing = Drawing(
        504,
        "A hierarchical attention network reads a document of three sentences. A"
        " bidirectional GRU reads the words of each sentence, and a learned query, u_w, is"
        " compared with the state of every word. The states, weighted by the softmax of"
        " these scores, give one vector per sentence. A second bidirectional GRU reads the"
        " sentence vectors, and with a second learned query, u_s, their states make the"
        " document vector, from which a linear layer and a softmax classify. Thicker"
        " lines are larger weights.",
    )
    sentences, words = [], []
    for number, (places, sentence) in enumerate(
        zip(_places(), _DOCUMENT, strict=True), 1
    ):
        names = [f"*h*_{{{number}{place}}}" for place in range(1, len(places) + 1)]
        for x, (word, _) in zip(places, sentence, strict=True):
            drawing.text(x, 490, word)
        states = _read(drawing, places, 478, names)
        words += states
        middle = (places[0] + places[-1]) / 2
        scores = [score for _, score in sentence]
        sentences.append(_pool(drawing, states, scores, (middle, 286), f"*s*_{number}"))
    _ask(drawing, 372, "*u*_w", "*α*_{it}", words)
    drawing.text(_LABELS, 490, "words", "muted")
    drawing.text(_LABELS, 286, "sentence\nvectors", "value")

    places = [vector.x for vector in sentences]
    states = _read(drawing, places, 273, [f"*h*_{n}" for n in (1, 2, 3)])
    document = _pool(drawing, states, _SENTENCE_SCORES, (_MIDDLE, 91), "*v*")
    _ask(drawing, 167, "*u*_s", "*α*_i", states)
    drawing.text(document.right[0] + 10, 91, "document vector", "value", "start")
    box = drawing.box(_MIDDLE, 46, 130, 28, "linear, softmax")
    drawing.arrow(document.top, box.bottom)
    drawing.arrow(box.top, (_MIDDLE, 20))
    drawing.text(_MIDDLE, 10, "class")
    return drawing


def _places() -> list[list[float]]:
    """The middle of each word, sentence by sentence."""
    places, start = [], float(_FIRST)
    for sentence in _DOCUMENT:
        places.append([start + _PITCH * word for word in range(len(sentence))])
        start = places[-1][-1] + _PITCH + _GAP
    return places


def _read(
    drawing: Drawing, places: Sequence[float], y: float, names: Sequence[str]
) -> list[Rectangle]:
    """A bidirectional GRU above the height ``y``, and the states that it returns."""
    middle, width = (places[0] + places[-1]) / 2, places[-1] - places[0] + 30
    gru = drawing.box(middle, y - 31, width, 26, "BiGRU")
    states = []
    for x, name in zip(places, names, strict=True):
        drawing.arrow((x, y), (x, gru.bottom[1]))
        states.append(drawing.box(x, y - 83, 30, 24, name, "key"))
        drawing.arrow((x, gru.top[1]), states[-1].bottom)
    return states


def _pool(
    drawing: Drawing,
    states: Sequence[Rectangle],
    scores: Sequence[float],
    place: tuple[float, float],
    name: str,
) -> Rectangle:
    """The average of states under the softmax of their scores: a line for each weight."""
    vector = drawing.box(*place, 44, 26, name, "value")
    weights = torch.tensor(scores).softmax(0).tolist()
    for state, weight in zip(states, weights, strict=True):
        drawing.flow(state.top, vector.bottom, "key", _THICKNESS * weight)
    return vector


def _ask(
    drawing: Drawing, y: float, name: str, weight: str, states: Sequence[Rectangle]
) -> None:
    """A learned query, and a dot at each state whose key it is compared with."""
    query = drawing.box(_LABELS, y, 48, 26, name, "query")
    drawing.text(_LABELS, y + 32, "learned\nquery", "query")
    drawing.text(_LABELS, y - 34, f"weights\n{weight}", "key")
    drawing.compare(query, states)


def flat_and_hierarchical() -> Drawing:
    """The sequential steps of a recurrence over all words, and of one over each level."""
    words, steps = _SENTENCES * _WORDS, _WORDS + _SENTENCES
    drawing = Drawing(
        356,
        f"A document of {_SENTENCES} sentences of {_WORDS} words, time from left to right."
        f" A recurrent network over all words takes {words} sequential steps. In the"
        f" hierarchical network the {_SENTENCES} sentences are read in parallel, in"
        f" {_WORDS} steps, and then the sentence vectors in {_SENTENCES}:"
        f" {steps} steps together.",
    )
    drawing.text(
        _time(1) - 10, 18, "one recurrence over all words", "ink", "start", True
    )
    _chain(drawing, 1, words, 50)
    _count(drawing, words, 84, f"{_SENTENCES} × {_WORDS} = {words} steps")

    drawing.text(_time(1) - 10, 130, "words, then sentences", "ink", "start", True)
    _chain(drawing, _WORDS + 1, _SENTENCES, 164)
    note = f"sentence vectors: {_SENTENCES} steps"
    drawing.text(_NOTES, 164, note, "value", "start")
    note = f"words of all sentences\nin parallel: {_WORDS} steps"
    drawing.text(_NOTES, 238, note, "key", "start")
    for sentence in range(_SENTENCES):
        y = 196 + 28 * sentence
        _chain(drawing, 1, _WORDS, y)
        x = _time(_WORDS + 1 + sentence)
        drawing.arrow(
            (_time(_WORDS) + _STATE / 2, y), (x, y), (x, 164 + _STATE / 2), role="value"
        )
    _count(drawing, steps, 310, f"{_WORDS} + {_SENTENCES} = {steps} steps")
    return drawing


def _time(step: float) -> float:
    """The middle of a time step."""
    return _FIRST_STEP + _STEP * (step - 1)


def _chain(drawing: Drawing, first: int, length: int, y: float) -> None:
    """States, each computed from the one before."""
    places = [_time(step) for step in range(first, first + length)]
    drawing.chain(places, y, (_STATE, _STATE), [""] * length, "key")


def _count(drawing: Drawing, steps: int, y: float, text: str) -> None:
    """A measure from the first of some steps to the last."""
    ends = _time(1) - _STATE / 2, _time(steps) + _STATE / 2
    for x in ends:
        drawing.line((x, y - 5), (x, y + 5), role="muted")
    drawing.line((ends[0], y), (ends[1], y), role="muted")
    drawing.text(sum(ends) / 2, y + 16, text)


def masks() -> Drawing:
    """Padding of words and of sentences, and what becomes of empty sentences."""
    documents = pad_documents(DOCUMENTS)
    has_words, mask = sentence_masks(documents, PAD)
    words = documents[has_words]
    drawing = Drawing(
        408,
        f"{len(DOCUMENTS)} documents of up to {documents.shape[1]} sentences of up to"
        f" {documents.shape[2]} words. Padding is crossed out. Arrows lead from the"
        f" {len(words)} sentences that have words to one batch of {len(words)} rows, in"
        " which the padding at the end of a sentence is masked, and from each row to its"
        " vector. The vectors of a document come first, without gaps, and the positions"
        " after them are masked.",
    )
    for x, title in (
        (128, "documents\n(b, s, n)"),
        (265, "sentences\n(t, n)"),
        (412, "sentence vectors\n(b, s, d)"),
    ):
        drawing.text(x, 24, title)
    sources, targets = [], []
    for number, tokens in enumerate(documents, 1):
        y = 104 * number
        drawing.text(44, y, f"document\n{number}", "muted")
        _numbered(drawing, 128, y, tokens.tolist())
        vectors = [[1.0 if real else None] for real in mask[number - 1].tolist()]
        drawing.grid(412, y, vectors, "value", _SIDE)
        for row in range(len(tokens)):
            middle = y + (row - (len(tokens) - 1) / 2) * _SIDE
            if has_words[number - 1, row]:
                sources.append((128 + 1.5 * _SIDE + 2, middle))
            if mask[number - 1, row]:
                targets.append((412 - _SIDE / 2, middle))
    for row, (source, target) in enumerate(zip(sources, targets, strict=True)):
        level = 208 + (row - (len(words) - 1) / 2) * 36
        _numbered(drawing, 265, level, words[row : row + 1].tolist())
        drawing.arrow(source, (265 - 1.5 * _SIDE, level))
        drawing.arrow((265 + 1.5 * _SIDE + 2, level), target, role="value")
    drawing.text(265, 320, "softmax over\neach row", "key")
    drawing.text(412, 384, "softmax over\neach column", "value")
    return drawing


def _numbered(
    drawing: Drawing, x: float, y: float, tokens: Sequence[Sequence[int]]
) -> None:
    """Sentences, one below the other: a square for each word, with its number."""
    shades = [[None if token == PAD else _SHADE for token in row] for row in tokens]
    grid = drawing.grid(x, y, shades, "key", _SIDE)
    left, top = grid.left[0] + _SIDE / 2, grid.top[1] + _SIDE / 2
    for row, sentence in enumerate(tokens):
        for column, token in enumerate(sentence):
            if token != PAD:
                drawing.text(left + column * _SIDE, top + row * _SIDE, str(token))
