"""The training recipe of the small models of the chapters: optimiser and schedule."""

from collections.abc import Callable
from typing import Any

from torch import nn
from torch.optim import Adam

from attention_course.training.losses import Record
from attention_course.training.schedules import warmup_cosine
from attention_course.training.trainer import Steps, Trainer
from companion.losses.tokens import Loss


def train(
    model: nn.Module,
    loss: Callable[[nn.Module, Any], Loss],
    batches: Steps,
    steps: int,
    learning_rate: float,
    evaluate: Callable[[nn.Module], Record] | None = None,
) -> list[Record]:
    """Adam with 50 steps of warm-up and a cosine decay to 0; a record every 50 steps.

    It trains on a GPU if there is one. In the end, or after an error, the model is back
    on the device where it was.

    Args:
        loss: from the model and a batch to a loss.
        batches: ``batches[step]`` is the batch of a step.
        evaluate: figures of the model for each record.

    Returns:
        The history, as :meth:`Trainer.fit <attention_course.training.trainer.Trainer.fit>`.

    Raises:
        ValueError: ``steps`` is below 1.
        FloatingPointError: a loss or gradient is not finite, for example because the
            rate is too high.
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
