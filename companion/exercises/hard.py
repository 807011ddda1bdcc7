"""The exercises of chapter 4, hard and soft attention."""

import torch
from torch import Tensor

from companion.exercises.exercise import Exercise, normal
from companion.training.reinforce import reward_to_go as _to_go

_WORDS = torch.tensor(
    [[True, True, True, True, False], [True, True, False, False, False], [True] * 5]
)


def _context(hidden: Tensor, weights: Tensor, value: Tensor, f: Tensor) -> Tensor:
    return _gate(hidden, f) * _seen(weights, value)


def _gate(hidden: Tensor, f: Tensor) -> Tensor:
    return (hidden @ f).sigmoid()[:, None]


def _seen(weights: Tensor, value: Tensor) -> Tensor:
    return (weights[:, None] @ value).squeeze(1)


GATED_CONTEXT = Exercise(
    inputs={
        "hidden": normal(2, 3, seed=41),
        "weights": normal(2, 5, seed=42).softmax(-1),
        "value": normal(2, 5, 7, seed=43),
        "f": normal(3, seed=44),
    },
    solution=_context,
    mistakes={
        "The gate is missing: multiply by σ(f · h).": lambda h, w, a, f: _seen(w, a),
        "The gate has no sigmoid: it must lie between 0 and 1.": lambda h, w, a, f: (
            (h @ f)[:, None] * _seen(w, a)
        ),
        "There is a tanh in the place of the sigmoid: a gate lies between 0 and 1.": lambda h, w, a, f: (
            (h @ f).tanh()[:, None] * _seen(w, a)
        ),
        "This is 1 − β in the place of β.": lambda h, w, a, f: _context(h, w, a, -f),
        "The gate is a vector, one number for each feature of h, added up too late: β = σ(f · h) is one "
        "number.": lambda h, w, a, f: (
            (h * f).sigmoid().sum(-1, keepdim=True) * _seen(w, a)
        ),
        "Only the gate is left: multiply it with the average Σ α_i a_i.": lambda h, w, a, f: (
            _gate(h, f)
        ),
        "The values are not weighted: it is Σ α_i a_i.": lambda h, w, a, f: (
            _gate(h, f) * a.sum(1)
        ),
        "The weights take no part: this is the plain mean.": lambda h, w, a, f: (
            _gate(h, f) * a.mean(1)
        ),
        "The weighted values are not added up over the places.": lambda h, w, a, f: (
            _gate(h, f)[..., None] * w[..., None] * a
        ),
        "The softmax is taken twice: the weights are weights already.": lambda h, w, a, f: (
            _context(h, w.softmax(-1), a, f)
        ),
    },
)


def _penalty(weights: Tensor, words: Tensor, weight: float) -> Tensor:
    return weight * (1 - _received(weights, words)).square().sum(1).mean()


def _received(weights: Tensor, words: Tensor) -> Tensor:
    return (weights * words[..., None]).sum(1)


PENALTY = Exercise(
    inputs={
        "weights": (4 * normal(3, 5, 7, seed=45)).softmax(-1),
        "words": _WORDS,
        "weight": 0.7,
    },
    solution=_penalty,
    mistakes={
        "It is the mean over the places: (4.5) has the sum over them, and the mean over the images only.": (
            lambda a, m, w: w * (1 - _received(a, m)).square().mean()
        ),
        "It is the sum over the images: take their mean.": lambda a, m, w: (
            3 * _penalty(a, m, w)
        ),
        "It is the sum over the images and the mean over the places: it is the other way round.": (
            lambda a, m, w: w * (1 - _received(a, m)).square().sum(0).mean()
        ),
        "One penalty is left for each image: take their mean.": lambda a, m, w: (
            w * (1 - _received(a, m)).square().sum(1)
        ),
        "Padding counts: the weights of a step that is no word must not be added.": (
            lambda a, m, w: _penalty(a, torch.ones_like(m), w)
        ),
        "λ is missing.": lambda a, m, w: _penalty(a, m, 1.0),
        "The difference is not squared.": lambda a, m, w: (
            w * (1 - _received(a, m)).sum(1).mean()
        ),
        "It is the absolute difference: it must be squared.": lambda a, m, w: (
            w * (1 - _received(a, m)).abs().sum(1).mean()
        ),
        "The sum over the steps comes too late: add the weights of a place first, then square.": (
            lambda a, m, w: w * ((1 - a).square() * m[..., None]).sum((1, 2)).mean()
        ),
        "The weights are added over the places: it is over the steps, and those sums are no news.": (
            lambda a, m, w: w * (1 - a.sum(2)).square().sum(1).mean()
        ),
        "The weights are added over the places of each step: add those of a place over the steps.": (
            lambda a, m, w: w * (1 - (a * m[..., None]).sum(2)).square().sum(1).mean()
        ),
        "Each place should receive 1, not its even share of the words.": lambda a, m, w: (
            w * (m.sum(1, keepdim=True) / 7 - _received(a, m)).square().sum(1).mean()
        ),
    },
)
REWARD_TO_GO = Exercise(
    inputs={"reward": -normal(3, 5, seed=46).abs(), "words": _WORDS},
    solution=_to_go,
    mistakes={
        "This is the reward so far: a look gets what comes after it, its own word included.": (
            lambda r, m: (r * m).cumsum(1)
        ),
        "This is the reward of the whole caption, for every look.": lambda r, m: (
            (r * m).sum(1, keepdim=True).expand_as(r).clone()
        ),
        "This is each word's own reward alone: add those of the words after it.": lambda r, m: (
            r * m
        ),
        "Padding counts: its rewards must not be added.": lambda r, m: _to_go(
            r, torch.ones_like(m)
        ),
        "Padding is taken away too late: its rewards are in the sums already.": (
            lambda r, m: _to_go(r, torch.ones_like(m)) * m
        ),
        "The own word is missing: the look before a word can still change it.": lambda r, m: (
            _to_go(r, m) - r * m
        ),
        "The result is still reversed: flip it back.": lambda r, m: (
            (r * m).flip(1).cumsum(1)
        ),
        "The sum runs over the images: it is over the steps.": lambda r, m: (
            (r * m).flip(0).cumsum(0).flip(0)
        ),
        "The sign is wrong.": lambda r, m: -_to_go(r, m),
    },
)
EXERCISES = {"4.1": GATED_CONTEXT, "4.2": PENALTY, "4.3": REWARD_TO_GO}
