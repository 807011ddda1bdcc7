"""A study of chapter 6: post-norm and pre-norm, with warm-up and without.

What does a warm-up do for post-norm? One explanation is that Adam's averages of the
gradients are unreliable in the first steps. The control of "averages first" gives them 40
steps at a rate of 0, in which no weight changes, and then the same rates as without warm-up.

All runs take about five minutes on one CPU core.
"""

from functools import cache
from typing import Any

import torch
from torch.optim.lr_scheduler import LambdaLR

from attention_course.data.batching import Batches, in_order
from attention_course.studies.recording import check_choice, grid
from attention_course.tasks.number_translation import narrow_transformer, short_numbers
from attention_course.tasks.translation import TranslationTask
from attention_course.training.losses import Record, loss_and_perplexity, sequence_loss
from attention_course.training.schedules import warmup_cosine
from attention_course.training.trainer import Trainer
from companion.layers.residual import PostNorm, PreNorm
from companion.models.seq2seq import EncoderDecoder

TITLE = "Chapter 6: six narrow layers on number words, with and without warm-up"
#: By name, where each sub-layer normalises, the steps of warm-up, of which 1 is none, and
#: those at a rate of 0 before all others.
VARIANTS: dict[str, tuple[type[PostNorm | PreNorm], int, int]] = {
    "post-norm, no warm-up": (PostNorm, 1, 0),
    "post-norm, warm-up": (PostNorm, 40, 0),
    "pre-norm, no warm-up": (PreNorm, 1, 0),
    "pre-norm, warm-up": (PreNorm, 40, 0),
    "post-norm, averages first": (PostNorm, 1, 40),
}


@cache
def few_words() -> TranslationTask:
    """English numbers whose French has at most eight words."""
    return short_numbers(most_words=8)


def fit(
    task: TranslationTask,
    model: EncoderDecoder,
    steps: int,
    learning_rate: float,
    warmup: int,
    held: int = 0,
) -> list[Record]:
    """Train with Adam, a warm-up, and half a cosine to zero; the history.

    It trains on a GPU if there is one, and leaves the model where it was.

    Args:
        task: has the training pairs.
        model: the model to train.
        steps: of training, with 64 pairs each.
        learning_rate: the highest rate.
        warmup: its steps; 1 is none.
        held: so many steps more, before the others, at a rate of 0: they change Adam's
            averages and no weight.
    """
    device = next(model.parameters()).device
    optimizer = torch.optim.Adam(model.parameters(), learning_rate, betas=(0.9, 0.98))
    batches = Batches(task.encode(task.training_pairs), batch_size=64, seed=0)
    rate = warmup_cosine(optimizer, warmup, steps).lr_lambdas[0]
    schedule = LambdaLR(optimizer, lambda step: 0 if step < held else rate(step - held))
    trainer = Trainer(model, optimizer, sequence_loss, schedule)
    try:
        return trainer.fit(batches, held + steps, every=10)
    finally:
        model.to(device)


def validation_loss(task: TranslationTask, model: EncoderDecoder) -> float:
    """The loss per token on the validation set."""
    batches = [batch for _, batch in in_order(task.encode(task.validation_pairs), 256)]
    return loss_and_perplexity(model, batches)["held_out_loss"]


def train(
    variant: str, steps: int, learning_rate: float, seed: int
) -> tuple[EncoderDecoder, list[Record]]:
    """Six layers of 32 dimensions on each side, trained; and the history.

    Args:
        variant: one of :data:`VARIANTS`.
        steps, learning_rate, seed: of the training.

    Raises:
        ValueError: there is no such variant.
    """
    check_choice("variant", variant, VARIANTS)
    residual, warmup, held = VARIANTS[variant]
    model = narrow_transformer(few_words(), residual, layers=6, d_model=32, seed=seed)
    return model, fit(few_words(), model, steps, learning_rate, warmup, held)


def measure(
    variant: str, steps: int, learning_rate: float, seed: int
) -> dict[str, float]:
    """Train one model; its validation loss."""
    model, _ = train(variant, steps, learning_rate, seed)
    return {"validation_loss": validation_loss(few_words(), model)}


def settings() -> list[dict[str, Any]]:
    """The settings of all runs: what :func:`measure` is called with."""
    *every, averages = VARIANTS
    without, warmed, *_ = every
    low = [0.001, 0.002, 0.01]
    return [
        *grid(variant=every, steps=80, learning_rate=0.01, seed=range(3)),
        *grid(variant=every, steps=80, learning_rate=[0.002, 0.005, 0.02], seed=0),
        *grid(variant=without, steps=240, learning_rate=low, seed=0),
        *grid(variant=warmed, steps=240, learning_rate=[0.002, 0.005], seed=0),
        *grid(variant=averages, steps=80, learning_rate=0.01, seed=range(3)),
        *grid(variant=averages, steps=80, learning_rate=[0.005, 0.02], seed=0),
    ]
