"""A study of chapter 6: targets that are longer than those in training.

All runs take about eleven minutes on one CPU core.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

from torch import nn

from attention_course.studies.recording import check_choice, grid
from attention_course.tasks.number_translation import (
    LENGTH_RANGES,
    luong_general,
    narrow_transformer,
    short_numbers,
)
from attention_course.tasks.translation import TranslationTask
from companion.layers.positional_encoding import (
    LearnedPositionalEncoding,
    SinusoidalPositionalEncoding,
)
from companion.models.seq2seq import EncoderDecoder

TITLE = "Chapter 6: numbers of at most 12 French words in training, and longer ones"


@cache
def short_targets(longest: int = 12) -> TranslationTask:
    """English numbers below a billion; those in training have few French words.

    Args:
        longest: the most French words in training.
    """
    whole = short_numbers()
    short = [pair for pair in whole.training_pairs if len(pair.target) <= longest]
    return TranslationTask(short, whole.validation_pairs, whole.test_pairs)


def no_positions() -> LearnedPositionalEncoding:
    """A table of zeros that is not trained."""
    table = LearnedPositionalEncoding(61, 64)
    nn.init.zeros_(table.embedding.weight)
    return table.requires_grad_(False)


def learned_positions() -> LearnedPositionalEncoding:
    """A table initialised as large as the word vectors, not at the usual tenth."""
    table = LearnedPositionalEncoding(61, 64)
    nn.init.normal_(table.embedding.weight)
    return table


#: The position encodings of the Transformers, by name.
POSITIONS: dict[str, Callable[[], nn.Module]] = {
    "no positions": no_positions,
    "sinusoids": SinusoidalPositionalEncoding,
    "learned": learned_positions,
}


def build(model: str, seed: int = 0, longest: int = 12) -> EncoderDecoder:
    """An untrained model: a Transformer, or chapter 5's model.

    Args:
        model: one of :data:`POSITIONS`, or ``"Luong"``.
        seed: the random seed of the initialisation.
        longest: the most French words in training.

    Raises:
        ValueError: there is no such model.
    """
    check_choice("model", model, [*POSITIONS, "Luong"])
    if model == "Luong":
        return luong_general(short_targets(longest), seed)
    return narrow_transformer(
        short_targets(longest), position=POSITIONS[model], seed=seed
    )


def train(model: str, steps: int, seed: int = 0, longest: int = 12) -> EncoderDecoder:
    """Such a model, trained at its own learning rate.

    Args:
        model, longest: as for :func:`build`.
        steps, seed: of the training.
    """
    trained = build(model, seed, longest)
    short_targets(longest).train(trained, steps, 0.015 if model == "Luong" else 0.005)
    return trained


def measure(model: str, steps: int, seed: int, longest: int) -> dict[str, list[float]]:
    """Train one model; its exact match for each range of lengths."""
    trained = train(model, steps, seed, longest)
    return {"test": short_targets(longest).exact_match(trained, LENGTH_RANGES)}


def settings() -> list[dict[str, Any]]:
    """The settings of all runs: what :func:`measure` is called with."""
    with_positions = ["sinusoids", "learned"]
    return [
        *grid(model=[*POSITIONS], steps=300, seed=range(3), longest=12),
        *grid(model="Luong", steps=[250, 750], seed=range(3), longest=12),
        *grid(model=with_positions, steps=900, seed=range(3), longest=12),
        *grid(model="no positions", steps=900, seed=0, longest=12),
        *grid(model="sinusoids", steps=900, seed=range(2), longest=10),
    ]
