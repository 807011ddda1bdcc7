"""The study of chapter 13 on recall: what a state of constant size can look up.

The task is that of chapter 3, a list of facts and questions about them, asked in sequence.
Of the facts, linear attention and the delta rule keep a matrix for each head, and softmax
attention all keys and values.

All runs take about fifteen minutes on one CPU core.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from attention_course.studies.recording import check_choice, grid
from attention_course.tasks.lookups import (
    D_MODEL,
    DIGITS,
    LookupBatches,
    LookupModel,
    answered,
    lookup_loss,
    lookups,
)
from attention_course.training import recipe
from attention_course.training.losses import Record
from companion.attention.base import Attention
from companion.attention.causal import CausalAttention
from companion.attention.delta import DeltaAttention
from companion.attention.linear import CausalLinearAttention

__all__ = ["DIGITS", "D_MODEL", "MODELS", "PAIRS", "build", "measure", "settings"]

TITLE = "Chapter 13: lookups of many facts, by softmax attention and by matrices"

#: The names of the attentions.
ATTENTIONS: dict[str, Callable[[], Attention]] = {
    "softmax": CausalAttention,
    "linear": CausalLinearAttention,
    "delta": DeltaAttention,
}
#: How many facts there are in the texts of the test; those in training have any number of
#: facts up to the largest.
PAIRS = (4, 8, 16, 32, 64)
#: The learning rates at which each model is trained, by its attention and number of heads.
#: The last two are controls.
RATES = {
    ("softmax", 4): (0.005, 0.01),
    ("linear", 1): (0.005, 0.01, 0.02),
    ("linear", 4): (0.005, 0.01, 0.02),
    ("linear", 16): (0.005, 0.01, 0.02, 0.04),
    ("softmax", 16): (0.01,),
    ("delta", 16): (0.01, 0.02),
}
SEEDS = {
    ("softmax", 16): 2,
    ("delta", 16): 1,
}  #: of the controls; all others have three
MODELS = tuple(RATES)  #: the attention and the number of heads of each model


def build(attention: str, heads: int, seed: int = 0) -> LookupModel:
    """An untrained model; the number of heads changes no parameter but the delta rule's gates.

    Args:
        attention: one of :data:`ATTENTIONS`.
        heads: among which the features are divided. The state of linear attention has
            ``heads · (64 / heads)² = 64² / heads`` numbers besides its normaliser.
    """
    check_choice("attention", attention, ATTENTIONS)
    torch.manual_seed(seed)
    return LookupModel(ATTENTIONS[attention](), heads)


def measure(
    attention: str, heads: int, steps: int, learning_rate: float, seed: int
) -> dict[str, Any]:
    """Train one model; its accuracy by the number of facts.

    Returns:
        ``validation``, the accuracy with the most facts after every 50 steps; ``test``, that
        for each of :data:`PAIRS`, with 4,000 questions each.
    """
    model = build(attention, heads, seed)
    validation = lookups(125, max(PAIRS), seed=1)

    def evaluate(model: nn.Module) -> Record:
        return {"accuracy": answered(model, validation)}

    batches = LookupBatches(seed, max(PAIRS))
    history = recipe.train(model, lookup_loss, batches, steps, learning_rate, evaluate)
    tests = [lookups(250, pairs, seed=100 + pairs) for pairs in PAIRS]
    return {
        "validation": [record["accuracy"] for record in history],
        "test": [answered(model, test) for test in tests],
    }


def settings() -> list[dict[str, Any]]:
    """The settings of all runs: what :func:`measure` is called with."""
    return [
        {"attention": attention, "heads": heads, **rest}
        for (attention, heads), rates in RATES.items()
        for rest in grid(
            steps=600,
            learning_rate=rates,
            seed=range(SEEDS.get((attention, heads), 3)),
        )
    ]
