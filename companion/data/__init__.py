"""Vocabulary, batches, and the data sets, a module each.

What needs only PyTorch and NumPy is imported from here. A data set is a module of its
own, because it may need a library of the extras: ``from companion.data import numbers``.
"""

from companion.data.batching import Batch, Batches, in_order
from companion.data.examples import Labelled, Shuffled, batches_in_order
from companion.data.vocabulary import (
    BOS,
    EOS,
    PAD,
    SPECIAL,
    UNK,
    Vocabulary,
    pad,
    pad_documents,
)

__all__ = [
    "BOS",
    "EOS",
    "PAD",
    "SPECIAL",
    "UNK",
    "Batch",
    "Batches",
    "Labelled",
    "Shuffled",
    "Vocabulary",
    "batches_in_order",
    "in_order",
    "pad",
    "pad_documents",
]
