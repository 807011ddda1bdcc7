"""A small captioning task, as chapter 4 uses it: scenes as an encoder sees them, a recipe, and scores."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from companion.attention.hard import one_hot
from companion.data.examples import Shuffled
from companion.data.scenes import WORDS, Scenes, box_of_each_word, share_inside
from companion.data.vocabulary import BOS, EOS, PAD, Vocabulary, pad
from companion.decoding.sampling import greedy
from companion.tasks.caption_losses import (
    LONGEST,
    CaptionBatch,
    CaptionerTrace,
    SoftAttentionLoss,
    start_captions,
)
from companion.training import recipe
from companion.training.losses import Loss, Record, evaluating, held_out

_AT_ONCE = 250


def _part(seen: CaptionBatch, rows: list[int] | slice) -> CaptionBatch:
    """Some of the images, with no more padding than their captions need."""
    target = seen.target[rows]
    return CaptionBatch(
        seen.annotations[rows], target[:, : int((target != PAD).sum(1).max())]
    )


class Localisation(NamedTuple):
    """Of the weight of the looks before each digit's name: in its box, within two pixels; and the hits.

    A hit is a look whose largest weight lies on a field that touches the box.
    """

    inside: float
    near: float
    hits: float


class Captioning:
    """Scenes to train on and others to test with, as an encoder sees them that no longer learns.

    A captioner is a decoder such as :class:`companion.models.show_attend_tell.Captioner`. The encoder is shown each image
    once, so that a step of training costs only the decoder's part.
    """

    def __init__(self, encoder: nn.Module, train: Scenes, test: Scenes):
        self.vocabulary = Vocabulary(WORDS)  #: of the captions
        self.test_scenes = test
        #: the images as the encoder saw them, and their captions
        self.training, self.test = (
            self._see(encoder, scenes) for scenes in (train, test)
        )

    def _see(self, encoder: nn.Module, scenes: Scenes) -> CaptionBatch:
        device = next(encoder.parameters()).device
        with evaluating(encoder):
            parts = [
                encoder(part.to(device))[0].cpu()
                for part in scenes.images.split(_AT_ONCE)
            ]
        target = pad(
            [
                [BOS, *self.vocabulary.encode(caption), EOS]
                for caption in scenes.captions
            ]
        )
        return CaptionBatch(torch.cat(parts), target)

    def train(
        self,
        captioner: nn.Module,
        loss: Callable[[nn.Module, CaptionBatch], Loss],
        steps: int,
        learning_rate: float = 1e-2,
    ) -> list[Record]:
        """Follow the book's recipe, with batches of 64; the history has the held-out loss every 50 steps.

        Raises:
            ValueError, FloatingPointError: as :func:`companion.training.recipe.train`.
        """
        test = self._parts()
        return recipe.train(
            CaptionerTrace(captioner),
            loss,
            self.batches(batch_size=64, seed=0),
            steps,
            learning_rate,
            lambda model: held_out(model, test, SoftAttentionLoss()),
        )

    def batches(self, batch_size: int, seed: int) -> Shuffled:
        """The training images and captions, in the order that the seed gives."""
        rows = range(len(self.training.target))
        return Shuffled(rows, lambda rows: _part(self.training, rows), batch_size, seed)

    def _parts(self) -> list[CaptionBatch]:
        rows = range(0, len(self.test.target), _AT_ONCE)
        return [_part(self.test, slice(row, row + _AT_ONCE)) for row in rows]

    def captions(self, captioner: Any) -> list[tuple[str, ...]]:
        """What it says about each test image: the most probable words, one after the other."""
        device, found = next(captioner.parameters()).device, list[tuple[str, ...]]()
        with evaluating(captioner):
            for part in self._parts():
                state = start_captions(captioner, part.annotations.to(device))
                tokens = greedy(captioner.step, state, LONGEST).tokens
                found += [tuple(self.vocabulary.decode(row)) for row in tokens]
        return found

    def exact_match(self, captioner: Any) -> float:
        """The share of test images whose caption has no mistake."""
        pairs = zip(self.captions(captioner), self.test_scenes.captions, strict=True)
        return float(np.mean([found == right for found, right in pairs]))

    def localisation(self, captioner: Any) -> Localisation:
        """How well it looks before each name of a digit, given the right words before it: the means."""
        device, measured = next(captioner.parameters()).device, list[list[Tensor]]()
        with evaluating(captioner):
            looks = [
                CaptionerTrace(captioner)(
                    CaptionBatch(*(part.to(device) for part in seen))
                )[1].weights.cpu()
                for seen in self._parts()
            ]
        rows = [row for look in looks for row in look]
        for weights, caption, boxes in zip(rows, *self.test_scenes[1:], strict=True):
            for look, box in zip(
                weights, box_of_each_word(caption, boxes), strict=False
            ):
                if box is not None:
                    hit = share_inside(one_hot(look), box) > 0
                    measured.append(
                        [share_inside(look, box), share_inside(look, box, 2), hit]
                    )
        return Localisation(*torch.tensor(measured).float().mean(0).tolist())
