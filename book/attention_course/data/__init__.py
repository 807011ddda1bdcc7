"""Vocabulary, batches, and the data sets, a module each.

What needs only PyTorch and NumPy is imported from here. A data set is a module of its
own, because it may need a library of the extras: ``from attention_course.data import numbers``,
or ``data.numbers`` after ``from companion import data``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from attention_course.data.vocabulary import (
    BOS,
    EOS,
    MARKS,
    PAD,
    SPECIAL,
    UNK,
    Vocabulary,
    pad,
    pad_documents,
)

if TYPE_CHECKING:
    from attention_course.data.batching import Batch, Batches, in_order
    from attention_course.data.examples import Labelled, Shuffled, batches_in_order

__all__ = [
    "BOS",
    "EOS",
    "MARKS",
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


_DATA_SETS = {
    "comparisons",
    "docstrings",
    "facts",
    "imdb",
    "manual",
    "multi30k",
    "numbers",
    "scenes",
}


def __getattr__(name: str) -> Any:
    """Import batches and data sets when they are asked for: they need more than models."""
    if name in _DATA_SETS:
        return import_module(f"attention_course.data.{name}")
    if name in __all__:
        from attention_course.data import batching, examples

        return getattr(batching if hasattr(batching, name) else examples, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """All names, those that are imported at their first use included."""
    return sorted({*globals(), *__all__, *_DATA_SETS})
