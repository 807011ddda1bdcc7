"""Pretraining of an image encoder, which learns to detect digits."""

from math import isqrt
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from attention_course.data.scenes import (
    CANVAS,
    GRID,
    NAMES,
    Digits,
    Scenes,
    sample_scenes,
)
from attention_course.training import recipe
from attention_course.training.losses import Record
from companion.losses.tokens import Loss, to_float32

BACKGROUND = len(NAMES)  #: the class of a region without a digit
BACKGROUND_WEIGHT = 0.1  #: its weight in the loss, since there are so many
_BATCH_SIZE = 16


class DigitDetector(nn.Module):
    """An encoder and a linear layer that classifies each region: digit or background.

    Pretraining keeps the encoder and discards the layer.

    Args:
        encoder: from images to annotations ``(b, n, size)`` and a mask.
        size: features of an annotation.

    Example:
        >>> from companion.models import ImageEncoder
        >>> DigitDetector(ImageEncoder(16), 16)(torch.rand(2, 1, 32, 32)).shape
        torch.Size([2, 64, 11])
    """

    def __init__(self, encoder: nn.Module, size: int):
        super().__init__()
        self.encoder = encoder
        self.output = nn.Linear(size, len(NAMES) + 1)

    def forward(self, images: Float[Tensor, "b 1 h w"]) -> Float[Tensor, "b n 11"]:
        """The logits of the ten digits and of the background, for each region."""
        annotations, _ = self.encoder(images)
        return self.output(annotations)


class DetectionBatch(NamedTuple):
    """Images, and for each region of a grid over them its digit, or ``BACKGROUND``."""

    images: Float[Tensor, "b 1 h w"]
    labels: Int[Tensor, "b n"]


def digit_of_each_region(scenes: Scenes, side: int) -> Int[Tensor, "b n"]:
    """For each region of a grid the digit whose box contains it, or ``BACKGROUND``.

    The regions come row by row. Every digit of 8 pixels contains at least one region of
    a grid of 8 × 8.

    Args:
        side: the number of regions along each side of the grid.
    """
    if CANVAS % side:
        raise ValueError(
            f"a canvas of {CANVAS} pixels cannot be divided into {side} regions a side"
        )
    size = CANVAS // side
    labels = np.full((len(scenes.boxes), side, side), BACKGROUND)
    for label, caption, boxes in zip(
        labels, scenes.captions, scenes.boxes, strict=True
    ):
        digits = [NAMES.index(word) for word in caption if word in NAMES]
        for digit, (top, left, bottom, right) in zip(digits, boxes, strict=True):
            rows = slice(-(-top // size), bottom // size)
            columns = slice(-(-left // size), right // size)
            label[rows, columns] = digit
    return torch.from_numpy(labels).flatten(1)


class DetectionBatches:
    """Batches for a :class:`DigitDetector`: new scenes at each step, of 1 to 9 digits.

    ``batches[step]`` depends on the step and the arguments alone.

    Args:
        digits: the digits of the scenes.
        side: the number of regions along each side of the encoder's grid.
        batch_size: scenes a batch.
    """

    def __init__(
        self, digits: Digits, side: int, seed: int, batch_size: int = _BATCH_SIZE
    ):
        self.digits, self.side = digits, side
        self.seed, self.batch_size = seed, batch_size

    def __getitem__(self, step: int) -> DetectionBatch:
        """The batch of this step, counted from 0."""
        seed = int(np.random.SeedSequence([self.seed, step]).generate_state(1)[0])
        scenes = sample_scenes(
            self.digits, self.batch_size, seed, smallest=1, largest=GRID**2
        )
        return DetectionBatch(scenes.images, digit_of_each_region(scenes, self.side))


def detection_loss(model: nn.Module, batch: DetectionBatch) -> Loss:
    """The cross-entropy of the regions, where background has the weight 0.1.

    ::

        total = − Σ_i w_i log p(label_i),   w_i = 0.1 for background, 1 for a digit
        count = N regions with a digit

    Args:
        model: a :class:`DigitDetector`.
    """
    logits = to_float32(model(batch.images)).mT  # (b, 11, n)
    weight = logits.new_tensor([1.0] * len(NAMES) + [BACKGROUND_WEIGHT])
    total = cross_entropy(logits, batch.labels, weight, reduction="sum")
    return Loss(total, (batch.labels != BACKGROUND).sum())


def pretrain_encoder(encoder: nn.Module, digits: Digits, steps: int) -> list[Record]:
    """Train an encoder to detect digits, without captions.

    This plays the part of the network that Xu et al. 2015 take, trained on labelled
    photographs. The encoder stays on its device.

    Args:
        encoder: from images to annotations of a square grid, and a mask.
        digits: the digits of the scenes.

    Returns:
        A record every 50 steps, with the loss.
    """
    device = next(encoder.parameters()).device
    annotations, _ = encoder(sample_scenes(digits, 1, seed=0).images.to(device))
    _, regions, size = annotations.shape
    side = isqrt(regions)
    if side**2 != regions:
        raise ValueError(f"the encoder's {regions} regions form no square grid")
    model = DigitDetector(encoder, size).to(device)
    batches = DetectionBatches(digits, side, seed=0)
    return recipe.train(model, detection_loss, batches, steps, learning_rate=1.5e-2)
