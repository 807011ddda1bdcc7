"""The exercises of chapter 9: one level, sentences in documents, word weights in documents."""

import torch
from torch import Tensor

from attention_course.exercises.exercise import Exercise, normal
from companion.attention.base import masked_softmax
from companion.attention.pooling import mean_pooling


def _hidden(h: Tensor, W: Tensor, b: Tensor) -> Tensor:
    return (h @ W.T + b).tanh()


def _average(weights: Tensor, h: Tensor) -> Tensor:
    return (weights[..., None] * h).sum(1)


def _level(h: Tensor, mask: Tensor, W: Tensor, b: Tensor, u: Tensor) -> Tensor:
    return _average(masked_softmax(_hidden(h, W, b) @ u, mask), h)


def _scores_of_zero(h: Tensor, mask: Tensor, W: Tensor, b: Tensor, u: Tensor) -> Tensor:
    return _average((_hidden(h, W, b) @ u).masked_fill(~mask, 0).softmax(-1), h)


def _cut_afterwards(h: Tensor, mask: Tensor, W: Tensor, b: Tensor, u: Tensor) -> Tensor:
    return _average((_hidden(h, W, b) @ u).softmax(-1) * mask, h)


def _sum_of_u(h: Tensor, mask: Tensor, W: Tensor, b: Tensor, u: Tensor) -> Tensor:
    hidden = _hidden(h, W, b)
    return _average(masked_softmax(hidden @ u, mask), hidden)


LEVEL = Exercise(
    inputs={
        "h": normal(2, 7, 5, seed=91),
        "mask": torch.arange(7) < torch.tensor([[7], [4]]),
        "W": normal(3, 5, seed=92),
        "b": normal(3, seed=93),
        "u": normal(3, seed=94),
    },
    solution=_level,
    mistakes={
        "The hidden layer's vectors are averaged: they give the weights; average the states h.": (
            _sum_of_u
        ),
        "The mask is not used: padding receives weight.": lambda h, m, W, b, u: _level(
            h, torch.ones_like(m), W, b, u
        ),
        "The mask is inverted: True means may attend.": lambda h, m, W, b, u: _level(
            h, ~m, W, b, u
        ),
        "The scores of padding are set to 0: the exponential of 0 is 1, so set them to −∞.": _scores_of_zero,
        "Padding is masked after the softmax: the weights of the words no longer sum to 1.": _cut_afterwards,
        "The tanh is missing.": lambda h, m, W, b, u: _average(
            masked_softmax((h @ W.T + b) @ u, m), h
        ),
        "There is a tanh around the score, too: scores between −1 and 1 give nearly uniform weights.": (
            lambda h, m, W, b, u: _average(
                masked_softmax((_hidden(h, W, b) @ u).tanh(), m), h
            )
        ),
        "The bias b is missing.": lambda h, m, W, b, u: _level(
            h, m, W, torch.zeros_like(b), u
        ),
        "All weights are equal: this is the mean.": lambda h, m, W, b, u: mean_pooling(
            h, m
        ),
        "The softmax runs over the batch: it must run over the positions, dim=-1.": lambda h, m, W, b, u: (
            _average((_hidden(h, W, b) @ u).masked_fill(~m, -torch.inf).softmax(0), h)
        ),
    },
)


def _pad(vectors: Tensor, mask: Tensor) -> Tensor:
    return _scatter(vectors, torch.arange(mask.shape[1]) < mask.sum(1, keepdim=True))


def _scatter(vectors: Tensor, mask: Tensor) -> Tensor:
    padded = vectors.new_zeros(*mask.shape, vectors.shape[-1])
    padded[mask] = vectors
    return padded


def _without_boundaries(vectors: Tensor, mask: Tensor) -> Tensor:
    first = torch.arange(mask.numel()) < len(vectors)
    return _scatter(vectors, first.view(mask.shape))


def _reversed(vectors: Tensor, mask: Tensor) -> Tensor:
    rows = vectors.split(mask.sum(1).tolist())
    return _pad(torch.cat([row.flip(0) for row in rows]), mask)


SENTENCES = Exercise(
    inputs={
        "vectors": normal(11, 5, seed=95),
        "mask": torch.tensor(
            [[1, 0, 1, 1, 0, 0, 1], [0, 0, 1, 1, 0, 0, 0], [1, 1, 0, 1, 1, 1, 0]],
            dtype=torch.bool,
        ),
    },
    solution=_pad,
    mistakes={
        "There are gaps where sentences have no words: the vectors of a document are left-aligned.": _scatter,
        "The vectors are right-aligned in their document: they must be left-aligned.": lambda v, s: (
            _scatter(v, s.sort(1).values)
        ),
        "The vectors cross the boundaries of documents: each has as many as it has sentences with words.": (
            _without_boundaries
        ),
        "The sentences of a document are in reverse order.": _reversed,
    },
    hints={
        "shape mismatch|cannot assign|indexing result": (
            "There are 11 vectors, so exactly 11 entries of the mask must be True."
        )
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
EXERCISES = {"9.1": LEVEL, "9.2": SENTENCES, "9.3": WORD_WEIGHTS}
