"""Pretraining of the image encoder: the label of each region, the loss, and its effect."""

import numpy as np
import pytest
import torch

from attention_course.data.scenes import (
    NAMES,
    Box,
    Digits,
    Scenes,
    handwritten_digits,
    sample_scenes,
)
from attention_course.tasks import (
    DetectionBatches,
    DigitDetector,
    detection_loss,
    digit_of_each_region,
    pretrain_encoder,
)
from attention_course.tasks.digit_pretraining import BACKGROUND, BACKGROUND_WEIGHT
from companion.models import ImageEncoder


def strokes():
    """Eight digits that are easy to tell apart: each has ink in another row."""
    images = np.zeros((8, 8, 8), dtype=np.float32)
    images[np.arange(8), np.arange(8)] = 1
    return Digits(images, np.arange(8))


def test_a_region_has_the_label_of_the_box_that_contains_it():
    boxes = (Box(2, 1, 10, 9), Box(11, 21, 19, 29))
    scenes = Scenes(torch.zeros(1, 1, 32, 32), [("seven", "below", "zero")], [boxes])
    labels = digit_of_each_region(scenes, 8)[0].tolist()
    for row in range(8):
        for column in range(8):
            pixels = [(4 * row + y, 4 * column + x) for y in range(4) for x in range(4)]
            inside = [
                digit
                for digit, b in zip((7, 0), boxes, strict=True)
                if all(contains(b, y, x) for y, x in pixels)
            ]
            assert labels[8 * row + column] == (inside[0] if inside else BACKGROUND)


def contains(box, y, x):
    return box.top <= y < box.bottom and box.left <= x < box.right


def test_every_digit_contains_a_region_of_an_8_by_8_grid():
    scenes = sample_scenes(strokes(), 100, seed=0, smallest=1, largest=9)
    labels = digit_of_each_region(scenes, 8)
    for row, caption in zip(labels, scenes.captions, strict=True):
        named = {NAMES.index(word) for word in caption if word in NAMES}
        assert set(row.tolist()) - {BACKGROUND} == named


def test_a_grid_that_does_not_divide_the_canvas_is_an_error():
    with pytest.raises(ValueError, match=r"32 pixels .* 7 regions"):
        digit_of_each_region(sample_scenes(strokes(), 1, seed=0), side=7)


def test_a_batch_depends_on_step_and_seed_alone():
    batches = DetectionBatches(strokes(), 8, seed=0)
    one, same, other = batches[3], DetectionBatches(strokes(), 8, seed=0)[3], batches[4]
    assert torch.equal(one.images, same.images)
    assert torch.equal(one.labels, same.labels)
    assert not torch.equal(one.images, other.images)
    assert not torch.equal(one.images, DetectionBatches(strokes(), 8, seed=1)[3].images)


def test_the_loss_gives_background_a_small_weight():
    torch.manual_seed(0)
    model, batch = (
        DigitDetector(ImageEncoder(6), 6),
        DetectionBatches(strokes(), 8, seed=0, batch_size=3)[0],
    )
    found = detection_loss(model, batch)
    log_probs = model(batch.images).log_softmax(-1)
    total = count = 0
    for row, labels in enumerate(batch.labels.tolist()):
        for region, label in enumerate(labels):
            total -= log_probs[row, region, label].item() * (
                BACKGROUND_WEIGHT if label == BACKGROUND else 1
            )
            count += label != BACKGROUND
    assert found.total.item() == pytest.approx(total, rel=1e-5)
    assert found.count == count


def test_pretraining_lowers_the_loss():
    torch.manual_seed(0)
    encoder = ImageEncoder(16)
    history = pretrain_encoder(encoder, handwritten_digits(), steps=200)
    assert [record["step"] for record in history] == [50, 100, 150, 200]
    assert history[-1]["loss"] < np.log(10) - 0.1


class SixtyThreeRegions(ImageEncoder):
    def forward(self, images):
        annotations, mask = super().forward(images)
        return annotations[:, 1:], mask[:, 1:]


@pytest.mark.usefixtures("unchecked")
def test_an_encoder_without_a_square_grid_is_an_error():
    with pytest.raises(ValueError, match="63 regions form no square grid"):
        pretrain_encoder(SixtyThreeRegions(6), strokes(), steps=1)
