"""The study of chapter 12 on heads that have nothing to do: where sinks form, and what they are for.

The texts are those of chapter 7, passages of Python's manual and their copies, three of them one
after the other, behind ``<bos>``. Heads that copy are idle in every new passage.

All runs take about a quarter of an hour on one CPU core.
"""

import math
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import cross_entropy

from attention_course.data.vocabulary import BOS
from attention_course.studies.longer_texts import articles, characters
from attention_course.studies.recording import grid
from attention_course.studies.sinks import build, window
from attention_course.training import recipe
from attention_course.training.losses import evaluating, next_token_loss
from companion.attention.recording import record_weights
from companion.attention.rotary import Rotary
from companion.models.language_model import LanguageModel

TITLE = "Chapter 12: passages and their copies, with a window of 36 positions and sinks"

LENGTH = 24  #: characters of a passage, and of its copy
PASSAGES = 3  #: in a text
KEPT = 36  #: positions to which a model with a window attends, the new one included
#: How many of them are the first ones of the text.
SINKS = (0, 1, 4)


def texts(held_out: bool, rows: int, seed: int) -> Int[Tensor, "b n"]:
    """Passages from random positions in the manual, each followed by its copy, behind ``<bos>``.

    Args:
        held_out: whether they are from the articles of the test.
    """
    tokens = torch.tensor(characters().encode(" ".join(articles(held_out))))
    generator = torch.Generator().manual_seed(seed)
    first = torch.randint(len(tokens) - LENGTH, (rows, PASSAGES), generator=generator)
    passages = tokens[first[..., None] + torch.arange(LENGTH)]  # (b, passages, length)
    both = torch.cat([passages, passages], -1).flatten(1)
    return torch.cat([both.new_full((rows, 1), BOS), both], 1)


def is_new() -> Bool[Tensor, " n"]:
    """For each prediction in a text, whether it is of a new character."""
    return torch.arange(2 * LENGTH * PASSAGES) % (2 * LENGTH) < LENGTH


class PassagesAndCopies:
    """Batches of 8 texts to train on, ``batches[step]``."""

    def __init__(self, seed: int = 0):
        self.seed = seed

    def __getitem__(self, step: int) -> Int[Tensor, "b n"]:
        """The batch of a step."""
        return texts(False, 8, 10**6 * (self.seed + 1) + step)


def with_window(model: LanguageModel, sinks: int) -> None:
    """Give a model's layers a window of :data:`KEPT` positions; their weights stay.

    Args:
        sinks: how many of the positions are the first ones of the text.
    """
    for layer in model.layers:
        layer.attention.attention = Rotary(window(KEPT, sinks))


def bits(model: LanguageModel, tokens: Int[Tensor, "b n"]) -> Float[Tensor, " m"]:
    """The mean cross-entropy in bits at each position.

    Args:
        tokens: texts, of which each token but the first is predicted.
    """
    with evaluating(model):
        logits = model(tokens[:, :-1])
        nats = cross_entropy(logits.mT, tokens[:, 1:], reduction="none")
    return nats.mean(0) / math.log(2)


def by_passage(found: Float[Tensor, " m"]) -> dict[str, list[float]]:
    """The means over each new passage, and over each copy.

    Args:
        found: a number for each position.
    """
    halves = found.view(PASSAGES, 2, LENGTH).mean(-1)
    return {"new": halves[:, 0].tolist(), "copied": halves[:, 1].tolist()}


def measure(steps: int, learning_rate: float, seed: int) -> dict[str, Any]:
    """Train one model; its weights on the first token, and its bits with every window.

    Returns:
        ``weight``, the mean weight on the first token in each layer and head, in the new
        and in the copied characters after the first passage and its copy; ``dense``, the
        bits per character of each passage and each copy; ``window``, the same with a
        window, for each of :data:`SINKS`.
    """
    model = build(2, seed)
    recipe.train(model, next_token_loss, PassagesAndCopies(seed), steps, learning_rate)
    tokens = texts(True, 64, seed=9)
    with evaluating(model), record_weights(model) as maps:
        model(tokens[:, :-1])
    late = torch.arange(2 * LENGTH * PASSAGES) >= 2 * LENGTH
    weight: dict[str, list[list[float]]] = {"new": [], "copied": []}
    for number in range(len(model.layers)):
        (weights,) = maps[f"layers.{number}.attention.attention"]
        first = weights[:, :, :, 0].mean(0)  # (h, n)
        weight["new"].append(first[:, late & is_new()].mean(1).tolist())
        weight["copied"].append(first[:, late & ~is_new()].mean(1).tolist())
    dense = by_passage(bits(model, tokens))
    windows = {}
    for sinks in SINKS:
        with_window(model, sinks)
        windows[str(sinks)] = by_passage(bits(model, tokens))
    return {"weight": weight, "dense": dense, "window": windows}


def settings() -> list[dict[str, Any]]:
    """The settings of all runs: what :func:`measure` is called with."""
    return grid(steps=1000, learning_rate=0.005, seed=range(3))
