"""The study of chapter 12 on attention sinks: what a window loses with the first tokens.

Small language models with layers as in Llama read 128 characters of Python's manual in
training, from ``<bos>`` on or without it. In the test they read 512, with a cache of
32 positions: the last ones alone, or some of the first ones too.

All runs take about fifteen minutes on one CPU core.
"""

import math
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import cross_entropy

from attention_course.data.vocabulary import BOS
from attention_course.studies.longer_texts import (
    Passages,
    bits_by_position,
    characters,
    passages_for_test,
)
from attention_course.studies.recording import check_choice, grid
from attention_course.training import recipe
from attention_course.training.losses import evaluating, next_token_loss
from companion.attention.recording import record_weights
from companion.attention.rotary import CacheRotary
from companion.attention.sliding_window import SinkAttention, SlidingWindowAttention
from companion.layers.positional_encoding import NoPositionalEncoding
from companion.models.language_model import LanguageModel
from companion.models.llama import LlamaLayer

TITLE = (
    "Chapter 12: language models with a cache of 32 positions, with and without sinks"
)

#: With what a text begins.
STARTS = ("nothing", "<bos>")
TRAINED = 128  #: characters that a model reads in training
LONGEST = 512  #: and in the test
CACHE = 32  #: positions to which a model attends, the new one included
#: How many of them are the first ones of the text.
SINKS = (0, 1, 4)
#: The first position of each range and the one after its last.
SPANS = (
    *((0, 16), (16, 32), (32, 48), (48, 64), (64, 96), (96, 128)),
    *((128, 192), (192, 256), (256, 384), (384, 512)),
)


class Texts:
    """Batches to train on: passages that begin with ``<bos>`` or not, ``batches[step]``.

    Args:
        start: one of :data:`STARTS`.
    """

    def __init__(self, start: str, seed: int = 0):
        self.start = start
        self._passages = Passages(TRAINED, rows=8, seed=seed)

    def __getitem__(self, step: int) -> Int[Tensor, "b n"]:
        """The batch of a step."""
        return begun(self._passages[step], self.start)


def begun(passages: Int[Tensor, "b n"], start: str) -> Int[Tensor, "b n"]:
    """Passages as they are, or behind ``<bos>`` and without their last character.

    Args:
        passages: texts of one length, which they keep.
        start: one of :data:`STARTS`.
    """
    check_choice("start", start, STARTS)
    if start == "nothing":
        return passages
    first = passages.new_full((len(passages), 1), BOS)
    return torch.cat([first, passages[:, :-1]], 1)


def build(layers: int, seed: int = 0) -> LanguageModel:
    """An untrained language model with layers of Llama, of 64 features and four heads."""
    torch.manual_seed(seed)
    stack = [LlamaLayer(64, 4, 172) for _ in range(layers)]
    return LanguageModel(len(characters()), stack, NoPositionalEncoding())


def window(positions: int, sinks: int) -> SlidingWindowAttention:
    """Attention to some positions, of which the first ones of the text are a part.

    Args:
        positions: how many, the new one included.
        sinks: how many of them are the first ones; there may be none.
    """
    if sinks:
        return SinkAttention(positions - sinks, sinks)
    return SlidingWindowAttention(positions)


def with_cache(model: LanguageModel, sinks: int) -> None:
    """Give a model's layers a cache of :data:`CACHE` positions; their weights stay.

    Args:
        sinks: how many of the positions are the first ones of the text.
    """
    for layer in model.layers:
        layer.attention.attention = CacheRotary(window(CACHE, sinks))


def bits_by_step(
    model: LanguageModel, passages: Int[Tensor, "b n"]
) -> Float[Tensor, " m"]:
    """As :func:`~attention_course.studies.longer_texts.bits_by_position`, character by character."""
    found = []
    with evaluating(model):
        state = model.start(passages[:, :0])
        for token, following in zip(passages.T[:-1], passages.T[1:], strict=True):
            logits, state, _ = model.step(token, state)
            found.append(cross_entropy(logits, following) / math.log(2))
    return torch.stack(found)


def weights_on_first(
    model: LanguageModel, passages: Int[Tensor, "b n"]
) -> list[list[float]]:
    """The mean weight on the first token in each layer and head, from the 33rd position on."""
    with evaluating(model), record_weights(model) as maps:
        model(passages)
    found = []
    for number in range(len(model.layers)):
        (weights,) = maps[f"layers.{number}.attention.attention"]
        found.append(weights[:, :, CACHE:, 0].mean((0, 2)).tolist())
    return found


def measure(
    start: str, layers: int, steps: int, learning_rate: float, seed: int
) -> dict[str, Any]:
    """Train one model; its bits per character with every cache, and its weights.

    Returns:
        ``weight``, the mean weight on the first token in each layer and head, from
        position 32 to the trained length; ``full``, the bits per character in each of
        :data:`SPANS`, with attention to all that was read; ``kept``, the same with a cache,
        for each of :data:`SINKS`.
    """
    model = build(layers, seed)
    batches = Texts(start, seed)
    recipe.train(model, next_token_loss, batches, steps, learning_rate)
    passages = begun(passages_for_test(LONGEST, LONGEST), start)
    weight = weights_on_first(model, passages[:, :TRAINED])
    full = bits_by_position(model, passages)
    kept = {}
    for sinks in SINKS:
        with_cache(model, sinks)
        kept[str(sinks)] = _by_span(bits_by_step(model, passages))
    return {"weight": weight, "full": _by_span(full), "kept": kept}


def _by_span(bits: Float[Tensor, " m"]) -> list[float]:
    return [bits[first:end].mean().item() for first, end in SPANS]


def settings() -> list[dict[str, Any]]:
    """The settings of all runs: what :func:`measure` is called with."""
    usual: dict[str, Any] = {"layers": 3, "steps": 1500, "learning_rate": 0.005}
    return grid(start=[*STARTS], **usual, seed=range(2))
