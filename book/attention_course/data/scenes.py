"""Captions of handwritten digits on a canvas: unlimited real images with known locations.

Two to four digits lie in a jittered grid of 3 × 3 cells. A caption names them in reading
order, and says "below" where a new row starts: "three seven below one". The digits are
scikit-learn's.
"""

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from companion._checks import needs_extra

#: The names of the digits, in their order.
NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
BELOW = "below"  #: the word for the start of a new row
#: All words of a caption.
WORDS = (*NAMES, BELOW)
CANVAS = 32  #: the side of the canvas in pixels
GRID = 3  #: the side of the grid in cells
_DIGIT, _CELL = 8, 10  # sides in pixels


class Digits(NamedTuple):
    """Images of single digits, ``(n, 8, 8)`` with values from 0 to 1, and their labels."""

    images: np.ndarray
    labels: np.ndarray


class Box(NamedTuple):
    """The bounding box of a digit in pixels; ``bottom`` and ``right`` are exclusive."""

    top: int
    left: int
    bottom: int
    right: int


class Scenes(NamedTuple):
    """Images, 0 (paper) to 1 (ink), their captions, and a box for each digit named there."""

    images: Float[Tensor, "n 1 32 32"]
    captions: list[tuple[str, ...]]
    boxes: list[tuple[Box, ...]]


def handwritten_digits() -> Digits:
    """The 1,797 digits that come with scikit-learn.

    Source: E. Alpaydın and C. Kaynak, Optical Recognition of Handwritten Digits, 1998 (its test set).
    """
    with needs_extra("book"):
        from sklearn.datasets import load_digits
    found = load_digits()
    return Digits((found.images / 16).astype(np.float32), found.target)


def split(digits: Digits, fraction: float, seed: int) -> tuple[Digits, Digits, Digits]:
    """Digits for training, validation and test.

    Every image is in one of the sets only.

    Args:
        fraction: of the images of each digit, the part to hold out, half of it for
            validation and half for testing.
    """
    generator = np.random.default_rng(seed)
    train, validation, test = [], [], []
    for label in np.unique(digits.labels):
        rows = generator.permutation(np.flatnonzero(digits.labels == label))
        count = round(fraction * len(rows))
        if not 1 < count < len(rows):
            raise ValueError(
                f"a fraction of {fraction} of {len(rows)} images of {label} leaves "
                f"{len(rows) - count} to train with and {count} for validation and test,"
                " which need at least one each"
            )
        validation.append(rows[:count:2])
        test.append(rows[1:count:2])
        train.append(rows[count:])
    return _select(digits, train), _select(digits, validation), _select(digits, test)


def _select(digits: Digits, rows: list[np.ndarray]) -> Digits:
    selected = np.concatenate(rows)
    return Digits(digits.images[selected], digits.labels[selected])


def sample_scenes(
    digits: Digits, count: int, seed: int, smallest: int = 2, largest: int = 4
) -> Scenes:
    """Random scenes; every number of digits from smallest to largest is equally likely.

    Args:
        smallest: the fewest digits in a scene.
        largest: the most digits in a scene, at most 9.
    """
    if not 1 <= smallest <= largest <= GRID**2:
        raise ValueError(
            f"a scene has from 1 to {GRID**2} digits, not {smallest} to {largest}"
        )
    generator = np.random.default_rng(seed)
    images = np.zeros((count, 1, CANVAS, CANVAS), dtype=np.float32)
    captions, boxes = [], []
    for image in images:
        order = generator.permutation(GRID**2)
        cells = np.sort(order[: generator.integers(smallest, largest + 1)])
        chosen = generator.integers(len(digits.labels), size=len(cells))
        scene_boxes = [_box(cell, generator) for cell in cells.tolist()]
        for box, row in zip(scene_boxes, chosen, strict=True):
            image[0, box.top : box.bottom, box.left : box.right] = digits.images[row]
        captions.append(
            _caption((cells // GRID).tolist(), digits.labels[chosen].tolist())
        )
        boxes.append(tuple(scene_boxes))
    return Scenes(torch.from_numpy(images), captions, boxes)


def _box(cell: int, generator: np.random.Generator) -> Box:
    """A random box in a cell, which is two pixels larger than a digit in each direction."""
    row, column = divmod(cell, GRID)
    down, right = generator.integers(_CELL - _DIGIT + 1, size=2).tolist()
    top, left = 1 + _CELL * row + down, 1 + _CELL * column + right
    return Box(top, left, top + _DIGIT, left + _DIGIT)


def _caption(rows: Iterable[int], labels: Iterable[int]) -> tuple[str, ...]:
    """The names of digits, given in reading order with their rows of the grid."""
    words: list[str] = []
    last = None
    for row, label in zip(rows, labels, strict=True):
        words += [NAMES[label]] if last in (None, row) else [BELOW, NAMES[label]]
        last = row
    return tuple(words)


def box_of_each_word(caption: Iterable[str], boxes: Iterable[Box]) -> list[Box | None]:
    """For each word the box of the digit that it names; ``None`` for other words.

    Example:
        >>> box_of_each_word(["below", "one"], [Box(1, 1, 9, 9)])
        [None, Box(top=1, left=1, bottom=9, right=9)]
    """
    caption, boxes = list(caption), list(boxes)
    named = sum(word in NAMES for word in caption)
    if named != len(boxes):
        raise ValueError(
            f"the caption names {named} digits, but there are {len(boxes)} boxes"
        )
    remaining = iter(boxes)
    return [next(remaining) if word in NAMES else None for word in caption]


def weight_inside(
    weights: Float[Tensor, "*b k"], box: Box, margin: int = 0
) -> Float[Tensor, "*b"]:
    """The part of the attention weights that lies inside a box, or within a margin of it.

    The weight of a region is spread evenly over its pixels, so that uniform weights put
    64/1024 into the box of a digit.

    Args:
        weights: over the regions of a square grid on the canvas, ``(*b, k)``, row by row.
        margin: by how many pixels the box is enlarged on each side.

    Example:
        >>> weight_inside(torch.full((64,), 1 / 64), Box(1, 2, 9, 10))
        tensor(0.0625)
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
    """The fraction of each of ``side`` intervals of the canvas between start and end."""
    length = CANVAS // side
    edges = torch.arange(side + 1) * length
    overlap = edges[1:].clamp(max=end) - edges[:-1].clamp(min=start)
    return overlap.clamp(min=0) / length
