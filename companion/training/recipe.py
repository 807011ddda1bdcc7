"""The recipe by which the book's small models are trained, whatever they do."""

from collections.abc import Callable
from typing import Any

from torch import nn
from torch.optim import Adam

from companion.training.losses import Loss, Record
from companion.training.schedules import warmup_cosine
from companion.training.trainer import Steps, Trainer


def train(
    model: nn.Module,
    loss: Callable[[nn.Module, Any], Loss],
    batches: Steps,
    steps: int,
    learning_rate: float,
    evaluate: Callable[[nn.Module], Record] | None = None,
) -> list[Record]:
    """Adam, at a rate that rises for 50 steps and falls to 0; the history has a record every 50 steps.

    It trains on a GPU where there is one, and whatever happens leaves the model on the device where it was.

    Raises:
        ValueError: ``steps`` is below 1.
        FloatingPointError: a loss or gradient is not finite, for instance because the rate is too high.
    """
    device = next(model.parameters()).device
    optimizer = Adam(model.parameters(), learning_rate, betas=(0.9, 0.98))
    schedule = warmup_cosine(optimizer, min(50, steps), steps)
    try:
        return Trainer(model, optimizer, loss, schedule).fit(
            batches, steps, evaluate, every=50
        )
    finally:
        model.to(device)
