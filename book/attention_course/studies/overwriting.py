"""The study of chapter 13 on overwriting: every fact is stated twice, and the last one counts.

All runs take about fifteen minutes on one CPU core.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from attention_course.studies.recording import check_choice, grid
from attention_course.tasks.lookups import (
    DIGITS,
    LookupBatches,
    LookupModel,
    answered,
    lookup_loss,
    overwritten,
)
from attention_course.training import recipe
from attention_course.training.losses import Record
from companion.attention.base import Attention
from companion.attention.causal import CausalAttention
from companion.attention.decay import GatedDecayAttention, chunked_decay_attention
from companion.attention.delta import DeltaAttention, GatedDeltaAttention
from companion.attention.linear import CausalLinearAttention
from companion.attention.linear_bias import ALiBi

__all__ = ["DIGITS", "FACTS", "MODELS", "RATES", "measure", "settings"]

TITLE = "Chapter 13: facts that are stated twice, and the last statement counts"
HEADS = 4  #: of every model, with 16 dimensions each
#: How many facts there are in the texts of the test; those in training have any number of
#: facts up to the largest.
FACTS = (2, 4, 8, 16)
RATES = (0.0025, 0.005, 0.01, 0.02, 0.04)  #: the learning rates of the sweep


class WriteGate(DeltaAttention):
    """The delta rule without its subtraction: a gate for what is written, and a plain sum.

    ::

        S_i = S_(i−1) + β_i k_i v_iᵀ

    Its weights are those of the delta rule, so that only contexts may be used.
    """

    def recur(
        self, query: Tensor, key: Tensor, value: Tensor, *gates: Any, **options: Any
    ) -> tuple[Tensor, Tensor]:
        """A sum over the positions, in chunks."""
        (beta,) = gates
        written, nothing = beta.unsqueeze(-1) * value, torch.zeros_like(beta)
        return chunked_decay_attention(query, key, written, nothing, **options)


#: The names of the models, and their attentions.
MODELS: dict[str, Callable[[], Attention]] = {
    "softmax": CausalAttention,
    "softmax, ALiBi": lambda: ALiBi(HEADS),
    "linear": CausalLinearAttention,
    "write gate": WriteGate,
    "decay": GatedDecayAttention,
    "delta": DeltaAttention,
    "gated delta": GatedDeltaAttention,
}


def build(model: str, seed: int = 0) -> LookupModel:
    """An untrained model, one of :data:`MODELS`."""
    check_choice("model", model, MODELS)
    torch.manual_seed(seed)
    return LookupModel(MODELS[model](), HEADS)


def measure(model: str, steps: int, learning_rate: float, seed: int) -> dict[str, Any]:
    """Train one model; its accuracy by the number of facts.

    Returns:
        ``validation``, the accuracy with the most facts after every 50 steps; ``test``, that
        for each of :data:`FACTS`, with 4,000 questions each.
    """
    built = build(model, seed)
    validation = overwritten(125, max(FACTS), seed=1)

    def evaluate(model: nn.Module) -> Record:
        return {"accuracy": answered(model, validation)}

    batches = LookupBatches(seed, max(FACTS), overwritten)
    history = recipe.train(built, lookup_loss, batches, steps, learning_rate, evaluate)
    tests = [overwritten(250, facts, seed=100 + facts) for facts in FACTS]
    return {
        "validation": [record["accuracy"] for record in history],
        "test": [answered(built, test) for test in tests],
    }


def settings() -> list[dict[str, Any]]:
    """The settings of all runs: what :func:`measure` is called with."""
    return grid(model=list(MODELS), steps=600, learning_rate=list(RATES), seed=range(3))
