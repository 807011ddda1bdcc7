"""A document as text, its words and sentences shaded by their attention weights."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from torch import Tensor

from companion.visualization.alignments import numbers, table, visible

_WIDTH = 5.0  # inches, as all figures of the book
_MARGIN = 6  # letters for a sentence's share in percent
COLUMNS = 40  #: letters of a sentence's words in a line
_LETTER = _WIDTH / (_MARGIN + COLUMNS)  # inches
_LINE = 2.3 * _LETTER
DARKEST = 0.6  #: of a colour map, for black letters can still be read on it
_FONT: dict[str, Any] = {
    "family": "DejaVu Sans Mono",
    "fontsize": 72 * _LETTER / 0.602,
    "va": "center",
    "parse_math": False,
}


class TextSpan(NamedTuple):
    """A word, where it stands, and its weight."""

    word: str
    line: int
    column: int
    weight: float


def text_heatmap(
    sentences: Sequence[Sequence[str]],
    word_weights: Float[Tensor, "r n"] | Float[np.ndarray, "r n"],
    sentence_weights: Float[Tensor, " s"] | Float[np.ndarray, " s"],
    title: str = "",
) -> Axes:
    """A document as text: before each sentence its weight in percent, orange; behind each word its own, blue.

    The palest shade is 0 and the darkest is 1 in every picture. Each sentence begins a line. What stands
    beyond a sentence's words, or beyond the last sentence, is padding. A word longer than a line ends in "…".

    Raises:
        TypeError: a word is not a string, or weights are not numbers.
        ValueError: there is no sentence, or one has no words; there are fewer weights than words or
            sentences; a weight lies outside 0 to 1, or padding has weight.
    """
    shares = _without_padding(
        sentence_weights, ["share"] * len(sentences), "the weights of sentences"
    )
    rows = _rows(word_weights, len(sentences))
    words: list[TextSpan] = []
    margin: list[TextSpan] = []
    line = -1
    for number, (sentence, weights) in enumerate(zip(sentences, rows, strict=True)):
        values = _without_padding(
            weights, sentence, f"the weights of sentence {number}"
        )
        margin.append(
            TextSpan(f"{shares[number]:4.0%}", line + 1, -_MARGIN, shares[number])
        )
        words += _wrapped(sentence, values, line + 1)
        line = words[-1].line
    axes = _page(line + 1, title)
    _write(margin, "Oranges", axes)
    _write(words, "Blues", axes)
    return axes


def _rows(word_weights: Any, count: int) -> Float[np.ndarray, "s n"]:
    rows = numbers(word_weights, "the weights of words")
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
    values = numbers(weights, name)
    if values[len(tokens) :].any():
        raise ValueError(f"{name} are not 0 beyond its {len(tokens)} tokens: {values}")
    return table(values[None, : len(tokens)], [name], tokens)[0]


def _wrapped(
    sentence: Sequence[str], weights: Float[np.ndarray, " n"], line: int
) -> list[TextSpan]:
    """The words of a sentence from the beginning of this line on, none across the right margin."""
    placed, column = [], 0
    for token, weight in zip(sentence, weights, strict=True):
        word = _shortened(visible(token))
        if column and column + len(word) > COLUMNS:
            line, column = line + 1, 0
        placed.append(TextSpan(word, line, column, float(weight)))
        column += len(word) + 1
    return placed


def _shortened(word: str) -> str:
    return word if len(word) <= COLUMNS else word[: COLUMNS - 1] + "…"


def _page(lines: int, title: str) -> Axes:
    figure = plt.figure(
        figsize=(_WIDTH, (lines + 1) * _LINE), dpi=120, facecolor="white"
    )
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(-_MARGIN, COLUMNS), ylim=(lines - 0.5, -1.5))
    axes.axis("off")
    axes.text(-_MARGIN, -1, title, fontweight="bold", **_FONT)
    return axes


def _write(placed: Sequence[TextSpan], colors: str, axes: Axes) -> None:
    shade = mpl.colormaps[colors]
    for word, line, column, weight in placed:
        size = len(word) + 0.6
        axes.add_patch(
            Rectangle(
                (column - 0.3, line - 0.45),
                size,
                0.9,
                facecolor=shade(DARKEST * weight),
            )
        )
        axes.text(column, line, word, **_FONT)
