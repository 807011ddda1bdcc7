"""The study of chapter 12 on slower rotations, for texts that are longer than in training.

The model with rotary positions of :mod:`attention_course.studies.longer_texts` is trained as there, on
128 characters at a time. Then its rotations are made slower for texts of 1,024, and it is
tested as it is, and again after a few steps of training on such texts.

All runs take about six minutes on one CPU core.
"""

from copy import deepcopy
from typing import Any

from torch import nn

from attention_course.studies.longer_texts import (
    LONGEST,
    SPANS,
    Passages,
    bits_by_position,
    build,
    passages_for_test,
)
from attention_course.studies.recording import grid
from attention_course.training import recipe
from attention_course.training.losses import next_token_loss
from companion.attention.causal import CausalAttention
from companion.attention.rotary import (
    Rotary,
    rotary_frequencies,
    yarn_frequencies,
    yarn_temperature,
)

TITLE = (
    "Chapter 12: rotations made slower for texts eight times longer than in training"
)

TRAINED = 128  #: characters that a model reads in training
SCALE = LONGEST // TRAINED
_SIZE = 16  # features of a head
#: Turns in a trained text from which YaRN leaves a pair as it is; 32 in the paper.
FAST = 4.0


def stretched(way: str) -> Rotary:
    """Rotary attention for longer texts: unchanged, or with slower rotations.

    Args:
        way: one of :data:`WAYS`.
    """
    trained = rotary_frequencies(_SIZE)
    t = yarn_temperature(SCALE)
    sharp = CausalAttention(scale=1 / (t * _SIZE**0.5))
    ways = {
        "unchanged": lambda: Rotary(CausalAttention()),
        # so that the slowest pair turns SCALE times more slowly
        "larger base": lambda: Rotary(
            CausalAttention(), 10000.0 * SCALE ** (_SIZE / (_SIZE - 2))
        ),
        "interpolation": lambda: Rotary(CausalAttention(), frequencies=trained / SCALE),
        "YaRN": lambda: Rotary(
            sharp, frequencies=yarn_frequencies(trained, SCALE, TRAINED, fast=FAST)
        ),
        "YaRN, fast = 32": lambda: Rotary(
            sharp, frequencies=yarn_frequencies(trained, SCALE, TRAINED)
        ),
    }
    return ways[way]()


WAYS = ("unchanged", "larger base", "interpolation", "YaRN", "YaRN, fast = 32")


def by_span(model: nn.Module) -> list[float]:
    """The mean bits per character in each of the spans of the test."""
    bits = bits_by_position(model, passages_for_test(LONGEST))
    return [bits[first:end].mean().item() for first, end in SPANS]


def measure(
    steps: int, more: int, learning_rate: float, slower_rate: float, seed: int
) -> dict[str, Any]:
    """Train one model; its bits per character by position, in every way.

    Returns:
        ``test``, for each of :data:`WAYS` the mean bits per character in each span;
        ``tuned``, the same after ``more`` steps on texts of 1,024 characters, which have
        as many characters in a batch.
    """
    model = build("rotary", seed)
    batches = Passages(TRAINED, rows=16, seed=seed)
    recipe.train(model, next_token_loss, batches, steps, learning_rate)
    test, tuned = {}, {}
    for way in WAYS:
        longer = deepcopy(model)
        for layer in longer.layers:
            layer.attention.attention = stretched(way)
        test[way] = by_span(longer)
        passages = Passages(LONGEST, rows=16 // SCALE, seed=seed + 100)
        recipe.train(longer, next_token_loss, passages, more, slower_rate)
        tuned[way] = by_span(longer)
    return {"test": test, "tuned": tuned}


def settings() -> list[dict[str, Any]]:
    """The settings of all runs: what :func:`measure` is called with."""
    usual: dict[str, Any] = {"steps": 1000, "more": 100, "learning_rate": 0.005}
    return grid(**usual, slower_rate=0.001, seed=range(3))
