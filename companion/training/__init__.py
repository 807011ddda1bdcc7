"""Training of any model: losses, the trainer, checkpoints, schedules and REINFORCE."""

from typing import TYPE_CHECKING, Any

from companion.training.losses import (
    LabelSmoothing,
    Loss,
    Record,
    evaluating,
    free_running_loss,
    label_loss,
    loss_and_perplexity,
    next_token_loss,
    sequence_loss,
    to_float32,
)
from companion.training.reinforce import (
    MovingBaseline,
    doubly_stochastic_penalty,
    reinforce_loss,
    reward_to_go,
)
from companion.training.schedules import warmup_cosine, warmup_inverse_root

if TYPE_CHECKING:
    from companion.training.trainer import Steps, Trainer, shard_batch

__all__ = [
    "LabelSmoothing",
    "Loss",
    "MovingBaseline",
    "Record",
    "Steps",
    "Trainer",
    "doubly_stochastic_penalty",
    "evaluating",
    "free_running_loss",
    "label_loss",
    "loss_and_perplexity",
    "next_token_loss",
    "reinforce_loss",
    "reward_to_go",
    "sequence_loss",
    "shard_batch",
    "to_float32",
    "warmup_cosine",
    "warmup_inverse_root",
]


def __getattr__(name: str) -> Any:
    """Import the trainer, which needs accelerate and tqdm, only when it is used."""
    if name in __all__:
        from companion.training import trainer

        return getattr(trainer, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """All names, those that are imported at their first use included."""
    return sorted({*globals(), *__all__})
