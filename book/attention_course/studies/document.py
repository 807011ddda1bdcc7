"""The study of chapter 9: questions that the sentence at some distance from a marked one answers.

All runs take about fifteen minutes on one CPU core, with NumPy 2.4 and Matplotlib 3.11; other
versions have other docstrings.
"""

import math
import random
from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from torch import nn

from attention_course.data import docstrings
from attention_course.data.docstrings import Document
from attention_course.data.examples import batches_in_order
from attention_course.data.vocabulary import PAD
from attention_course.studies.recording import check_choice, grid
from attention_course.tasks.text_classification import (
    Classification,
    DocumentClassification,
    Example,
    accuracy,
)
from companion.attention.pooling import AttentionPooling, max_pooling, mean_pooling
from companion.attention.scores import HiddenDot
from companion.models.bahdanau import BahdanauEncoder
from companion.models.hierarchical import (
    HierarchicalAttention,
    HierarchicalEncoder,
)
from companion.models.text_classifier import Classifier, WordEncoder

TITLE = "Chapter 9: the type of the parameter at a distance from the optional one"
#: The classes, which are the types with which the sentences begin.
TYPES = ("bool", "float", "int", "str")
#: Sentences in a document; documents of the second size occur in the test only.
LENGTHS = (8, 24)
#: The models, the hierarchical ones first; the last two have no hierarchy or no order.
MODELS = ("HN-ATT", "HN-MAX", "HN-AVE", "flat attention", "bag of words")
#: The fewest and the most words in a sentence.
SENTENCES = {"short": (2, 10), "long": (6, 20)}
#: The learning rates of the sweep.
RATES = (0.005, 0.01, 0.02)
#: The learning rates at which flat attention reads long sentences.
LONG_RATES = (0.01, 0.02, 0.04, 0.06, 0.08)
#: The models that know the order of sentences.
ORDERED = MODELS[:4]
_WORD = 32  # features of a word
_BESIDES_WORDS = 11_908  # parameters of HN-ATT besides those of its word embeddings


@cache
def sources() -> tuple[list[Document], list[Document], list[Document]]:
    """Docstrings of NumPy and Matplotlib to train, validate and test with, by file."""
    found = docstrings.documents(libraries=("numpy", "matplotlib"))
    training, others = docstrings.split(found, fraction=0.4, seed=0)
    validation, test = docstrings.split(others, fraction=0.5, seed=1)
    return training, validation, test


def compose(
    source: Sequence[Document],
    count: int,
    length: int,
    distance: int,
    seed: int,
    sentences: str = "short",
) -> list[Example]:
    """Documents of sentences about parameters, in random order, one of them *optional*.

    Each sentence begins with a type. The label is the type at the beginning of the sentence
    that follows ``distance`` sentences after the optional one.

    Args:
        source: has the sentences.
        count: how many documents.
        length: sentences in a document.
        distance: from the optional sentence to the one that is asked for; 0 asks for the
            optional sentence's own type.
        seed: of the choice of sentences.
        sentences: ``short`` or ``long``, as in :data:`SENTENCES`.

    Raises:
        ValueError: there are no such sentences.
    """
    check_choice("sentences", sentences, SENTENCES)
    fewest, most = SENTENCES[sentences]
    found = {s for document in source for s in document.sentences}
    fitting = sorted(s for s in found if s[0] in TYPES and fewest <= len(s) <= most)
    by_kind = {
        (kind, marked): [
            s for s in fitting if s[0] == kind and ("optional" in s) == marked
        ]
        for kind in TYPES
        for marked in (False, True)
    }
    generator, examples = random.Random(seed), []
    for _ in range(count):
        kinds = generator.choices(TYPES, k=length)
        marked = generator.randrange(length - distance)
        texts = tuple(
            generator.choice(by_kind[kind, place == marked])
            for place, kind in enumerate(kinds)
        )
        examples.append(Example(texts, kinds[marked + distance]))
    return examples


def one_text(examples: Sequence[Example]) -> list[Example]:
    """The same documents for a model without sentences: one text, with a stop after each."""
    return [
        Example(([word for s in e.texts for word in (*s, ".")],), e.label)
        for e in examples
    ]


@cache
def splits(distance: int, sentences: str = "short") -> tuple[list[Example], ...]:
    """Documents to train on, to validate and to test, and long ones, of 24 sentences, to test."""
    check_choice("sentences", sentences, SENTENCES)
    training, validation, test = sources()
    few, many = LENGTHS
    counts = (3000, 400, 500, 500) if sentences == "short" else (3000, 300, 300, 150)
    return (
        compose(training, counts[0], few, distance, 0, sentences),
        compose(validation, counts[1], few, distance, 1, sentences),
        compose(test, counts[2], few, distance, 2, sentences),
        compose(test, counts[3], many, distance, 3, sentences),
    )


def task_of(
    model: str, training: Sequence[Example], validation: Sequence[Example]
) -> Classification:
    """The task in the form that a model reads: sentences, or one text.

    A word that is rarer than 300 in the training documents is ``<unk>``, so that models
    cannot recognise whole sentences.

    Args:
        model: one of :data:`MODELS`.
        training, validation: the documents.
    """
    check_choice("model", model, MODELS)
    if model.startswith("HN"):
        return DocumentClassification(training, validation, 300)
    return Classification(one_text(training), one_text(validation), 300)


def build(model: str, words: int, seed: int = 0) -> nn.Module:
    """An untrained model of the study; none has fewer parameters than HN-ATT.

    Args:
        model: one of :data:`MODELS`.
        words: the size of the vocabulary.
    """
    check_choice("model", model, MODELS)
    torch.manual_seed(seed)
    classes = len(TYPES)
    match model:
        case "HN-ATT":
            return HierarchicalAttention(words, _WORD, 32, classes, pad=PAD)
        case "HN-MAX" | "HN-AVE":
            size = 38
            pooling = max_pooling if model == "HN-MAX" else mean_pooling
            encoder = HierarchicalEncoder(
                BahdanauEncoder(words, _WORD, size // 2, pad=PAD),
                pooling,
                size,
                pad=PAD,
            )
            return Classifier(encoder, pooling, size, classes)
        case "flat attention":
            size = 52
            attention = AttentionPooling(HiddenDot(size), size)
            states = BahdanauEncoder(words, _WORD, size // 2, pad=PAD)
            return Classifier(states, attention, size, classes)
        case _:  # bag of words
            # as many more features of a word as make up for them
            size = _WORD + math.ceil(_BESIDES_WORDS / words)
            return Classifier(
                WordEncoder(words, size, pad=PAD), mean_pooling, size, classes
            )


def accuracy_on(
    model: nn.Module, task: Classification, examples: Sequence[Example]
) -> float:
    """The fraction of documents that a model classifies correctly.

    Args:
        examples: documents of sentences.
    """
    if not isinstance(task, DocumentClassification):
        examples = one_text(examples)
    return accuracy(model, list(batches_in_order(examples, task.collate, 256)))


def measure(
    model: str,
    sentences: str,
    distance: int,
    learning_rate: float,
    steps: int,
    seed: int,
) -> dict[str, Any]:
    """Train one model; its accuracy.

    Returns:
        ``validation``, the accuracy after every 50 steps; ``test``, on documents of the
        training length; ``long``, on documents three times as long.
    """
    training, validation, test, long = splits(distance, sentences)
    task = task_of(model, training, validation)
    trained = build(model, len(task.words), seed)
    history = task.train(trained, steps, learning_rate, seed)
    return {
        "validation": [record["accuracy"] for record in history],
        "test": accuracy_on(trained, task, test),
        "long": accuracy_on(trained, task, long),
    }


def settings() -> list[dict[str, Any]]:
    """The settings of all runs: what :func:`measure` is called with."""
    long: dict[str, Any] = {"sentences": "long", "distance": 4}
    short: dict[str, Any] = {"sentences": "short", "steps": 300, "seed": 0}
    pair = ["HN-ATT", "flat attention"]
    return [
        *grid(model=ORDERED, learning_rate=0.02, steps=400, seed=range(3), **long),
        *grid(
            model="flat attention",
            learning_rate=LONG_RATES,
            steps=250,
            seed=range(3),
            **long,
        ),
        *grid(
            model="flat attention",
            learning_rate=0.06,
            steps=400,
            seed=range(3),
            **long,
        ),
        *grid(model="HN-ATT", learning_rate=0.02, steps=250, seed=range(3), **long),
        *grid(model="HN-ATT", learning_rate=0.04, steps=250, seed=0, **long),
        *grid(model=ORDERED, distance=2, learning_rate=RATES, **short),
        *grid(model=pair, distance=4, learning_rate=0.02, **short),
    ]
