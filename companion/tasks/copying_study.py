"""The study of chapter 7: which patterns of attention learn to copy a text.

::

    python -m companion.tasks.copying_study copying.json

trains every model of the study that the file lacks, and adds its figures. Without a file
to begin with it takes about ten minutes on one CPU core. The package has the result,
``recorded("copying")`` in :mod:`companion.tasks.studies`.
"""

from argparse import ArgumentParser
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from companion.attention.base import Attention
from companion.attention.causal import CausalAttention
from companion.attention.per_head import PerHead
from companion.attention.sparse import AtrousAttention, LocalAttention, SparseAttention
from companion.data import manual
from companion.layers.residual import PreNorm
from companion.models.language_model import LanguageModel
from companion.models.transformer import TransformerEncoderLayer
from companion.tasks.copying import Copying
from companion.tasks.studies import record
from companion.training.losses import Record

#: The names of the patterns.
PATTERNS = ("dense", "local", "atrous", "in turn", "union", "own heads")
#: What the study is about.
TITLE = "Chapter 7: passages of 128 characters of Python's manual, and their copies"


def copying_task(gap: int = 1) -> Copying:
    """Python's manual in passages of 128 characters, each followed by its copy.

    Of every ten articles one is held out, in turn for validation and for test.

    Args:
        gap: how many separators are between a passage and its copy.
    """
    articles = manual.texts()
    training = [text for number, text in enumerate(articles) if number % 10]
    validation, test = articles[10::20], articles[::20]
    sets = (manual.passages(part, 128) for part in (training, validation, test))
    training_passages, validation_passages, test_passages = sets
    return Copying(training_passages, validation_passages, test_passages, gap)


def pattern_layers(pattern: str) -> list[Attention]:
    """The attention of the first and of the second layer, all of them causal.

    Args:
        pattern: one of :data:`PATTERNS`.
    """

    def near() -> Attention:
        return LocalAttention(4, causal=True)

    def far() -> Attention:
        return AtrousAttention(64, causal=True)

    def both() -> Attention:
        return SparseAttention(4, 64, causal=True)

    def own() -> Attention:
        return PerHead(near(), near(), far(), far())

    layers: dict[str, list[Attention]] = {
        "dense": [CausalAttention(), CausalAttention()],
        "local": [near(), near()],
        "atrous": [far(), far()],
        "in turn": [far(), near()],
        "union": [both(), both()],
        "own heads": [own(), own()],
    }
    return layers[pattern]


def train(
    layers: Iterable[Attention],
    task: Copying,
    steps: int = 150,
    learning_rate: float = 0.02,
    seed: int = 0,
) -> tuple[LanguageModel, list[Record]]:
    """A small language model with these attentions, trained; and its history.

    Args:
        layers: the causal attention of each layer.
        task: the texts.
        steps: of training.
        learning_rate: the highest.
        seed: of the initialisation and of the order of the passages.
    """
    torch.manual_seed(seed)
    model = LanguageModel(
        len(task.characters),
        [
            TransformerEncoderLayer(64, 4, 128, 0.0, attention, PreNorm)
            for attention in layers
        ],
    )
    return model, task.train(model, steps, learning_rate, seed)


def measure(
    pattern: str,
    gap: int,
    steps: int,
    learning_rate: float,
    seed: int,
    curve: bool = False,
) -> dict[str, Any]:
    """Train one model; its bits per character of new and of copied text.

    Args:
        pattern, gap, steps, learning_rate, seed: the settings of the run.
        curve: adds the validation bits of every 50 steps, as ``history``: the step, and
            both figures.
    """
    task = copying_task(gap)
    model, history = train(pattern_layers(pattern), task, steps, learning_rate, seed)
    sets = {"test": task.test_passages, "validation": task.validation_passages}
    found: dict[str, Any] = {
        name: _rounded(task.bits_per_character(model, passages))
        for name, passages in sets.items()
    }
    if curve:
        found["history"] = [
            [one["step"], *_rounded([one["new"], one["copied"]])] for one in history
        ]
    return found


def _rounded(bits: Sequence[float]) -> list[float]:
    return [round(one, 4) for one in bits]


def settings() -> list[dict[str, Any]]:
    """The settings of all runs: what :func:`measure` is called with."""
    others = [pattern for pattern in PATTERNS if pattern != "union"]
    shifted = ["atrous", "in turn", "own heads", "union"]
    return [
        *_runs(others, 1, 150, [0.02], 3),
        *_runs(["union"], 1, 150, [0.02], 3, curve=True),
        *_runs(PATTERNS, 1, 150, [0.01, 0.04], 1),  # other learning rates
        *_runs(["dense"], 1, 600, [0.002, 0.005, 0.01, 0.02], 1),  # more steps
        *_runs(["dense"], 1, 2400, [0.01], 1, curve=True),
        *_runs(shifted, 2, 200, [0.02], 3),  # a second separator
        *_runs(["own heads", "union"], 2, 600, [0.02], 1),
    ]


def _runs(
    patterns: Sequence[str],
    gap: int,
    steps: int,
    rates: Sequence[float],
    seeds: int,
    **more: bool,
) -> list[dict[str, Any]]:
    """Every pattern at every rate with every seed."""
    return [
        {
            "pattern": pattern,
            "gap": gap,
            "steps": steps,
            "learning_rate": rate,
            "seed": seed,
            **more,
        }
        for rate in rates
        for pattern in patterns
        for seed in range(seeds)
    ]


if __name__ == "__main__":
    parser = ArgumentParser(description=TITLE)
    parser.add_argument("file", help="the JSON file to write or to continue")
    torch.set_num_threads(1)
    record(parser.parse_args().file, TITLE, settings(), measure)
