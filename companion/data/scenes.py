"""Captions of handwritten digits on a canvas: real images, without limit, whose every word has its place.

Two to four digits stand in a jittered grid of 3 × 3 fields. A caption names them in reading order, and says
"below" where another row begins: "three seven below one". The digits are scikit-learn's.
"""

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

#: The names of the digits, in their order.
NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
BELOW = "below"  #: where another row begins
#: All words of a caption.
WORDS = (*NAMES, BELOW)
CANVAS = 32  #: pixels of a side of the canvas
FIELDS = 3  #: fields to a side of it
_DIGIT, _FIELD = 8, 10  # pixels of a side


class Digits(NamedTuple):
    """Images of single digits, ``(n, 8, 8)`` from 0 to 1, and which digits they are."""

    images: np.ndarray
    labels: np.ndarray


class Box(NamedTuple):
    """Where a digit stands, in pixels: ``top`` and ``left`` are its own, ``bottom`` and ``right`` not."""

    top: int
    left: int
    bottom: int
    right: int


class Scenes(NamedTuple):
    """Images from 0 (paper) to 1 (ink), the words of each caption, and a box for each digit that it names."""

    images: Float[Tensor, "n 1 32 32"]
    captions: list[tuple[str, ...]]
    boxes: list[tuple[Box, ...]]


def handwritten_digits() -> Digits:
    """The 1,797 digits that come with scikit-learn.

    Source: E. Alpaydın and C. Kaynak, Optical Recognition of Handwritten Digits, 1998 (its test set).
    """
    from sklearn.datasets import load_digits

    found = load_digits()
    return Digits((found.images / 16).astype(np.float32), found.target)


def split(digits: Digits, share: float, seed: int) -> tuple[Digits, Digits]:
    """Digits to train with, and other images to test with: a ``share`` of each of the ten.

    Raises:
        ValueError: the share is not between 0 and 1, or leaves one side without images of some digit.
    """
    if not 0 < share < 1:
        raise ValueError(
            f"the share to hold out must lie between 0 and 1, but is {share}"
        )
    generator = np.random.default_rng(seed)
    train, held_out = [], []
    for label in np.unique(digits.labels):
        rows = generator.permutation(np.flatnonzero(digits.labels == label))
        count = round(share * len(rows))
        if not 0 < count < len(rows):
            raise ValueError(
                f"a share of {share} of {len(rows)} images of {label} holds out {count}"
            )
        held_out.append(rows[:count])
        train.append(rows[count:])
    return _chosen(digits, train), _chosen(digits, held_out)


def _chosen(digits: Digits, rows: list[np.ndarray]) -> Digits:
    together = np.concatenate(rows)
    return Digits(digits.images[together], digits.labels[together])


def draw(
    digits: Digits, count: int, seed: int, smallest: int = 2, largest: int = 4
) -> Scenes:
    """Scenes of ``smallest`` to ``largest`` digits, each number as often as the others.

    Raises:
        ValueError: the count is below 1, there are no digits, or the numbers do not fit nine fields.
    """
    if count < 1:
        raise ValueError(f"at least one scene must be asked for, not {count}")
    if not len(digits.labels):
        raise ValueError("there are no digits to make scenes of")
    if not 1 <= smallest <= largest <= FIELDS**2:
        raise ValueError(
            f"a scene has from 1 to {FIELDS**2} digits, but {smallest} to {largest} were asked for"
        )
    generator = np.random.default_rng(seed)
    images = np.zeros((count, 1, CANVAS, CANVAS), dtype=np.float32)
    captions, boxes = [], []
    for image in images:
        fields = np.sort(
            generator.permutation(FIELDS**2)[
                : generator.integers(smallest, largest + 1)
            ]
        )
        chosen = generator.integers(len(digits.labels), size=len(fields))
        where = [_box(field, generator) for field in fields.tolist()]
        for box, row in zip(where, chosen, strict=True):
            image[0, box.top : box.bottom, box.left : box.right] = digits.images[row]
        captions.append(
            _caption((fields // FIELDS).tolist(), digits.labels[chosen].tolist())
        )
        boxes.append(tuple(where))
    return Scenes(torch.from_numpy(images), captions, boxes)


def _box(field: int, generator: np.random.Generator) -> Box:
    """A place for a digit in its field, which has two pixels more than it needs either way."""
    row, column = divmod(field, FIELDS)
    down, right = generator.integers(_FIELD - _DIGIT + 1, size=2).tolist()
    top, left = 1 + _FIELD * row + down, 1 + _FIELD * column + right
    return Box(top, left, top + _DIGIT, left + _DIGIT)


def _caption(rows: Iterable[int], labels: Iterable[int]) -> tuple[str, ...]:
    """The names of digits that stand in reading order in these rows."""
    words: list[str] = []
    last = None
    for row, label in zip(rows, labels, strict=True):
        words += [NAMES[label]] if last in (None, row) else [BELOW, NAMES[label]]
        last = row
    return tuple(words)


def box_of_each_word(caption: Iterable[str], boxes: Iterable[Box]) -> list[Box | None]:
    """For each word the box of the digit that it names; ``None`` for a word that names none.

    Raises:
        ValueError: the caption does not name as many digits as there are boxes.
    """
    caption, boxes = list(caption), list(boxes)
    named = sum(word in NAMES for word in caption)
    if named != len(boxes):
        raise ValueError(
            f"the caption names {named} digits, but there are {len(boxes)} boxes"
        )
    remaining = iter(boxes)
    return [next(remaining) if word in NAMES else None for word in caption]


def share_inside(
    weights: Float[Tensor, "*b k"], box: Box, margin: int = 0
) -> Float[Tensor, "*b"]:
    """The share of the weights that falls inside a box, or within ``margin`` pixels of it.

    The weights belong to a square grid over the canvas, row by row; each is spread evenly over the pixels of
    its field. So even weights have a share of 64/1024 in the box of a digit.

    Raises:
        ValueError: the weights are not of a square grid that divides the canvas.
    """
    side = math.isqrt(weights.shape[-1])
    if not side or side**2 != weights.shape[-1] or CANVAS % side:
        raise ValueError(
            f"{weights.shape[-1]} weights are no square grid over {CANVAS} × {CANVAS} pixels"
        )
    rows = _covered(box.top - margin, box.bottom + margin, side).to(weights)
    columns = _covered(box.left - margin, box.right + margin, side).to(weights)
    return torch.einsum(
        "...rc,r,c->...", weights.unflatten(-1, (side, side)), rows, columns
    )


def _covered(start: int, end: int, side: int) -> Float[Tensor, " side"]:
    """Of each of ``side`` stretches of the canvas, the part that lies between start and end."""
    length = CANVAS // side
    edges = torch.arange(side + 1) * length
    return (edges[1:].clamp(max=end) - edges[:-1].clamp(min=start)).clamp(
        min=0
    ) / length
