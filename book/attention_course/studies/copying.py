"""The study of chapter 7: which patterns of attention learn to copy a text.

All runs take about ten minutes on one CPU core.
"""

from collections.abc import Iterable
from typing import Any

import torch

from attention_course.data import manual
from attention_course.studies.recording import check_choice, grid
from attention_course.tasks.copying import Copying
from attention_course.training.losses import Record
from companion.attention.base import Attention
from companion.attention.causal import CausalAttention
from companion.attention.per_head import PerHead
from companion.attention.sparse import AtrousAttention, LocalAttention, SparseAttention
from companion.layers.residual import PreNorm
from companion.models.language_model import LanguageModel
from companion.models.transformer import CausalTransformerLayer

#: The names of the patterns.
PATTERNS = ("dense", "local", "atrous", "in turn", "union", "own heads")
TITLE = "Chapter 7: passages of 128 characters of Python's manual, and their copies"


def copying_task(gap: int = 1, kind: type[Copying] = Copying) -> Copying:
    """Python's manual in passages of 128 characters, each followed by its copy.

    Of every ten articles one is held out, in turn for validation and for test.

    Args:
        gap: how many separators are between a passage and its copy.
        kind: what is made of the passages.
    """
    articles = manual.texts()
    training = [text for number, text in enumerate(articles) if number % 10]
    validation, test = articles[10::20], articles[::20]
    sets = (manual.passages(part, 128) for part in (training, validation, test))
    training_passages, validation_passages, test_passages = sets
    return kind(training_passages, validation_passages, test_passages, gap)


def pattern_layers(pattern: str) -> list[Attention]:
    """The attention of the first and of the second layer, all of them causal.

    Args:
        pattern: one of :data:`PATTERNS`.

    Raises:
        ValueError: there is no such pattern.
    """
    check_choice("pattern", pattern, PATTERNS)

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
            CausalTransformerLayer(64, 4, 128, 0.0, attention, PreNorm)
            for attention in layers
        ],
    )
    return model, task.train(model, steps, learning_rate, seed)


def measure(
    pattern: str, gap: int, steps: int, learning_rate: float, seed: int
) -> dict[str, Any]:
    """Train one model; its bits per character of new and of copied text.

    Returns:
        ``test`` and ``validation``, both figures in the end; and ``history``, the step and
        the validation figures after every 50 steps.
    """
    task = copying_task(gap)
    model, history = train(pattern_layers(pattern), task, steps, learning_rate, seed)
    return {
        "test": task.bits_per_character(model, task.test_passages),
        "validation": task.bits_per_character(model, task.validation_passages),
        "history": [[one["step"], one["new"], one["copied"]] for one in history],
    }


def settings() -> list[dict[str, Any]]:
    """The settings of all runs: what :func:`measure` is called with."""
    shifted = ["atrous", "in turn", "own heads", "union"]
    slow, rates = ["own heads", "union"], [0.002, 0.005, 0.01, 0.02]
    first = {"pattern": PATTERNS, "gap": 1, "steps": 150}
    return [
        *grid(**first, learning_rate=0.02, seed=range(3)),
        *grid(**first, learning_rate=[0.01, 0.04], seed=0),
        *grid(pattern="dense", gap=1, steps=600, learning_rate=rates, seed=0),
        *grid(pattern="dense", gap=1, steps=2400, learning_rate=0.01, seed=range(3)),
        *grid(pattern=shifted, gap=2, steps=200, learning_rate=0.02, seed=range(3)),
        *grid(pattern=slow, gap=2, steps=600, learning_rate=0.02, seed=0),
    ]
