"""The study of chapter 2: translations of numbers and copies of letters, by several models.

::

    python -m companion.tasks.bahdanau_study bahdanau.json

trains every model of the study that the file lacks, and adds its figures. Without a file
to begin with it takes about ten minutes on one CPU core. The package has the result,
``recorded("bahdanau")`` in :mod:`companion.tasks.studies`.
"""

import random
from argparse import ArgumentParser
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

import torch

from companion.attention.additive import Additive, LocationSensitive
from companion.data import numbers
from companion.data.numbers import Pair
from companion.layers.recurrent import BahdanauEncoder, FixedVectorEncoder
from companion.models.bahdanau import (
    BahdanauDecoder,
    CurrentStateDecoder,
    LocationSensitiveDecoder,
    StateAndWordDecoder,
)
from companion.models.seq2seq import EncoderDecoder
from companion.tasks.studies import record
from companion.tasks.translation import TranslationTask

#: What the study is about.
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
_EMBEDDING, _HIDDEN, _ATTENTION = 32, 64, 32
_SOURCE = 2 * _HIDDEN  # both directions
_DECODERS = {
    "previous state and token": StateAndWordDecoder,
    "new state": CurrentStateDecoder,
    "location-sensitive": LocationSensitiveDecoder,
}


def french_numbers() -> TranslationTask:
    """The task of translating English numbers of up to twelve digits into French."""
    pairs = numbers.french_pairs(30_000, seed=0)
    return TranslationTask(*numbers.split(pairs, fraction=0.04, seed=0))


def two_letters() -> TranslationTask:
    """The task of copying sequences of two letters: 5 to 25 in training, up to 40 in the test."""

    def pairs(count: int, shortest: int, longest: int, seed: int) -> Iterator[Pair]:
        generator = random.Random(seed)
        for number in range(count):
            length = generator.randint(shortest, longest)
            letters = tuple(generator.choices("ab", k=length))
            yield Pair(number, letters, letters)

    training = [*pairs(20_000, 5, 25, seed=0)]
    seen = {pair.source for pair in training}
    return TranslationTask(
        training,
        validation=[p for p in pairs(1_000, 10, 25, seed=1) if p.source not in seen],
        test=[p for p in pairs(1_000, 10, 40, seed=2) if p.source not in seen],
    )


def build(model: str, task: TranslationTask, seed: int = 0) -> EncoderDecoder:
    """An untrained model of the study.

    Args:
        model: one of :data:`TRANSLATORS` or :data:`COPIERS`.
        task: has the two vocabularies.
        seed: the random seed of the initialisation.

    Raises:
        ValueError: there is no such model.
    """
    if model not in (*TRANSLATORS, *COPIERS):
        raise ValueError(f"no model {model!r}, only {', '.join(TRANSLATORS + COPIERS)}")
    torch.manual_seed(seed)
    query = _HIDDEN + _EMBEDDING if model == "previous state and token" else _HIDDEN
    attention = (
        LocationSensitive(query, _SOURCE, _ATTENTION, channels=8, width=5)
        if model == "location-sensitive"
        else Additive(query, _SOURCE, _ATTENTION)
    )
    encoder = FixedVectorEncoder if model == "without attention" else BahdanauEncoder
    decoder = _DECODERS.get(model, BahdanauDecoder)
    return EncoderDecoder(
        encoder(len(task.source), _EMBEDDING, _HIDDEN),
        decoder(len(task.target), _EMBEDDING, _HIDDEN, _SOURCE, attention),
    )


@cache
def study_task(model: str) -> TranslationTask:
    """The task of a model of the study.

    Args:
        model: as for :func:`build`.
    """
    return two_letters() if model in COPIERS else french_numbers()


def measure(
    model: str, steps: int, learning_rate: float, seed: int, only: str | None = None
) -> dict[str, list[float]]:
    """Train one model; its loss during training, and its exact match in the end.

    Args:
        model, steps, learning_rate, seed: the settings of the run.
        only: the one figure that is needed in the end, ``validation`` or ``test``.

    Returns:
        ``validation``, the loss per token after every 50 steps, and ``test``, the exact
        match for each of :data:`COPIER_LENGTHS` or :data:`TRANSLATOR_LENGTHS`. With
        ``only`` it is the last loss, or the exact match for all lengths.
    """
    task = study_task(model)
    trained = build(model, task, seed)
    losses = [one["held_out_loss"] for one in task.train(trained, steps, learning_rate)]
    lengths = COPIER_LENGTHS if model in COPIERS else TRANSLATOR_LENGTHS
    if only == "validation":
        return {"validation": [round(losses[-1], 3)]}
    if only == "test":
        return {"test": [round(task.exact_match(trained, lengths[:1])[0], 3)]}
    return {
        "validation": [round(one, 4) for one in losses],
        "test": [round(one, 4) for one in task.exact_match(trained, lengths)],
    }


def settings() -> list[dict[str, Any]]:
    """The settings of all runs: what :func:`measure` is called with."""
    return [
        *_runs(TRANSLATORS[:2], seeds=3),
        *_runs(["without attention", "additive"], steps=1_600),
        *_runs(COPIERS, seeds=3),
        *_runs(TRANSLATORS[:2], rates=(0.005, 0.02), only="validation"),
        *_runs(TRANSLATORS[2:], seeds=3, only="test"),
    ]


def _runs(
    models: Iterable[str],
    steps: int = 400,
    rates: Iterable[float] = (0.01,),
    seeds: int = 1,
    **more: str,
) -> Iterator[dict[str, Any]]:
    """Every model at every rate with every seed."""
    for model in models:
        for rate in rates:
            for seed in range(seeds):
                yield {
                    "model": model,
                    "steps": steps,
                    "learning_rate": rate,
                    "seed": seed,
                    **more,
                }


if __name__ == "__main__":
    parser = ArgumentParser(description=TITLE)
    parser.add_argument("file", help="the JSON file to write or to continue")
    torch.set_num_threads(1)
    record(parser.parse_args().file, TITLE, settings(), measure)
