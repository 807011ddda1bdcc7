"""The study of chapter 10: three readers, and questions of which few words count.

All runs take about twenty-five minutes on one CPU core.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import torch

from attention_course.data.facts import (
    Question,
    facts,
    lists,
    questions,
    split,
    widespread,
)
from attention_course.data.vocabulary import PAD
from attention_course.studies.recording import check_choice, grid
from attention_course.tasks.cloze import Cloze
from companion.models.attention_readers import (
    AttentionMean,
    AttentionOverAttention,
    AttentionSum,
    Reader,
)

TITLE = "Chapter 10: questions that list languages, and questions with two conditions"
#: The readers, by the names that they have in the chapter.
READERS: dict[str, Callable[..., Reader]] = {
    "attention sum": AttentionSum,
    "attention mean": AttentionMean,
    "attention over attention": AttentionOverAttention,
}
#: The number of languages in the documents and questions.
LANGUAGES = 10
#: The numbers of languages that a question may list.
LENGTHS = tuple(range(1, 8))
#: The learning rates of the sweep.
RATES = (0.01, 0.02)


@cache
def lists_task() -> Cloze:
    """The questions of the study, for training, validation and test.

    Example:
        >>> " ".join(lists_task().test_questions[-1].question)
        '____ : on y parle portugais arabe néerlandais allemand français espagnol ou russe'
    """
    about = widespread(facts(), LANGUAGES)
    return Cloze(
        train=lists(about, LENGTHS, 19_200, seed=1),
        validation=lists(about, LENGTHS, 300, seed=2),
        test=[asked for length in LENGTHS for asked in of_length(length)],
    )


def of_length(length: int) -> list[Question]:
    """The 200 test questions that list so many languages.

    Args:
        length: one of :data:`LENGTHS`.
    """
    return lists(widespread(facts(), LANGUAGES), [length], 200, seed=2 + length)


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


def measure(
    task: str, reader: str, steps: int, learning_rate: float, seed: int
) -> dict[str, list[float]]:
    """Train one reader; its accuracy on the validation and on the test questions.

    Returns:
        ``validation``, the accuracy after every 50 steps, and ``test``, the accuracy for
        each of :data:`LENGTHS` on lists, and one accuracy on pairs.
    """
    check_choice("task", task, ["lists", "pairs"])
    data = lists_task() if task == "lists" else pairs_task()
    model = build(reader, data, seed)
    history = data.train(model, steps, learning_rate, seed)
    parts = (
        [of_length(length) for length in LENGTHS]
        if task == "lists"
        else [data.test_questions]
    )
    return {
        "validation": [record["accuracy"] for record in history],
        "test": [data.accuracy(model, part) for part in parts],
    }


def settings() -> list[dict[str, Any]]:
    """The settings of all runs: what :func:`measure` is called with."""
    lists: dict[str, Any] = {"task": "lists", "reader": [*READERS]}
    short: dict[str, Any] = {"task": "lists", "steps": 600}
    pairs: dict[str, Any] = {"task": "pairs", "reader": [*READERS]}
    two = ["attention sum", "attention over attention"]
    return [
        *grid(**lists, steps=1200, learning_rate=RATES, seed=range(3)),
        *grid(**short, reader=two, learning_rate=0.02, seed=range(3)),
        *grid(**short, reader=two, learning_rate=[0.01, 0.04], seed=0),
        *grid(**short, reader=two[1], learning_rate=0.04, seed=[1, 2]),
        *grid(**pairs, steps=400, learning_rate=0.02, seed=range(3)),
    ]
