"""The study of chapter 5: its seven attentions on number words, and three on copies of letters.

All runs take about three minutes on one CPU core. The study ``luong`` varies
initialisation and learning rate.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import torch

from attention_course.data.vocabulary import PAD
from attention_course.studies.recording import grid
from attention_course.tasks.letter_copying import two_letters
from attention_course.tasks.number_translation import (
    exact_match_by_length,
    short_numbers,
)
from attention_course.tasks.translation import TranslationTask
from companion.attention.base import Attention
from companion.attention.local import LocalM, LocalP, Location
from companion.attention.scores import Bilinear, Concat, Dot
from companion.models.luong import InputFeedingDecoder, LuongDecoder, LuongEncoder
from companion.models.seq2seq import EncoderDecoder

TITLE = "Chapter 5: seven attentions translate number words, and three copy letters"
#: The attentions that translate; the last is *general* with input feeding.
ATTENTIONS = (
    "dot",
    "general",
    "concat",
    "location",
    "local-m",
    "local-p",
    "general, fed",
)
#: The ranges of letters by which the exact match of copies is split.
LETTERS = ((10, 14), (15, 19), (20, 25), (26, 32), (33, 40))
_HIDDEN = 64


@cache
def _task(name: str) -> TranslationTask:
    return two_letters(600) if name == "copying" else short_numbers()


def build(task: str, attention: str, seed: int) -> EncoderDecoder:
    """An untrained model of ``numbers`` or ``copying``.

    Local attention has a radius of 4 for numbers and of 1 for copies.
    """
    data, radius = _task(task), 1 if task == "copying" else 4
    torch.manual_seed(seed)
    encoder = LuongEncoder(len(data.source), 32, _HIDDEN, layers=1, pad=PAD)
    attentions: dict[str, Callable[[], Attention]] = {
        "dot": Dot,
        "general": lambda: Bilinear(_HIDDEN, _HIDDEN),
        "concat": lambda: Concat(_HIDDEN, _HIDDEN, _HIDDEN),
        "location": lambda: Location(_HIDDEN, max_length=20),
        "local-m": lambda: LocalM(Bilinear(_HIDDEN, _HIDDEN), radius),
        "local-p": lambda: LocalP(Bilinear(_HIDDEN, _HIDDEN), radius, _HIDDEN),
    }
    decoder = InputFeedingDecoder if attention.endswith("fed") else LuongDecoder
    chosen = attentions[attention.removesuffix(", fed")]()
    return EncoderDecoder(
        encoder, decoder(len(data.target), 32, _HIDDEN, chosen, layers=1)
    )


def measure(task: str, attention: str, seed: int) -> dict[str, list[Any]]:
    """Train one model for 250 steps.

    Args:
        task: ``numbers`` or ``copying``.
        attention: one of :data:`ATTENTIONS`.
        seed: of the initialisation.

    Returns:
        ``history``, the validation loss after every 50 steps, and ``test``, the exact
        match of all numbers and by their length, or of copies for each of
        :data:`LETTERS`.
    """
    model, data = build(task, attention, seed), _task(task)
    history = data.train(model, 250, 0.015)
    return {
        "history": [{x: one[x] for x in ("step", "held_out_loss")} for one in history],
        "test": data.exact_match(model, LETTERS)
        if task == "copying"
        else exact_match_by_length(data, model),
    }


def settings() -> list[dict[str, Any]]:
    """The settings of all runs: what :func:`measure` is called with."""
    return [
        *grid(task="numbers", attention=ATTENTIONS, seed=range(3)),
        *grid(
            task="copying",
            attention=["local-m", "general", "general, fed"],
            seed=range(3),
        ),
    ]
