"""The study of chapter 13 on selection: facts that are out of reach of a window.

All runs take about three minutes on one CPU core.
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
    lookups,
)
from attention_course.training import recipe
from attention_course.training.losses import Record
from companion.attention.base import Attention
from companion.attention.causal import CausalAttention
from companion.attention.selection import BlockSelectionAttention
from companion.attention.sliding_window import SlidingWindowAttention
from companion.attention.types import Mask, Positions

__all__ = ["BLOCK", "DIGITS", "FACTS", "MODELS", "WINDOW", "measure", "settings"]

TITLE = "Chapter 13: lookups among up to 128 facts, by a window and by selected blocks"
BLOCK, WINDOW = 8, 16
#: How many facts there are in the texts of the test; those in training have any number of
#: facts up to the largest.
FACTS = (16, 32, 64, 128)
RATES = (0.01,)  #: the learning rates


class RandomBlocks(BlockSelectionAttention):
    """As many blocks as are selected, chosen at random and not by their keys."""

    def block_scores(
        self, query: Tensor, key: Tensor, mask: Mask, position: Positions
    ) -> Tensor:
        """Random numbers; −∞ where there is no block to be chosen."""
        scores = super().block_scores(query, key, mask, position)
        return torch.rand_like(scores).where(scores > -torch.inf, scores)


#: The names of the models, and their attentions.
MODELS: dict[str, Callable[[], Attention]] = {
    "full": CausalAttention,
    "window": lambda: SlidingWindowAttention(WINDOW + 2 * BLOCK),
    "2 blocks at random": lambda: RandomBlocks(BLOCK, 2, WINDOW),
    "2 blocks": lambda: BlockSelectionAttention(BLOCK, 2, WINDOW),
    "4 blocks": lambda: BlockSelectionAttention(BLOCK, 4, WINDOW),
}


def build(model: str, seed: int = 0) -> LookupModel:
    """An untrained model with one head, one of :data:`MODELS`."""
    check_choice("model", model, MODELS)
    torch.manual_seed(seed)
    return LookupModel(MODELS[model](), heads=1)


def measure(model: str, steps: int, learning_rate: float, seed: int) -> dict[str, Any]:
    """Train one model; its accuracy by the number of facts.

    Returns:
        ``validation``, the accuracy with the most facts after every 50 steps; ``test``, that
        for each of :data:`FACTS`, with 3,200 questions each.
    """
    built = build(model, seed)
    validation = lookups(100, max(FACTS), seed=1)

    def evaluate(model: nn.Module) -> Record:
        return {"accuracy": answered(model, validation)}

    batches = LookupBatches(seed, max(FACTS))
    history = recipe.train(built, lookup_loss, batches, steps, learning_rate, evaluate)
    tests = [lookups(200, facts, seed=100 + facts) for facts in FACTS]
    return {
        "validation": [record["accuracy"] for record in history],
        "test": [answered(built, test) for test in tests],
    }


def settings() -> list[dict[str, Any]]:
    """The settings of all runs: what :func:`measure` is called with."""
    return grid(model=list(MODELS), steps=400, learning_rate=list(RATES), seed=range(3))
