"""The study of chapter 3: which library a docstring is from, and whether a name is its own.

All runs take about three minutes on one CPU core, with NumPy 2.4, PyTorch 2.13 and
Matplotlib 3.11; other versions have other docstrings.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from torch import nn

from attention_course.data import docstrings, names
from attention_course.data.docstrings import Document
from attention_course.data.vocabulary import PAD
from attention_course.studies.recording import grid
from attention_course.tasks.text_classification import Classification, Example
from companion.attention.additive import Additive
from companion.attention.pooling import (
    AttentionPooling,
    last_pooling,
    max_pooling,
    mean_pooling,
)
from companion.models.abcnn import ABCNN1, ABCNN2, ABCNN3, BCNN, PairClassifier
from companion.models.text_classifier import Classifier, GRUEncoder, WordEncoder

TITLE = "Chapter 3: docstrings by library, and names with their descriptions"
#: What turns the words of a docstring into states.
ENCODERS = ("word vectors", "recurrent")
#: What turns the states into one vector.
POOLINGS = ("last", "mean", "max", "attention")
#: The networks that compare a name with a description.
MATCHERS = ("BCNN", "ABCNN-1", "ABCNN-2", "ABCNN-3")
_FEATURES = 32


@cache
def _documents() -> list[Document]:
    return docstrings.documents()


@cache
def which_library(split: int) -> Classification:
    """The library of a docstring's first 60 words.

    Args:
        split: the seed by which a quarter of the files becomes the test set.
    """
    training, test = (
        [Example((text.words[:60],), text.library) for text in side]
        for side in docstrings.split(_documents(), fraction=0.25, seed=split)
    )
    return Classification(training, test, minimum_frequency=3)


@cache
def whose_name() -> Classification:
    """Whether a description has its own name or another's, by the files of split 0."""

    def pairs(documents: Sequence[Document], seeds: Sequence[int]) -> list[Example]:
        return [
            Example(
                (pair.name, pair.description), "its own" if pair.belong else "another's"
            )
            for seed in seeds
            for pair in names.name_pairs(documents, seed)
        ]

    training, test = docstrings.split(_documents(), fraction=0.25, seed=0)
    return Classification(pairs(training, (0, 1, 2)), pairs(test, (0,)))


def build_classifier(words: int, encoder: str, pooling: str) -> Classifier:
    """An untrained model of docstrings.

    Args:
        words: in the vocabulary.
        encoder, pooling: of :data:`ENCODERS` and of :data:`POOLINGS`.
    """
    pool: Any = {"last": last_pooling, "mean": mean_pooling, "max": max_pooling}.get(
        pooling
    ) or AttentionPooling(Additive(16, _FEATURES, 16), query_size=16)
    read: nn.Module = (
        GRUEncoder(words, _FEATURES, _FEATURES, pad=PAD)
        if encoder == "recurrent"
        else WordEncoder(words, _FEATURES, pad=PAD)
    )
    return Classifier(read, pool, _FEATURES, classes=4)


def build_matcher(task: Classification, block: str) -> PairClassifier:
    """An untrained network of pairs, ``block`` one of :data:`MATCHERS`."""
    every = [*task.training_examples, *task.test_examples]
    longest = max(len(text) for example in every for text in example.texts)
    blocks = {
        "BCNN": lambda: BCNN(_FEATURES, _FEATURES, width=3),
        "ABCNN-1": lambda: ABCNN1(_FEATURES, _FEATURES, width=3, max_length=longest),
        "ABCNN-2": lambda: ABCNN2(_FEATURES, _FEATURES, width=3),
        "ABCNN-3": lambda: ABCNN3(_FEATURES, _FEATURES, width=3, max_length=longest),
    }
    return PairClassifier(len(task.words), [blocks[block]()], classes=2, pad=PAD)


def measure(
    model: str, seed: int, encoder: str | None = None, split: int = 0
) -> dict[str, float]:
    """Train one model; its accuracy on the test set.

    Args:
        model: one of :data:`POOLINGS`, over an encoder, or of :data:`MATCHERS`.
        seed: of the training.
        encoder: one of :data:`ENCODERS`, for a pooling.
        split: as for :func:`which_library`.
    """
    torch.manual_seed(seed)
    if encoder is None:
        task = whose_name()
        matcher = build_matcher(task, model)
        task.train(matcher, steps=300, learning_rate=5e-3, seed=seed)
        return {"accuracy": task.accuracy(matcher)}
    task = which_library(split)
    classifier = build_classifier(len(task.words), encoder, model)
    task.train(classifier, steps=150, seed=seed)
    return {"accuracy": task.accuracy(classifier)}


def settings() -> list[dict[str, Any]]:
    """The settings of all runs: what :func:`measure` is called with."""
    return [
        *grid(encoder=ENCODERS, model=POOLINGS, split=0, seed=range(3)),
        *grid(
            encoder=ENCODERS, model=["mean", "attention"], split=[1, 2, 3], seed=[0, 1]
        ),
        *grid(encoder=None, model=MATCHERS, split=0, seed=range(3)),
    ]
