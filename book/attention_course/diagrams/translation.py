"""The drawing of one translation with attention and without, of chapter 2 and the welcome page."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from attention_course.diagrams.drawing import WIDTH, Drawing, Role

_PITCH, _HEAD, _FOOT = 23, 62, 12  # heights: of a line, of what is above, and below
_FIXED, _SOURCE, _ATTENDED = 92, WIDTH / 2, 390  # right edge, centre and left edge
_HALF, _GAP = 46, 6  # half the width of the source words; the room beside words
_BOX, _BOX_WIDTH, _BOX_HEIGHT = 146, 62, 64
_THICKNESS = 10  # of the curve of a weight of 1
_VISIBLE = 0.04  # the smallest weight that has a curve

# What the models of the page wrote, and the weights, in a file by ``attention_course.live.translation``.
_SPEED_OF_LIGHT = Path(__file__).with_name("speed_of_light.json")

_Anchor = Literal["start", "middle", "end"]


def two_translations(
    title: str,
    source: Sequence[str],
    target: Sequence[str],
    attended: Sequence[str],
    weights: Sequence[Sequence[float]],
    fixed: Sequence[str],
) -> Drawing:
    """A sentence and two translations: on the left from one vector, on the right by attention.

    Args:
        title: what the sentence says.
        source: its words.
        target: the words of the correct translation.
        attended: the words that the model with attention wrote.
        weights: the attention weights, a row for each of them.
        fixed: the words that the model without attention wrote.
    """
    middle = _HEAD + max(len(source), len(attended), len(fixed)) * _PITCH / 2
    verdicts = _verdict(attended, target), _verdict(fixed, target)
    drawing = Drawing(
        2 * middle - _HEAD + _FOOT,
        f"{title}, translated from English to French. The model with attention writes"
        f" {' '.join(attended)} ({verdicts[0]}); curves lead from each word to the"
        " English words that it attends to. In the model without attention, all"
        f" English words pass through one vector. It writes {' '.join(fixed)}"
        f" ({verdicts[1]}).",
    )
    _heading(drawing, 8, "start", "without attention", verdicts[1])
    _heading(drawing, _SOURCE, "middle", title, "English")
    _heading(drawing, WIDTH - 8, "end", "with attention", verdicts[0])

    box = drawing.box(_BOX, middle, _BOX_WIDTH, _BOX_HEIGHT, "one\nvector")
    places = _column(drawing, _SOURCE, middle, "middle", source, source, "key")
    for y in places:
        drawing.flow(box.right, (_SOURCE - _HALF, y), "key", 1, horizontal=True)
    for y in _column(drawing, _FIXED, middle, "end", fixed, target):
        drawing.flow((_FIXED + _GAP, y), box.left, "muted", 1, horizontal=True)
    heights = _column(drawing, _ATTENDED, middle, "start", attended, target)
    for y, row in zip(heights, weights, strict=True):
        for place, weight in zip(places, row, strict=True):
            if weight >= _VISIBLE:
                start, end = (_SOURCE + _HALF, place), (_ATTENDED - _GAP, y)
                drawing.flow(start, end, "key", _THICKNESS * weight, horizontal=True)
    return drawing


def _heading(
    drawing: Drawing, x: float, anchor: _Anchor, title: str, below: str
) -> None:
    drawing.text(x, 18, title, anchor=anchor, bold=True)
    drawing.text(x, 38, below, "muted", anchor)


def _column(
    drawing: Drawing,
    x: float,
    middle: float,
    anchor: _Anchor,
    words: Sequence[str],
    target: Sequence[str],
    role: Role = "ink",
) -> list[float]:
    """Words one below the other, the wrong ones marked; returns their heights."""
    top = middle - _PITCH * (len(words) - 1) / 2
    heights = [top + _PITCH * place for place in range(len(words))]
    right = _right_words(words, target)
    for y, word, is_right in zip(heights, words, right, strict=True):
        if is_right:
            drawing.text(x, y, word, role, anchor)
        else:
            drawing.text(x, y, f"✗ {word}", "query", anchor)
    return heights


def speed_of_light() -> Drawing:
    """The speed of light in metres per second, translated by the models of the live page."""
    return two_translations(**json.loads(_SPEED_OF_LIGHT.read_text("utf-8")))


def _verdict(words: Sequence[str], target: Sequence[str]) -> str:
    """Whether a translation is exact, or what is wrong with it, as the live page says it."""
    if list(words) == list(target):
        return "exact"
    right = _right_words(words, target)
    if wrong := right.count(False):
        return f"{_count(wrong)} wrong or extra"
    return f"{_count(len(target) - len(right))} missing"


def _count(words: int) -> str:
    return "1 word" if words == 1 else f"{words} words"


def _right_words(words: Sequence[str], target: Sequence[str]) -> list[bool]:
    """Which words of a translation belong to a longest common subsequence with the correct one."""
    lengths = [[0] * (len(target) + 1) for _ in range(len(words) + 1)]
    for i in reversed(range(len(words))):
        for j in reversed(range(len(target))):
            lengths[i][j] = (
                lengths[i + 1][j + 1] + 1
                if words[i] == target[j]
                else max(lengths[i + 1][j], lengths[i][j + 1])
            )
    right, j = [], 0
    for i, word in enumerate(words):
        while (
            j < len(target)
            and word != target[j]
            and lengths[i][j + 1] > lengths[i + 1][j]
        ):
            j += 1
        right.append(j < len(target) and word == target[j])
        if right[-1]:
            j += 1
    return right
