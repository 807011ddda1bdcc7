"""A small captioning task, as chapter 4 uses it: scenes as an encoder sees them, a recipe, and scores."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor, nn
from torch.optim import Adam

from companion.caption_loss import LONGEST, Seen, SoftLoss, Traced, start
from companion.data.scenes import WORDS, Scenes, box_of_each_word, share_inside
from companion.data.vocabulary import BOS, EOS, PAD, Vocabulary, pad
from companion.decoding import greedy
from companion.hard import one_hot
from companion.losses import Loss, Record, evaluating, held_out
from companion.schedule import warmup_cosine
from companion.training import Trainer

AT_ONCE = 250


class Shuffled:
    """Training batches without end, each epoch in another order.

    ``batches[step]`` is a pure function of the step and of what the constructor was given.
    """

    def __init__(self, seen: Seen, batch_size: int, seed: int):
        self.seen, self.batch_size, self.seed = seen, batch_size, seed
        self.steps_in_epoch = -(-len(seen.target) // batch_size)

    def __getitem__(self, step: int) -> Seen:
        """The batch of this step, counted from 0 over all epochs."""
        epoch, position = divmod(step, self.steps_in_epoch)
        order = np.random.default_rng([self.seed, epoch]).permutation(len(self.seen.target))
        return _part(self.seen, torch.from_numpy(order[position * self.batch_size :][: self.batch_size]))


def _part(seen: Seen, rows: Int[Tensor, " n"] | slice) -> Seen:
    """Some of the images, with no more padding than their captions need."""
    target = seen.target[rows]
    return Seen(seen.annotations[rows], target[:, : int((target != PAD).sum(1).max())])


class Gaze(NamedTuple):
    """Of the weight of the looks before each digit's name: in its box, within two pixels; and the hits.

    A hit is a look whose largest weight lies on a field that touches the box.
    """

    inside: float
    near: float
    hits: float


class Captioning:
    """Scenes to train on and others to test with, as an encoder sees them that no longer learns.

    A captioner is a decoder such as :class:`companion.captioner.Captioner`. The encoder is shown each image
    once, so that a step of training costs only the decoder's part.
    """

    def __init__(self, encoder: nn.Module, train: Scenes, test: Scenes):
        self.vocabulary = Vocabulary(WORDS)
        self.test_scenes = test
        self.training, self.test = (self._see(encoder, scenes) for scenes in (train, test))

    def _see(self, encoder: nn.Module, scenes: Scenes) -> Seen:
        device = next(encoder.parameters()).device
        with evaluating(encoder):
            parts = [encoder(part.to(device))[0].cpu() for part in scenes.images.split(AT_ONCE)]
        target = pad([[BOS, *self.vocabulary.encode(caption), EOS] for caption in scenes.captions])
        return Seen(torch.cat(parts), target)

    def train(
        self,
        captioner: nn.Module,
        loss: Callable[[nn.Module, Seen], Loss],
        steps: int,
        learning_rate: float = 1e-2,
    ) -> list[Record]:
        """The recipe of the book's captioners; the history has the held-out loss every 50 steps.

        It trains on a GPU where there is one, and leaves the captioner on the device where it was.
        """
        device = next(captioner.parameters()).device
        optimizer = Adam(captioner.parameters(), learning_rate, betas=(0.9, 0.98))
        schedule = warmup_cosine(optimizer, warmup=min(50, steps), steps=steps)
        trainer = Trainer(Traced(captioner), optimizer, loss, schedule)
        batches, test = Shuffled(self.training, batch_size=64, seed=0), self._parts()
        history = trainer.fit(batches, steps, lambda model: held_out(model, test, SoftLoss()), every=50)
        captioner.to(device)
        return history

    def _parts(self) -> list[Seen]:
        rows = range(0, len(self.test.target), AT_ONCE)
        return [_part(self.test, slice(row, row + AT_ONCE)) for row in rows]

    def captions(self, captioner: Any) -> list[tuple[str, ...]]:
        """What it says about each test image: the most probable words, one after the other."""
        device, found = next(captioner.parameters()).device, list[tuple[str, ...]]()
        with evaluating(captioner):
            for part in self._parts():
                state = start(captioner, part.annotations.to(device))
                tokens = greedy(captioner.step, state, LONGEST).tokens
                found += [tuple(self.vocabulary.decode(row)) for row in tokens]
        return found

    def exact_match(self, captioner: Any) -> float:
        """The share of test images whose caption has no mistake."""
        pairs = zip(self.captions(captioner), self.test_scenes.captions, strict=True)
        return float(np.mean([found == right for found, right in pairs]))

    def gaze(self, captioner: Any) -> Gaze:
        """How well it looks before each name of a digit, given the right words before it: the means."""
        device, measured = next(captioner.parameters()).device, list[list[Tensor]]()
        with evaluating(captioner):
            looks = [
                Traced(captioner)(Seen(*(part.to(device) for part in seen)))[1].weights.cpu()
                for seen in self._parts()
            ]
        rows = [row for look in looks for row in look]
        for weights, caption, boxes in zip(rows, *self.test_scenes[1:], strict=True):
            for look, box in zip(weights, box_of_each_word(caption, boxes), strict=False):
                if box is not None:
                    hit = share_inside(one_hot(look), box) > 0
                    measured.append([share_inside(look, box), share_inside(look, box, 2), hit])
        return Gaze(*torch.tensor(measured).float().mean(0).tolist())
