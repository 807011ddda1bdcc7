"""A document as text, with words and sentences shaded by their attention weights."""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Float
from torch import Tensor

from companion._checks import needs_extra
from companion.visualization.alignments import (
    printable,
    to_array,
    visible,
    weight_matrix,
    width,
    wrapped,
)
from companion.visualization.style import style_of_the_book

with needs_extra("book"):
    import matplotlib as mpl
    import matplotlib.pyplot as plt
    from matplotlib.axes import Axes
    from matplotlib.patches import Rectangle

_WIDTH = 5.0  # inches, as all figures of the book
_MARGIN = 6  # characters for the weight of a sentence in percent
COLUMNS = 40  #: characters in a line
_LETTER = _WIDTH / (_MARGIN + COLUMNS)  # inches
_LINE = 2.3 * _LETTER
DARKEST = 0.6  #: the darkest shade of a colour map on which black text is legible
_FONT: dict[str, Any] = {
    "fontsize": 72 * _LETTER / 0.602,
    "va": "center",
    "parse_math": False,
}


#: A word, its line and its column on the page, and its weight.
TextSpan: TypeAlias = tuple[str, int, int, float]


@style_of_the_book("DejaVu Sans Mono")
def text_heatmap(
    sentences: Sequence[Sequence[str]],
    word_weights: Float[Tensor, "r n"] | Float[np.ndarray, "r n"],
    sentence_weights: Float[Tensor, " s"] | Float[np.ndarray, " s"],
    title: str = "",
) -> Axes:
    """A document as text, with sentence weights in orange and word weights in blue.

    The weight of a sentence precedes it in percent; a word has its weight as background.
    The palest shade is 0 and the darkest is 1 in every figure. Each sentence starts a new
    line, and a word longer than a line ends in "…".

    Args:
        sentences: the words of each sentence.
        word_weights: the weights in each sentence, ``(r, n)``, zero at padding.
        sentence_weights: the weights of the sentences, ``(s,)``, zero at padding.
        title: the title above the text.
    """
    of_sentences = _without_padding(
        sentence_weights, ["sentence"] * len(sentences), "the weights of sentences"
    )
    rows = _rows(word_weights, len(sentences))
    words: list[TextSpan] = []
    margin: list[TextSpan] = []
    line = -1
    for number, (sentence, weights) in enumerate(zip(sentences, rows, strict=True)):
        values = _without_padding(
            weights, sentence, f"the weights of sentence {number}"
        )
        weight = of_sentences[number]
        margin.append((f"{weight:4.0%}", line + 1, -_MARGIN, weight))
        words += _wrapped(sentence, values, line + 1)
        _, line, *_ = words[-1]
    axes = _page(line + 1, title)
    _write(margin, "Oranges", axes)
    _write(words, "Blues", axes)
    return axes


def _rows(word_weights: Any, count: int) -> Float[np.ndarray, "s n"]:
    rows = _array(word_weights, 2, "the weights of words")
    if len(rows) < count:
        raise ValueError(
            f"there are weights of words for {len(rows)} sentences, but {count} sentences"
        )
    if rows[count:].any():
        raise ValueError(
            f"the weights of words are not 0 beyond the {count} sentences: {rows[count:]}"
        )
    return rows[:count]


def _without_padding(
    weights: Any, tokens: Sequence[str], name: str
) -> Float[np.ndarray, " n"]:
    values = _array(weights, 1, name)
    if values[len(tokens) :].any():
        raise ValueError(f"{name} are not 0 beyond its {len(tokens)} tokens: {values}")
    return weight_matrix(values[None, : len(tokens)], [name], tokens)[0]


def _array(weights: Any, ndim: int, name: str) -> Float[np.ndarray, "..."]:
    values = to_array(weights, name)
    if values.ndim != ndim:
        raise ValueError(
            f"{name} must be {ndim}-dimensional, not of shape {values.shape}"
        )
    return values


def _wrapped(
    sentence: Sequence[str], weights: Float[np.ndarray, " n"], line: int
) -> list[TextSpan]:
    """The words of a sentence, wrapped at the right margin, from the start of a line."""
    words = [_shortened(visible(token)) for token in sentence]
    return [
        (word, line + row, column, float(weight))
        for word, (row, column), weight in zip(
            words, wrapped(words, COLUMNS), weights, strict=True
        )
    ]


def _shortened(word: str) -> str:
    if width(word) <= COLUMNS:
        return word
    ends = accumulate(map(width, word))
    return word[: sum(end < COLUMNS for end in ends)] + "…"


def _page(lines: int, title: str) -> Axes:
    figure = plt.figure(figsize=(_WIDTH, (lines + 1) * _LINE))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(-_MARGIN, COLUMNS), ylim=(lines - 0.5, -1.5))
    axes.axis("off")
    axes.text(-_MARGIN, -1, printable(title), fontweight="bold", **_FONT)
    return axes


def _write(spans: Sequence[TextSpan], colors: str, axes: Axes) -> None:
    shade = mpl.colormaps[colors]
    for word, line, column, weight in spans:
        axes.add_patch(
            Rectangle(
                (column - 0.3, line - 0.45),
                width(word) + 0.6,
                0.9,
                facecolor=shade(DARKEST * weight),
            )
        )
        axes.text(column, line, word, **_FONT)
