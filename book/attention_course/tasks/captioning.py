"""Captioning as a task: scenes of digits, a training recipe, and two measures."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from attention_course.data.examples import Shuffled
from attention_course.data.scenes import WORDS, Scenes, box_of_each_word, weight_inside
from attention_course.data.vocabulary import BOS, EOS, MARKS, PAD, Vocabulary, pad
from attention_course.training import recipe
from attention_course.training.caption_losses import (
    LONGEST,
    CaptionBatch,
    CaptionerTrace,
    SoftAttentionLoss,
    start_captions,
)
from attention_course.training.losses import Record, evaluating, loss_and_perplexity
from companion.attention.hard import one_hot
from companion.decoding.sampling import greedy
from companion.losses.tokens import Loss

_AT_ONCE = 250  # images that are encoded or captioned together


def _select(batch: CaptionBatch, rows: list[int] | slice) -> CaptionBatch:
    """Some of the images, with no more padding than their captions need."""
    target = batch.target[rows]
    longest = int((target != PAD).sum(1).max())
    return CaptionBatch(batch.annotations[rows], target[:, :longest])


def _in_order(scenes: CaptionBatch) -> list[CaptionBatch]:
    """All images of a set, in their order, in batches."""
    rows = range(0, scenes.target.shape[0], _AT_ONCE)
    return [_select(scenes, slice(row, row + _AT_ONCE)) for row in rows]


class Localisation(NamedTuple):
    """How well attention finds each digit just before its name: means over the names.

    ``inside`` is the fraction of the weight in the digit's bounding box (attention
    correctness, Liu et al. 2017), ``near`` the fraction within two pixels of it.
    ``hits`` is the fraction of names for which the region with the largest weight
    touches the box (the pointing game of Zhang et al. 2016).
    """

    inside: float
    near: float
    hits: float


class Captioning:
    """Scenes as a fixed encoder represents them, and the scores of captioners on them.

    The encoder sees each image once, so that a step of training costs only the
    decoder's part. A captioner is a decoder such as
    :class:`~companion.models.show_attend_tell.Captioner`.

    Args:
        encoder: from images to annotations and a mask; it is not trained.
        validation: the scenes on which the loss is measured during training.
        test: the scenes of all other measures.
    """

    def __init__(
        self, encoder: nn.Module, train: Scenes, validation: Scenes, test: Scenes
    ):
        self.vocabulary = Vocabulary(WORDS)  #: of the captions
        self.test_scenes = test
        #: the annotations of the images, and their captions
        self.training, self.validation, self.test = (
            self._encode(encoder, scenes) for scenes in (train, validation, test)
        )

    def _encode(self, encoder: nn.Module, scenes: Scenes) -> CaptionBatch:
        device = next(encoder.parameters()).device
        with evaluating(encoder):
            annotations = [
                encoder(images.to(device))[0].cpu()
                for images in scenes.images.split(_AT_ONCE)
            ]
        encode = self.vocabulary.encode
        target = pad([[BOS, *encode(caption), EOS] for caption in scenes.captions])
        return CaptionBatch(torch.cat(annotations), target)

    def train(
        self,
        captioner: nn.Module,
        loss: Callable[[nn.Module, CaptionBatch], Loss],
        steps: int,
        learning_rate: float = 1e-2,
    ) -> list[Record]:
        """Train by the book's recipe, with batches of 64.

        Returns:
            A record every 50 steps, with the loss on the validation set.
        """
        return recipe.train(
            CaptionerTrace(captioner),
            loss,
            self.batches(batch_size=64, seed=0),
            steps,
            learning_rate,
            lambda _: self.validation_loss(captioner),
        )

    def validation_loss(self, captioner: nn.Module) -> Record:
        """The loss per word of the validation captions, given the words before it.

        A captioner with hard attention attends to the most probable region.

        Returns:
            ``held_out_loss`` and ``perplexity``.
        """
        return loss_and_perplexity(
            CaptionerTrace(captioner), _in_order(self.validation), SoftAttentionLoss()
        )

    def batches(self, batch_size: int, seed: int) -> Shuffled:
        """The training images and captions, in the order that the seed gives."""
        rows = range(self.training.target.shape[0])
        return Shuffled(
            rows, lambda rows: _select(self.training, rows), batch_size, seed
        )

    def captions(self, captioner: Any) -> list[tuple[str, ...]]:
        """The captioner's own caption of each test image, by greedy decoding."""
        device, captions = next(captioner.parameters()).device, list[tuple[str, ...]]()
        with evaluating(captioner):
            for batch in _in_order(self.test):
                state = start_captions(captioner, batch.annotations.to(device))
                tokens = greedy(captioner.step, state, LONGEST, **MARKS).tokens
                captions += [tuple(self.vocabulary.decode(row)) for row in tokens]
        return captions

    def exact_match(self, captioner: Any) -> float:
        """The fraction of test images whose caption is exactly right."""
        pairs = zip(self.captions(captioner), self.test_scenes.captions, strict=True)
        return float(np.mean([caption == truth for caption, truth in pairs]))

    def localisation(self, captioner: Any) -> Localisation:
        """How well its attention finds the digits, by teacher forcing."""
        device, model = next(captioner.parameters()).device, CaptionerTrace(captioner)
        maps, scores = list[Tensor](), list[list[Tensor]]()
        with evaluating(captioner):
            for batch in _in_order(self.test):
                on_device = CaptionBatch(*(part.to(device) for part in batch))
                maps += model(on_device)[1].weights.cpu()
        for weights, caption, boxes in zip(maps, *self.test_scenes[1:], strict=True):
            for row, box in zip(
                weights, box_of_each_word(caption, boxes), strict=False
            ):
                if box is not None:
                    inside, near = weight_inside(row, box), weight_inside(row, box, 2)
                    hit = weight_inside(one_hot(row), box) > 0
                    scores.append([inside, near, hit])
        return Localisation(*torch.tensor(scores).float().mean(0).tolist())
