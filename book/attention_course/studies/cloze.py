"""The second study of chapter 10: three readers, and questions with two conditions.

All runs take about six minutes on one CPU core.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import torch

from attention_course.data.facts import facts, questions, split
from attention_course.data.vocabulary import PAD
from attention_course.studies.recording import check_choice, grid
from attention_course.tasks.cloze import Cloze
from companion.models.attention_readers import (
    AttentionMean,
    AttentionOverAttention,
    AttentionSum,
    Reader,
)

TITLE = "Chapter 10: questions with two conditions"
#: The readers, by the names that they have in the chapter.
READERS: dict[str, Callable[..., Reader]] = {
    "attention sum": AttentionSum,
    "attention mean": AttentionMean,
    "attention over attention": AttentionOverAttention,
}
#: The learning rates of the sweep.
RATES = (0.01, 0.02)
STEPS = 400


@cache
def pairs_task() -> Cloze:
    """Questions that ask by a currency and a language; the territories of the test are new.

    Example:
        >>> " ".join(pairs_task().test_questions[31].question)
        '____ : on y parle français et la monnaie y est : euro'
    """
    # a fifth of the territories is for testing alone
    known, held_out = split(facts(), fraction=0.2, seed=1)
    return Cloze(
        train=questions(known, known, 12_800, seed=1),
        validation=questions(known, known, 200, seed=3),
        test=questions(held_out, known, 400, seed=2),
    )


def build(reader: str, task: Cloze, seed: int = 0) -> Reader:
    """An untrained reader.

    Args:
        reader: one of :data:`READERS`.
    """
    check_choice("reader", reader, READERS)
    torch.manual_seed(seed)
    return READERS[reader](len(task.words), embedding_size=32, size=64, pad=PAD)


def measure(reader: str, learning_rate: float, seed: int) -> dict[str, Any]:
    """Train one reader, each question once.

    Returns:
        ``validation``, the accuracy after every 50 steps, and ``test``, the final accuracy on
        the test questions.
    """
    data = pairs_task()
    model = build(reader, data, seed)
    history = data.train(model, STEPS, learning_rate, seed)
    return {
        "validation": [record["accuracy"] for record in history],
        "test": data.accuracy(model),
    }


def settings() -> list[dict[str, Any]]:
    """The settings of all runs: what :func:`measure` is called with."""
    return grid(reader=[*READERS], learning_rate=RATES, seed=range(3))
