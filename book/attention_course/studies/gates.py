"""The study of chapter 12 on gates: whether a head that can be closed still needs a sink.

The texts, the sizes and the training are those of :mod:`attention_course.studies.idle_heads`;
the attention of each layer has a gate for every feature behind the softmax.

All runs take about five minutes on one CPU core.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from attention_course.studies.idle_heads import (
    LENGTH,
    PASSAGES,
    PassagesAndCopies,
    bits,
    by_passage,
    is_new,
    texts,
    with_window,
)
from attention_course.studies.longer_texts import characters
from attention_course.studies.recording import grid
from attention_course.training import recipe
from attention_course.training.losses import evaluating, next_token_loss
from companion.attention.causal import CausalAttention
from companion.attention.gated import GatedAttention
from companion.attention.recording import record_weights
from companion.attention.rotary import Rotary
from companion.layers.positional_encoding import NoPositionalEncoding
from companion.models.language_model import LanguageModel
from companion.models.llama import LlamaLayer

TITLE = "Chapter 12: passages and their copies, by a model whose heads have gates"


def build(seed: int = 0) -> LanguageModel:
    """An untrained language model of two layers of Llama, whose heads have gates."""
    torch.manual_seed(seed)
    stack = [
        LlamaLayer(
            64, 4, 172, attention=GatedAttention(64, 4, Rotary(CausalAttention()))
        )
        for _ in range(2)
    ]
    return LanguageModel(len(characters()), stack, NoPositionalEncoding())


def measure(steps: int, learning_rate: float, seed: int) -> dict[str, Any]:
    """Train one model; its weights on the first token, its gates, and its bits.

    Returns:
        ``weight``, the mean weight on the first token in each layer and head, in the new
        and in the copied characters after the first passage and its copy; ``gate``, the
        mean gate, in the same way; ``dense``, the bits per character of each passage and
        each copy; ``window``, the same with a window and no sink.
    """
    model = build(seed)
    recipe.train(model, next_token_loss, PassagesAndCopies(seed), steps, learning_rate)
    tokens = texts(True, 64, seed=9)
    opened: list[Tensor] = []
    hooks = [
        layer.attention.W_G.register_forward_hook(
            lambda linear, inputs, output: opened.append(output.sigmoid())
        )
        for layer in model.layers
    ]
    with evaluating(model), record_weights(model) as maps:
        model(tokens[:, :-1])
    for hook in hooks:
        hook.remove()
    first = [
        maps[f"layers.{number}.attention.attention"][0][:, :, :, 0].mean(0)
        for number in range(len(model.layers))
    ]
    gates = [x.unflatten(-1, (4, -1)).mean((0, 3)).T for x in opened]
    dense = by_passage(bits(model, tokens))
    with_window(model, 0)
    return {
        "weight": _by_kind(first),
        "gate": _by_kind(gates),
        "dense": dense,
        "window": by_passage(bits(model, tokens)),
    }


def _by_kind(found: list[Float[Tensor, "h n"]]) -> dict[str, list[list[float]]]:
    """The means of each head over new and over copied characters, after the first copy."""
    late = torch.arange(2 * LENGTH * PASSAGES) >= 2 * LENGTH
    return {
        name: [x[:, late & kind].mean(1).tolist() for x in found]
        for name, kind in (("new", is_new()), ("copied", ~is_new()))
    }


def settings() -> list[dict[str, Any]]:
    """The settings of all runs: what :func:`measure` is called with."""
    return grid(steps=1000, learning_rate=0.005, seed=range(2))
