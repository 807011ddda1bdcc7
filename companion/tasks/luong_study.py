"""The study of chapter 5: when global attention (general) and local-p learn, and when not.

::

    python -m companion.tasks.luong_study luong.json

trains every model of the study that the file lacks, and adds its figures. Without a file
to begin with it takes about five minutes on one CPU core. The package has the result,
``recorded("luong")`` in :mod:`companion.tasks.studies`.
"""

import random
from argparse import ArgumentParser
from collections.abc import Iterator
from typing import Any

import torch

from companion.attention.base import Attention
from companion.attention.local import LocalP
from companion.attention.scores import Bilinear
from companion.data.numbers import Pair
from companion.models.luong import LuongDecoder, LuongEncoder
from companion.models.seq2seq import EncoderDecoder
from companion.tasks.number_translation import short_numbers
from companion.tasks.studies import record
from companion.tasks.translation import TranslationTask

#: What the study is about.
TITLE = "Chapter 5: number words from English to French, and copies of two letters"
#: The ranges by which exact match is split.
RANGES = {
    "numbers": [(1, 20)],
    "copying": [(10, 14), (15, 19), (20, 25), (26, 32), (33, 40)],
}


def two_letters() -> TranslationTask:
    """The task of copying a random sequence of the letters a and b.

    The 20,000 training sequences have 5 to 25 letters. Those for validation have at most
    25, those for the test at most 40, and none of either occurs in training.

    Example:
        >>> two_letters().training_pairs[0].source[:4]
        ('b', 'a', 'a', 'b')
    """
    training = [*_sequences(20_000, 5, 25, seed=0)]
    seen = {pair.source for pair in training}
    return TranslationTask(
        training,
        validation=[p for p in _sequences(600, 10, 25, seed=1) if p.source not in seen],
        test=[p for p in _sequences(600, 10, 40, seed=2) if p.source not in seen],
    )


def _sequences(count: int, shortest: int, longest: int, seed: int) -> Iterator[Pair]:
    """Random sequences, each of which is its own target."""
    generator = random.Random(seed)
    for number in range(count):
        length = generator.randint(shortest, longest)
        letters = tuple(generator.choices("ab", k=length))
        yield Pair(number, letters, letters)


def attention_of(name: str) -> Attention:
    """The attention ``general``, or ``local-p`` with a radius of 4, for 64 dimensions."""
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
        attention: as for :func:`attention_of`.
        deviation: the standard deviation of the initial output layer: 0.2, as in
            :class:`~companion.models.luong.LuongDecoder`, or 0.07, as in
            ``torch.nn.Linear``.
        learning_rate, steps, seed: of the training.
    """
    data = {"numbers": short_numbers, "copying": two_letters}[task]()
    torch.manual_seed(seed)
    encoder = LuongEncoder(len(data.source), 32, 64, layers=1)
    decoder = LuongDecoder(len(data.target), 32, 64, attention_of(attention), layers=1)
    model = EncoderDecoder(encoder, decoder)
    if deviation == 0.07:
        decoder.output.reset_parameters()
    history = data.train(model, steps, learning_rate)
    return {
        "test": [round(one, 4) for one in data.exact_match(model, RANGES[task])],
        "validation_loss": round(history[-1]["held_out_loss"], 4),
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
        ("numbers", attention, *chosen, seed)
        for chosen in hyperparameters
        for attention in ("general", "local-p")
        for seed in range(3)
    ]
    copying = [("copying", "general", 0.2, 0.015, 1000, seed) for seed in range(3)]
    names = ("task", "attention", "deviation", "learning_rate", "steps", "seed")
    return [dict(zip(names, chosen, strict=True)) for chosen in numbers + copying]


if __name__ == "__main__":
    parser = ArgumentParser(description=TITLE)
    parser.add_argument("file", help="the JSON file to write or to continue")
    torch.set_num_threads(1)
    record(parser.parse_args().file, TITLE, settings(), measure)
