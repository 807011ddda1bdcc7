"""Training of any model: losses, the trainer, checkpoints and schedules."""

from typing import TYPE_CHECKING, Any

from attention_course.training.caption_losses import (
    CaptionBatch,
    CaptionerTrace,
    HardAttentionLoss,
    SoftAttentionLoss,
    start_captions,
)
from attention_course.training.losses import (
    LabelSmoothing,
    Record,
    evaluating,
    free_running_loss,
    label_loss,
    loss_and_perplexity,
    next_token_loss,
    sequence_loss,
)
from attention_course.training.schedules import warmup_cosine, warmup_inverse_root

if TYPE_CHECKING:
    from attention_course.training.trainer import Steps, Trainer, shard_batch

__all__ = [
    "CaptionBatch",
    "CaptionerTrace",
    "HardAttentionLoss",
    "LabelSmoothing",
    "Record",
    "SoftAttentionLoss",
    "Steps",
    "Trainer",
    "evaluating",
    "free_running_loss",
    "label_loss",
    "loss_and_perplexity",
    "next_token_loss",
    "sequence_loss",
    "shard_batch",
    "start_captions",
    "warmup_cosine",
    "warmup_inverse_root",
]


def __getattr__(name: str) -> Any:
    """Import the trainer, which needs accelerate and tqdm, only when it is used."""
    if name in __all__:
        from attention_course.training import trainer

        return getattr(trainer, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """All names, those that are imported at their first use included."""
    return sorted({*globals(), *__all__})
