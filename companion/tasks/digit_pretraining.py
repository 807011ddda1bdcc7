"""An encoder of images that learns to tell digits apart, and from paper, before it serves a captioner."""

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from companion.data.scenes import CANVAS, FIELDS, NAMES, Digits, Scenes, draw
from companion.training import recipe
from companion.training.losses import Loss, Record, to_float32

BACKGROUND = len(NAMES)  #: the class of a field without a digit
BACKGROUND_WEIGHT = 0.1  #: how much such a field counts, for there are so many
_AT_ONCE = 16


class DigitDetector(nn.Module):
    """An encoder with a linear layer on top, which says of each field which digit it shows, or none.

    Only what the encoder has learnt stays; the layer is thrown away.
    """

    def __init__(self, encoder: nn.Module, size: int):
        super().__init__()
        self.encoder = encoder
        self.output = nn.Linear(size, len(NAMES) + 1)

    def forward(self, images: Float[Tensor, "b 1 h w"]) -> Float[Tensor, "b n 11"]:
        """A score for each digit, and for none, at each field."""
        annotations, _ = self.encoder(images)
        return self.output(annotations)


class DetectionBatch(NamedTuple):
    """Images, and the digit, or ``BACKGROUND``, at each field of a grid over them."""

    images: Float[Tensor, "b 1 h w"]
    labels: Int[Tensor, "b n"]


def digit_of_each_region(scenes: Scenes, side: int) -> Int[Tensor, "b n"]:
    """For each field of a grid, row by row, the digit in whose box it lies wholly, or ``BACKGROUND``.

    So a digit of 8 pixels has at least one field on a grid of 8, and those that see it best.

    Raises:
        ValueError: the canvas cannot be cut into ``side`` fields to a side.
    """
    if side < 1 or CANVAS % side:
        raise ValueError(
            f"a canvas of {CANVAS} pixels cannot be cut into {side} fields to a side"
        )
    size = CANVAS // side
    labels = np.full((len(scenes.boxes), side, side), BACKGROUND)
    for label, caption, boxes in zip(
        labels, scenes.captions, scenes.boxes, strict=True
    ):
        digits = [NAMES.index(word) for word in caption if word in NAMES]
        for digit, (top, left, bottom, right) in zip(digits, boxes, strict=True):
            label[
                -(-top // size) : bottom // size, -(-left // size) : right // size
            ] = digit
    return torch.from_numpy(labels).flatten(1)


class DetectionBatches:
    """Batches for a :class:`DigitDetector`: at each step other scenes of one to nine digits.

    ``lessons[step]`` is a pure function of the step and of what the constructor was given.
    """

    def __init__(
        self, digits: Digits, side: int, seed: int, batch_size: int = _AT_ONCE
    ):
        self.digits, self.side, self.seed, self.batch_size = (
            digits,
            side,
            seed,
            batch_size,
        )

    def __getitem__(self, step: int) -> DetectionBatch:
        """The batch of this step, counted from 0."""
        seed = int(np.random.SeedSequence([self.seed, step]).generate_state(1)[0])
        scenes = draw(self.digits, self.batch_size, seed, smallest=1, largest=FIELDS**2)
        return DetectionBatch(scenes.images, digit_of_each_region(scenes, self.side))


def detection_loss(model: nn.Module, batch: DetectionBatch) -> Loss:
    """The cross-entropy, summed over the fields; one without a digit counts as 0.1. Count: the others."""
    scores = to_float32(model(batch.images)).mT
    weight = scores.new_tensor([1.0] * len(NAMES) + [BACKGROUND_WEIGHT])
    total = cross_entropy(scores, batch.labels, weight, reduction="sum")
    return Loss(total, (batch.labels != BACKGROUND).sum())


def pretrain_encoder(encoder: nn.Module, digits: Digits, steps: int) -> list[Record]:
    """Teach an encoder to tell digits apart, and from paper; the history has the loss every 50 steps.

    It is given scenes and where the digits are, but no caption: neither an order nor a word. It plays the
    part of the network trained on labelled photographs in Xu et al. 2015. The encoder stays on its device.

    Raises:
        ValueError: the fields that the encoder gives are no grid that fits the canvas; or as
            :func:`companion.training.recipe.train`.
        FloatingPointError: as :func:`companion.training.recipe.train`.
    """
    device = next(encoder.parameters()).device
    annotations, _ = encoder(draw(digits, 1, seed=0).images.to(device))
    _, fields, size = annotations.shape
    model = DigitDetector(encoder, size).to(device)
    lessons = DetectionBatches(digits, round(fields**0.5), seed=0)
    return recipe.train(model, detection_loss, lessons, steps, learning_rate=1.5e-2)
