"""The exercises of chapter 9: a maximum, a document's query, word weights in documents."""

import torch
from torch import Tensor

from attention_course.exercises.exercise import Exercise, normal
from companion.attention.base import masked_softmax
from companion.attention.pooling import max_pooling, mean_pooling


def _maximum(states: Tensor, mask: Tensor) -> Tensor:
    return max_pooling(states, mask)


def _filled(states: Tensor, mask: Tensor, value: float) -> Tensor:
    return states.masked_fill(~mask[..., None], value).amax(1)


MAXIMUM = Exercise(
    inputs={
        "states": normal(3, 7, 5, seed=91) - 2,
        "mask": torch.arange(7) < torch.tensor([[7], [4], [0]]),
    },
    solution=_maximum,
    mistakes={
        "The mask is not used: the maximum includes padding.": lambda h, m: h.amax(1),
        "The mask is inverted: True means a word.": lambda h, m: _maximum(h, ~m),
        "Padding counts as 0, which is larger than a negative state: fill it with −∞.": (
            lambda h, m: _filled(h, m, 0)
        ),
        "A row without words is −∞: it must be zeros.": lambda h, m: _filled(
            h, m, -torch.inf
        ),
        "This is the mean: HN-MAX takes the largest value of each component.": (
            lambda h, m: mean_pooling(h, m)
        ),
    },
    hints={
        "must match the size": (
            "(b, n) does not broadcast with (b, n, d): give the mask an axis of size 1 at the end."
        )
    },
)


def _keys(h: Tensor, W: Tensor, b: Tensor) -> Tensor:
    return (h @ W.T + b).tanh()


def _pool(
    h: Tensor, mask: Tensor, keys: Tensor, query: Tensor, values: Tensor | None = None
) -> Tensor:
    weights = masked_softmax((keys * query[:, None]).sum(-1), mask)
    return (weights[..., None] * (h if values is None else values)).sum(1)


def _conditioned(
    h: Tensor, mask: Tensor, W: Tensor, b: Tensor, u: Tensor, V: Tensor, c: Tensor
) -> Tensor:
    return _pool(h, mask, _keys(h, W, b), u + c @ V.T)


def _every(c: Tensor, vector: Tensor) -> Tensor:
    return vector.expand(len(c), -1)


DOCUMENT_QUERY = Exercise(
    inputs={
        "h": normal(3, 7, 5, seed=92),
        "mask": torch.arange(7) < torch.tensor([[7], [4], [2]]),
        "W": normal(11, 5, seed=93),
        "b": normal(11, seed=94),
        "u": normal(11, seed=95),
        "V": normal(11, 13, seed=98),
        "c": normal(3, 13, seed=99),
    },
    solution=_conditioned,
    mistakes={
        "The document is not used: every sentence has the same query.": (
            lambda h, m, W, b, u, V, c: _pool(h, m, _keys(h, W, b), _every(c, u))
        ),
        "The learned query u is missing.": lambda h, m, W, b, u, V, c: _pool(
            h, m, _keys(h, W, b), c @ V.T
        ),
        "All sentences have the query of the first one: each has its own document.": (
            lambda h, m, W, b, u, V, c: _pool(
                h, m, _keys(h, W, b), _every(c, u + V @ c[0])
            )
        ),
        "The document is added to the keys, inside the tanh: it belongs to the query.": (
            lambda h, m, W, b, u, V, c: _pool(
                h, m, (h @ W.T + b + (c @ V.T)[:, None]).tanh(), _every(c, u)
            )
        ),
        "The keys are averaged: they give the weights; average the states h.": (
            lambda h, m, W, b, u, V, c: _pool(
                h, m, _keys(h, W, b), u + c @ V.T, _keys(h, W, b)
            )
        ),
        "The mask is not used: padding receives weight.": (
            lambda h, m, W, b, u, V, c: _conditioned(
                h, torch.ones_like(m), W, b, u, V, c
            )
        ),
        "The mask is inverted: True means may attend.": (
            lambda h, m, W, b, u, V, c: _conditioned(h, ~m, W, b, u, V, c)
        ),
        "The tanh is missing.": lambda h, m, W, b, u, V, c: _pool(
            h, m, h @ W.T + b, u + c @ V.T
        ),
        "The bias b is missing.": lambda h, m, W, b, u, V, c: _conditioned(
            h, m, W, torch.zeros_like(b), u, V, c
        ),
    },
)


def _product(words: Tensor, sentences: Tensor) -> Tensor:
    return words * sentences[..., None]


WORD_WEIGHTS = Exercise(
    inputs={
        "words": normal(2, 5, 3, seed=96).softmax(-1),
        "sentences": normal(2, 5, seed=97).softmax(-1),
    },
    solution=_product,
    mistakes={
        "The two weights are added: the weight in the document is their product.": lambda w, s: (
            w + s[..., None]
        ),
        "The weights of the words are divided by those of the sentences: multiply them.": lambda w, s: (
            w / s[..., None]
        ),
        "The sentence weights are not used, or cancel out.": lambda w, s: w.clone(),
        "Only the sentence weights are used.": lambda w, s: (
            s[..., None].expand_as(w).clone()
        ),
        "The words are summed: each word has its own weight.": lambda w, s: _product(
            w, s
        ).sum(-1),
        "The sentences are summed: each word of each sentence has its own weight.": lambda w, s: (
            _product(w, s).sum(1)
        ),
    },
    hints={
        "must match the size": (
            "(b, s) does not broadcast with (b, s, n): give the sentences an axis of size 1 at the end."
        )
    },
)
EXERCISES = {"9.1": MAXIMUM, "9.2": DOCUMENT_QUERY, "9.3": WORD_WEIGHTS}
