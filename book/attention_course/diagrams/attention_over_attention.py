"""The drawings of chapter 10: readers that point to a word of a document."""

from collections.abc import Sequence
from textwrap import wrap
from typing import NamedTuple

import torch

from attention_course.diagrams.drawing import Drawing, Rectangle, Role
from companion.attention.attention_over_attention import (
    attention_over_attention,
    two_way_attention,
)

_DOCUMENT = ("Ann", "met", "Bob", "Ann", "left")
_QUESTION = ("who", "met", "Bob")
#: The score of each word of the document for each word of the question.
_SCORES = ((2, 3, 0), (0, 1, 1), (2, 1, 3), (1, 3, 0), (0, 0, 0))
_ANSWER = "Ann"
#: The score of each word of the document for the summary of the question, *u*.
_SUMMARY_SCORES = ((2,), (1,), (2,), (2,), (0,))
_SIDE = 32  # of a square of a matrix
_THICKNESS = 40  # of the line of a weight of 1
_BAR = 260  # the height of the bar of a weight of 1
_FLOW = 60  # the thickness of the curve of a weight of 1 in a question


class _Example(NamedTuple):
    """What attention over attention makes of the scores."""

    alpha: list[list[float]]  # α(t)_i, a row for each word i of the document
    beta_rows: list[list[float]]  # β(i)_t
    beta: list[float]
    weights: list[float]  # s


def _example() -> _Example:
    scores = torch.tensor(_SCORES, dtype=torch.float64)
    masks = [torch.ones(size, dtype=torch.bool) for size in scores.shape]
    alpha, beta = two_way_attention(scores, *masks)
    weights = attention_over_attention(scores, *masks)
    return _Example(
        alpha.mT.tolist(), scores.softmax(-1).tolist(), beta.tolist(), weights.tolist()
    )


def question(
    descriptions: Sequence[Sequence[str]],
    sentences: Sequence[Sequence[str]],
    beta: Sequence[float],
    attended: Sequence[Sequence[float]],
    described: int,
) -> Drawing:
    """Which of some descriptions a question is about: the weight of each of its words.

    Args:
        descriptions: the words of each description in the document.
        sentences: the words of each sentence of the question.
        beta: the weight of each word of the question.
        attended: for each of these words, its attention to each of the descriptions.
        described: the number of the right description.
    """
    words = [word for sentence in sentences for word in sentence]
    numbers = range(len(descriptions))
    found = [
        sum(b * row[k] for b, row in zip(beta, attended, strict=True)) for k in numbers
    ]
    even = [sum(row[k] for row in attended) / len(words) for k in numbers]
    top, pitch = 62, 18
    height = top + pitch * (len(words) + len(sentences) - 1)
    parts = "; ".join(
        f"“{' '.join(text)}”, {probability:.2f} instead of {evenly:.2f}"
        for text, probability, evenly in zip(descriptions, found, even, strict=True)
    )
    drawing = Drawing(
        height + 8,
        f"A question of {len(sentences)} French sentences, one word below the other,"
        f" “{' '.join(words)}”, and {len(descriptions)} English descriptions. From each"
        " word a curve leads to each description that it attends to, as thick as the"
        " product of the word's weight β and its attention. The probability of each"
        f" description, with β instead of equal weights: {parts}. The right one is number"
        f" {described + 1}.",
    )
    drawing.text(104, 18, "the question", "query", "end", bold=True)
    drawing.text(104, 38, "its words", "muted", "end")
    drawing.text(270, 18, "the descriptions", "key", "start", bold=True)
    drawing.text(270, 38, "with *β* (with equal weights)", "muted", "start")
    step = (height - top) / len(descriptions)
    places = [top + (k + 0.5) * step for k in numbers]
    ends = [y - _FLOW * p / 2 for y, p in zip(places, found, strict=True)]
    heights = [
        top + pitch * (row + number + 0.5)
        for row, number in enumerate(
            number for number, sentence in enumerate(sentences) for _ in sentence
        )
    ]
    for word, y, weight, row in zip(words, heights, beta, attended, strict=True):
        drawing.text(104, y, word, "query", "end")
        for k in numbers:
            width = _FLOW * weight * row[k]
            if width >= 0.25:
                role: Role = "key" if k == described else "muted"
                end = (262, ends[k] + width / 2)
                drawing.flow((110, y), end, role, width, horizontal=True)
            ends[k] += width  # side by side, so that the widths add up
    for k, text in enumerate(descriptions):
        lines = [*wrap(" ".join(text), 28), f"{found[k]:.2f} ({even[k]:.2f})"]
        role = "key" if k == described else "ink"
        drawing.text(270, places[k], "\n".join(lines), role, "start")
    return drawing


def architecture() -> Drawing:
    """The two softmaxes of the scores, their product, and the answer's probability.

    Source: Cui et al. 2017, figure 1, redrawn with an example in numbers.
    """
    example = _example()
    probability = sum(_weights_of(_ANSWER, example.weights))
    drawing = Drawing(
        566,
        "An attention-over-attention reader. Bidirectional GRUs read a document, Ann met"
        " Bob, Ann left, and a question, who met Bob. The dot products of their states"
        " are a matrix of scores, with a row for each word of the document. A softmax"
        " down each column, α, says where each word of the question attends. A softmax"
        " along each row, averaged over the rows, β, weights the words of the question;"
        f" met has {max(example.beta):.2f}. The product of α and β weights the"
        " positions of the document. The weights of the two positions of Ann sum to"
        f" {probability:.2f}, more than those of any other word.",
    )
    scores = _scores(drawing, 158, 258)
    alpha, rows = _softmaxes(drawing, scores, example)
    beta = _question_weights(drawing, rows, example.beta)

    product = drawing.circle(346, 136, 9, "×")
    weights = drawing.grid(
        383, 136, [[weight] for weight in example.weights], side=_SIDE
    )
    drawing.arrow(alpha.right, product.left)
    drawing.arrow(beta.right, (346, 502), product.bottom)
    drawing.arrow(product.right, weights.left)
    drawing.text(364, 30, "answer weights\n*s* = *αβ*", anchor="start")
    _pointer(drawing, weights, example.weights)
    return drawing


def _softmaxes(
    drawing: Drawing, scores: Rectangle, example: _Example
) -> tuple[Rectangle, Rectangle]:
    """The softmax of the scores down each column, and that along each row."""
    alpha = drawing.grid(281, 136, example.alpha, side=_SIDE)
    drawing.text(281, 30, "*α*: softmax\ndown each column")
    column = Rectangle(alpha.left[0] + _SIDE / 2, alpha.y, _SIDE, alpha.height)
    drawing.outline(column, "ink")
    rows = drawing.grid(281, 380, example.beta_rows, side=_SIDE)
    drawing.text(281, 274, "softmax\nalong each row")
    row = Rectangle(rows.x, rows.top[1] + _SIDE / 2, rows.width, _SIDE)
    drawing.outline(row, "ink")
    for grid in (alpha, rows):
        drawing.arrow(scores.right, (217, scores.y), (217, grid.y), grid.left)
    return alpha, rows


def _question_weights(
    drawing: Drawing, rows: Rectangle, weights: Sequence[float]
) -> Rectangle:
    """The mean of the softmaxes along the rows: a weight for each word of the question."""
    beta = drawing.grid(281, 502, [weights], side=_SIDE)
    drawing.arrow(rows.bottom, beta.top)
    drawing.text(289, 473, "mean", "muted", anchor="start")
    drawing.text(beta.left[0] - 14, 502, "*β*")
    for place, (word, weight) in enumerate(zip(_QUESTION, weights, strict=True)):
        x = 281 + (place - 1) * 38
        drawing.text(x, 532, word, "query")
        drawing.text(x, 550, f"{weight:.2f}")
    return beta


def _scores(drawing: Drawing, x: float, y: float) -> Rectangle:
    """The matrix of scores, and the two encoders whose states are compared in it."""
    grid = drawing.grid(x, y, [[0.0] * len(_QUESTION)] * len(_DOCUMENT), side=_SIDE)
    left, top = grid.left[0], grid.top[1]
    gru = drawing.box(left - 36, y, 54, grid.height, "BiGRU")
    drawing.text(38, top - 14, "document", "key")
    for row, (word, scores) in enumerate(zip(_DOCUMENT, _SCORES, strict=True)):
        height = top + (row + 0.5) * _SIDE
        drawing.text(20, height, word, "key")
        drawing.arrow((left - 73, height), (gru.left[0], height), role="key")
        drawing.arrow((gru.right[0], height), (left, height), role="key")
        for column, score in enumerate(scores):
            drawing.text(left + (column + 0.5) * _SIDE, height, str(score))
    gru = drawing.box(x, top - 34, grid.width, 28, "BiGRU")
    drawing.text(x, top - 90, "question", "query")
    for column, word in enumerate(_QUESTION):
        place = left + (column + 0.5) * _SIDE
        drawing.text(place, top - 72, word, "query")
        drawing.arrow((place, top - 62), (place, gru.top[1]), role="query")
        drawing.arrow((place, gru.bottom[1]), (place, top), role="query")
    drawing.text(x, grid.bottom[1] + 25, "scores\n*M*_{it} = *h*_i · *u*_t")
    return grid


def _pointer(drawing: Drawing, grid: Rectangle, weights: Sequence[float]) -> None:
    """The weight of each position, and the sum over the positions of the answer."""
    left, top = grid.right[0] + 6, grid.top[1]
    for row, (word, weight) in enumerate(zip(_DOCUMENT, weights, strict=True)):
        height, bold = top + (row + 0.5) * _SIDE, word == _ANSWER
        drawing.text(left, height, word, "key", "start", bold)
        drawing.text(left + 74, height, f"{weight:.2f}", "ink", "end", bold)
    x, y = grid.bottom
    drawing.arrow((x, y), (x, y + 24))
    terms = _weights_of(_ANSWER, weights)
    text = " + ".join(f"{weight:.2f}" for weight in terms)
    answer = f"*P*({_ANSWER})\n= {text}\n= {sum(terms):.2f}"
    drawing.text(x - 22, y + 54, answer, anchor="start")


def _weights_of(word: str, weights: Sequence[float]) -> list[float]:
    """The weights of all positions at which a word occurs."""
    return [w for w, other in zip(weights, _DOCUMENT, strict=True) if other == word]


def readers() -> Drawing:
    """The three readers: one query, or one for each word of the question."""
    example = _example()
    drawing = Drawing(
        330,
        "Three readers of the same document, whose attention weights are shaded."
        " Attention sum has one query, the summary u of the question, and so one column"
        " of weights. The other two have a column for each word of the question. The"
        " attention mean averages the columns with equal weights. Attention over"
        " attention averages them with the weights β, which are computed from the same"
        " scores.",
    )
    for row, word in enumerate(_DOCUMENT):
        drawing.text(24, 114 + row * 28, word, "key")
    alpha = torch.tensor(_SUMMARY_SCORES, dtype=torch.float64).softmax(0).tolist()
    column = drawing.grid(66, 170, alpha, side=28)
    drawing.text(66, 20, "attention sum", bold=True)
    _ask(drawing, column, ["*u*"])
    drawing.text(66, 256, "*s*")
    equal = [1 / len(_QUESTION)] * len(_QUESTION)
    _averaged(drawing, 180, "attention mean", "1/*m*", example.alpha, equal)
    _averaged(
        drawing, 362, "attention over\nattention", "*β*", example.alpha, example.beta
    )
    return drawing


def _ask(drawing: Drawing, grid: Rectangle, queries: Sequence[str]) -> None:
    """Queries above the columns of their weights."""
    for column, name in enumerate(queries):
        x = grid.left[0] + (column + 0.5) * 28
        query = drawing.box(x, 68, 25, 25, name, "query")
        drawing.arrow(query.bottom, (x, grid.top[1]), role="query")


def _averaged(
    drawing: Drawing,
    x: float,
    title: str,
    name: str,
    alpha: list[list[float]],
    proportions: list[float],
) -> None:
    """A reader that averages the attentions of the question's words."""
    grid = drawing.grid(x, 170, alpha, side=28)
    drawing.text(x + 30, 20, title, bold=True)
    _ask(drawing, grid, [f"*u*_{t}" for t in range(1, len(proportions) + 1)])
    row = drawing.grid(x, 284, [proportions], side=28)
    drawing.text(x, 255, "*α*")
    drawing.text(x, 312, name)
    product = drawing.circle(x + 58, 170, 8, "×")
    drawing.arrow(grid.right, product.left)
    drawing.arrow(row.right, (product.x, row.y), product.bottom)
    weights = (torch.tensor(alpha) @ torch.tensor(proportions)).tolist()
    column = drawing.grid(x + 92, 170, [[weight] for weight in weights], side=28)
    drawing.arrow(product.right, column.left)
    drawing.text(x + 92, 256, "*s*")


def pointer_sum() -> Drawing:
    """The weights of a word that occurs twice are added.

    Source: Kadlec et al. 2016, section 3.
    """
    weights = _example().weights
    terms = [f"{weight:.2f}" for weight in _weights_of(_ANSWER, weights)]
    total = sum(_weights_of(_ANSWER, weights))
    rival = _DOCUMENT[weights.index(max(weights))]
    drawing = Drawing(
        292,
        f"The weights of the positions of a document, {' '.join(_DOCUMENT)}, as bars."
        f" {_ANSWER} occurs twice, with {' and '.join(terms)}, which sum to {total:.2f}."
        f" {rival} occurs once, with {max(weights):.2f}, the largest weight of one"
        f" position, and yet {_ANSWER} is the answer.",
    )
    text = f"*P*({_ANSWER}) =\n{' + '.join(terms)} = {total:.2f}"
    answer = drawing.box(176, 262, 180, 44, text, "value")
    text = f"*P*({rival}) =\n{max(weights):.2f}"
    other = drawing.box(374, 262, 120, 44, text)
    drawing.text(24, 112, "*s*_i")
    left = answer.x - _THICKNESS * total / 2
    for place, (word, weight) in enumerate(zip(_DOCUMENT, weights, strict=True)):
        x, width = 80 + 84 * place, _THICKNESS * weight
        drawing.bar(x, 124 - _BAR * weight / 2, 40, _BAR * weight)
        drawing.text(x, 112 - _BAR * weight, f"{weight:.2f}")
        drawing.text(x, 140, word, "key", bold=word == _ANSWER)
        if word == rival:
            drawing.flow((x, 152), other.top, "muted", width)
        if word == _ANSWER:  # the ends are side by side, so that the widths add up
            drawing.flow((x, 152), (left + width / 2, answer.top[1]), "key", width)
            left += width
    return drawing
