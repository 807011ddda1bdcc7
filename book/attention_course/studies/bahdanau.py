"""The study of chapter 2: translations of numbers and copies of letters, by several models.

All runs take about ten minutes on one CPU core.
"""

from functools import cache
from typing import Any

import torch

from attention_course.studies.recording import check_choice, grid
from attention_course.tasks.letter_copying import two_letters
from attention_course.tasks.number_translation import (
    SCORING_UNITS,
    WORD_SIZE,
    bahdanau_translator,
    french_numbers,
)
from attention_course.tasks.translation import TranslationTask
from companion.attention.additive import Additive, LocationSensitive
from companion.models.bahdanau import (
    BahdanauDecoder,
    BahdanauEncoder,
    CurrentStateDecoder,
    FixedVectorEncoder,
    LocationSensitiveDecoder,
    StateAndWordDecoder,
)
from companion.models.seq2seq import EncoderDecoder

TITLE = "Chapter 2: English numbers into French, and copies of two letters"
#: The models that translate numbers.
TRANSLATORS = (
    "without attention",
    "Bahdanau",
    "previous state and token",
    "new state",
)
#: The models that copy letters.
COPIERS = ("additive", "location-sensitive")
#: The shortest and longest targets for which exact match is measured, all lengths first.
TRANSLATOR_LENGTHS = ((1, 27), (1, 4), (5, 8), (9, 12), (13, 16), (17, 20), (21, 27))
#: The same for the sequences of letters.
COPIER_LENGTHS = ((10, 40), (10, 14), (15, 19), (20, 25), (26, 32), (33, 40))
_UNITS = 64  # of each direction of the encoder, and of the decoder
_DECODERS = {
    "previous state and token": StateAndWordDecoder,
    "new state": CurrentStateDecoder,
    "location-sensitive": LocationSensitiveDecoder,
}


def build(model: str, task: TranslationTask, seed: int = 0) -> EncoderDecoder:
    """An untrained model of the study.

    Args:
        model: one of :data:`TRANSLATORS` or :data:`COPIERS`.
    """
    check_choice("model", model, TRANSLATORS + COPIERS)
    torch.manual_seed(seed)
    query = _UNITS + WORD_SIZE if model == "previous state and token" else _UNITS
    sizes = query, 2 * _UNITS, SCORING_UNITS
    attention = (
        LocationSensitive(*sizes, channels=8, width=5)
        if model == "location-sensitive"
        else Additive(*sizes)
    )
    encoder = FixedVectorEncoder if model == "without attention" else BahdanauEncoder
    decoder = _DECODERS.get(model, BahdanauDecoder)
    words = len(task.source), len(task.target)
    return bahdanau_translator(*words, encoder, decoder, attention, _UNITS)


@cache
def study_task(model: str) -> TranslationTask:
    """The task of a model of the study."""
    check_choice("model", model, TRANSLATORS + COPIERS)
    return two_letters(1_000) if model in COPIERS else french_numbers()


def measure(
    model: str, steps: int, learning_rate: float, seed: int
) -> dict[str, list[float]]:
    """Train one model; its loss during training, and its exact match in the end.

    Returns:
        ``validation``, the loss per token after every 50 steps, and ``test``, the exact
        match for each of :data:`COPIER_LENGTHS` or :data:`TRANSLATOR_LENGTHS`.
    """
    task = study_task(model)
    trained = build(model, task, seed)
    history = task.train(trained, steps, learning_rate)
    lengths = COPIER_LENGTHS if model in COPIERS else TRANSLATOR_LENGTHS
    return {
        "validation": [one["held_out_loss"] for one in history],
        "test": task.exact_match(trained, lengths),
    }


def settings() -> list[dict[str, Any]]:
    """The settings of all runs: what :func:`measure` is called with."""
    attentive, fixed = "Bahdanau", "without attention"
    queries = [attentive, *TRANSLATORS[2:]]
    return [
        *grid(model=[attentive, fixed], steps=400, learning_rate=0.02, seed=range(3)),
        *grid(model=attentive, steps=400, learning_rate=[0.005, 0.04, 0.08], seed=0),
        *grid(model=fixed, steps=400, learning_rate=[0.005, 0.01, 0.04, 0.08], seed=0),
        *grid(model=fixed, steps=1_600, learning_rate=0.01, seed=range(3)),
        *grid(model=fixed, steps=1_600, learning_rate=0.02, seed=0),
        *grid(model=queries, steps=400, learning_rate=0.01, seed=range(3)),
        *grid(model=COPIERS, steps=400, learning_rate=0.01, seed=range(3)),
        *grid(model="additive", steps=400, learning_rate=[0.005, 0.02], seed=0),
        *grid(model="additive", steps=1_600, learning_rate=0.01, seed=range(3)),
    ]
