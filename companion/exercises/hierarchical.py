"""The exercises of chapter 9: one level, sentences in their places, a word's share in the document."""

import torch
from torch import Tensor

from companion.attention.base import masked_softmax
from companion.attention.pooling import mean_pooling
from companion.exercises.exercise import Exercise, normal


def _hidden(h: Tensor, W: Tensor, b: Tensor) -> Tensor:
    return (h @ W.T + b).tanh()


def _weigh(weights: Tensor, h: Tensor) -> Tensor:
    return (weights[..., None] * h).sum(1)


def _level(h: Tensor, mask: Tensor, W: Tensor, b: Tensor, u: Tensor) -> Tensor:
    return _weigh(masked_softmax(_hidden(h, W, b) @ u, mask), h)


def _scores_of_zero(h: Tensor, mask: Tensor, W: Tensor, b: Tensor, u: Tensor) -> Tensor:
    return _weigh((_hidden(h, W, b) @ u).masked_fill(~mask, 0).softmax(-1), h)


def _cut_afterwards(h: Tensor, mask: Tensor, W: Tensor, b: Tensor, u: Tensor) -> Tensor:
    return _weigh((_hidden(h, W, b) @ u).softmax(-1) * mask, h)


def _sum_of_u(h: Tensor, mask: Tensor, W: Tensor, b: Tensor, u: Tensor) -> Tensor:
    hidden = _hidden(h, W, b)
    return _weigh(masked_softmax(hidden @ u, mask), hidden)


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
        "The hidden layer's vectors are averaged: they make the weights, and the states h are averaged.": (
            _sum_of_u
        ),
        "The mask is not used: padding has weight.": lambda h, m, W, b, u: _level(
            h, torch.ones_like(m), W, b, u
        ),
        "It is the other way round: True means may attend.": lambda h, m, W, b, u: (
            _level(h, ~m, W, b, u)
        ),
        "The scores of padding are set to 0: the exponential of 0 is 1, so set them to −∞.": _scores_of_zero,
        "Padding is cut off after the softmax: the weights of the words no longer sum to 1.": _cut_afterwards,
        "The tanh is missing.": lambda h, m, W, b, u: _weigh(
            masked_softmax((h @ W.T + b) @ u, m), h
        ),
        "There is a tanh around the score too: scores between −1 and 1 make nearly equal weights.": (
            lambda h, m, W, b, u: _weigh(
                masked_softmax((_hidden(h, W, b) @ u).tanh(), m), h
            )
        ),
        "The bias b is missing.": lambda h, m, W, b, u: _level(
            h, m, W, torch.zeros_like(b), u
        ),
        "All weights are equal: this is the mean.": lambda h, m, W, b, u: mean_pooling(
            h, m
        ),
        "The softmax is over the batch: it is over the positions, dim=-1.": lambda h, m, W, b, u: (
            _weigh((_hidden(h, W, b) @ u).masked_fill(~m, -torch.inf).softmax(0), h)
        ),
    },
)


def _place(vectors: Tensor, spoken: Tensor) -> Tensor:
    return _put(vectors, torch.arange(spoken.shape[1]) < spoken.sum(1, keepdim=True))


def _put(vectors: Tensor, where: Tensor) -> Tensor:
    placed = vectors.new_zeros(*where.shape, vectors.shape[-1])
    placed[where] = vectors
    return placed


def _one_after_the_other(vectors: Tensor, spoken: Tensor) -> Tensor:
    return _put(
        vectors, (torch.arange(spoken.numel()) < len(vectors)).view(spoken.shape)
    )


def _backwards(vectors: Tensor, spoken: Tensor) -> Tensor:
    rows = vectors.split(spoken.sum(1).tolist())
    return _place(torch.cat([row.flip(0) for row in rows]), spoken)


PLACE = Exercise(
    inputs={
        "vectors": normal(11, 5, seed=95),
        "spoken": torch.tensor(
            [[1, 0, 1, 1, 0, 0, 1], [0, 0, 1, 1, 0, 0, 0], [1, 1, 0, 1, 1, 1, 0]],
            dtype=torch.bool,
        ),
    },
    solution=_place,
    mistakes={
        "Gaps are left where a sentence has no words: the vectors of a document stand from the left.": _put,
        "The vectors stand at the right end of their document: they begin at the left.": lambda v, s: (
            _put(v, s.sort(1).values)
        ),
        "One document's vectors run on into the next: each takes as many as it has sentences with words.": (
            _one_after_the_other
        ),
        "The sentences of a document stand in the opposite order.": _backwards,
    },
    hints={
        "shape mismatch|cannot assign|indexing result": (
            "There are 11 vectors, so exactly 11 places of the mask must be True."
        )
    },
)


def _share(words: Tensor, sentences: Tensor) -> Tensor:
    return words * sentences[..., None]


SHARE = Exercise(
    inputs={
        "words": normal(2, 5, 3, seed=96).softmax(-1),
        "sentences": normal(2, 5, seed=97).softmax(-1),
    },
    solution=_share,
    mistakes={
        "The two weights are added: a share of a share is their product.": lambda w, s: (
            w + s[..., None]
        ),
        "The words' weights are divided by those of the sentences: multiply.": lambda w, s: (
            w / s[..., None]
        ),
        "The sentences' weights do not count, or were divided out again.": lambda w, s: (
            w.clone()
        ),
        "Only the sentences' weights count.": lambda w, s: (
            s[..., None].expand_as(w).clone()
        ),
        "The words are summed up: each word has a share of its own.": lambda w, s: (
            _share(w, s).sum(-1)
        ),
        "The sentences are summed up: a word counts where it stands.": lambda w, s: (
            _share(w, s).sum(1)
        ),
    },
    hints={
        "must match the size": (
            "(b, s) does not line up with (b, s, n): give the sentences an axis of size 1 at the end."
        )
    },
)
EXERCISES = {"9.1": LEVEL, "9.2": PLACE, "9.3": SHARE}
