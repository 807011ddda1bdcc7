"""The study of chapter 5: when global attention (general) and local-p learn, and when not.

All runs take about five minutes on one CPU core.
"""

from typing import Any

import torch

from attention_course.data.vocabulary import PAD
from attention_course.studies.recording import check_choice, grid
from attention_course.tasks.letter_copying import two_letters
from attention_course.tasks.number_translation import short_numbers
from companion.attention.base import Attention
from companion.attention.local import LocalP
from companion.attention.scores import Bilinear
from companion.models.luong import LuongDecoder, LuongEncoder
from companion.models.seq2seq import EncoderDecoder

TITLE = "Chapter 5: number words from English to French, and copies of two letters"
#: The ranges by which exact match is split.
RANGES = {
    "numbers": [(1, 20)],
    "copying": [(10, 14), (15, 19), (20, 25), (26, 32), (33, 40)],
}


def attention_of(name: str) -> Attention:
    """The attention ``general``, or ``local-p`` with a radius of 4, for 64 dimensions.

    Args:
        name: one of the two.
    """
    check_choice("attention", name, ["general", "local-p"])
    general = Bilinear(64, 64)
    return LocalP(general, 4, 64) if name == "local-p" else general


def measure(
    task: str,
    attention: str,
    deviation: float,
    learning_rate: float,
    steps: int,
    seed: int,
) -> dict[str, Any]:
    """Train one model; its exact match on the test set, and its validation loss.

    Args:
        task: ``numbers`` or ``copying``.
        deviation: the standard deviation of the initial output layer: 0.2, as in
            :class:`~companion.models.luong.LuongDecoder`, or 0.07, as in
            ``torch.nn.Linear``.
    """
    check_choice("task", task, RANGES)
    check_choice("deviation", deviation, [0.2, 0.07])
    data = two_letters(600) if task == "copying" else short_numbers()
    torch.manual_seed(seed)
    encoder = LuongEncoder(len(data.source), 32, 64, layers=1, pad=PAD)
    decoder = LuongDecoder(len(data.target), 32, 64, attention_of(attention), layers=1)
    model = EncoderDecoder(encoder, decoder)
    if deviation == 0.07:
        decoder.output.reset_parameters()
    history = data.train(model, steps, learning_rate)
    return {
        "test": data.exact_match(model, RANGES[task]),
        "validation_loss": history[-1]["held_out_loss"],
    }


def settings() -> list[dict[str, Any]]:
    """The settings of all runs: what :func:`measure` is called with."""
    hyperparameters = [  # deviation, learning rate, steps
        (0.2, 0.015, 250),
        (0.2, 0.03, 250),
        (0.2, 0.03, 500),
        (0.07, 0.015, 250),
        (0.07, 0.015, 500),
        (0.07, 0.03, 250),
    ]
    numbers = [
        run
        for deviation, rate, steps in hyperparameters
        for run in grid(
            task="numbers",
            attention=["general", "local-p"],
            deviation=deviation,
            learning_rate=rate,
            steps=steps,
            seed=range(3),
        )
    ]
    copying = grid(
        task="copying",
        attention="general",
        deviation=0.2,
        learning_rate=0.015,
        steps=1000,
        seed=range(3),
    )
    return numbers + copying
