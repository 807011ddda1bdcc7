"""The study of chapter 1: translators with a vector of fixed size, and the order of the source.

All runs take about six minutes on one CPU core.
"""

from functools import cache
from typing import Any

import torch

from attention_course.data.vocabulary import BOS, EOS, PAD, pad
from attention_course.studies.recording import grid
from attention_course.tasks.number_translation import french_numbers
from attention_course.tasks.translation import TranslationTask
from companion.models.seq2seq import (
    ChoDecoder,
    ChoEncoder,
    EncoderDecoder,
    LSTMEncoder,
    SutskeverDecoder,
    SutskeverEncoder,
)

TITLE = "Chapter 1: English numbers into French through a vector of fixed size"
#: The models.
MODELS = ("LSTM, reversed", "LSTM, forwards", "GRU (Cho)")
#: The ranges of French words by which exact match is split.
LENGTHS = ((2, 4), (5, 8), (9, 12), (13, 16), (17, 20), (21, 27))
#: The tokens of the target by which the accuracy per token is split: first, and one past the last.
PARTS = ((0, 4), (4, 12), (12, 20))


@cache
def _task() -> TranslationTask:
    return french_numbers()


def build(model: str, seed: int) -> EncoderDecoder:
    """An untrained model, one of :data:`MODELS`."""
    torch.manual_seed(seed)
    source, target = len(_task().source), len(_task().target)
    if model == "GRU (Cho)":
        return EncoderDecoder(
            ChoEncoder(source, 32, 54, pad=PAD), ChoDecoder(target, 32, 54, 54)
        )
    encoder = SutskeverEncoder if model == "LSTM, reversed" else LSTMEncoder
    return EncoderDecoder(
        encoder(source, 32, 64, layers=1, pad=PAD),
        SutskeverDecoder(target, 32, 64, layers=1),
    )


@torch.no_grad()
def accuracy_of_tokens(task: TranslationTask, model: EncoderDecoder) -> list[float]:
    """The fraction of test tokens that is right under teacher forcing, for each of :data:`PARTS`."""
    source = pad([task.source.encode(pair.source) for pair in task.test_pairs])
    target = pad(
        [[BOS, *task.target.encode(pair.target), EOS] for pair in task.test_pairs]
    )
    following = target[:, 1:]
    right = model.eval()(source, target[:, :-1]).argmax(-1) == following
    return [
        right[:, first:end][following[:, first:end] != PAD].float().mean().item()
        for first, end in PARTS
    ]


def measure(
    model: str, steps: int, learning_rate: float, seed: int
) -> dict[str, list[Any]]:
    """Train one model.

    Args:
        model: one of :data:`MODELS`.
        steps, learning_rate, seed: of the training.

    Returns:
        ``history``, the validation loss per token after every 50 steps; ``test``, the exact match
        for each of :data:`LENGTHS`; and ``tokens``, see :func:`accuracy_of_tokens`.
    """
    trained = build(model, seed)
    history = _task().train(trained, steps, learning_rate)
    return {
        "history": [{x: one[x] for x in ("step", "held_out_loss")} for one in history],
        "test": _task().exact_match(trained, LENGTHS),
        "tokens": accuracy_of_tokens(_task(), trained),
    }


def settings() -> list[dict[str, Any]]:
    """The settings of all runs: what :func:`measure` is called with."""
    return [
        *grid(model=MODELS, steps=800, learning_rate=0.02, seed=range(3)),
        *grid(model=MODELS[1], steps=800, learning_rate=[0.01, 0.04], seed=0),
        *grid(model=MODELS[2], steps=3_200, learning_rate=0.02, seed=0),
    ]
