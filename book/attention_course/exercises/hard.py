"""The exercises of chapter 4, hard and soft attention."""

import torch
from torch import Tensor

from attention_course.exercises.exercise import Exercise, normal
from companion.losses.reinforce import reward_to_go as _to_go

_MASK = torch.tensor(
    [[True, True, True, True, False], [True, True, False, False, False], [True] * 5]
)


def _leave_one_out(reward: Tensor) -> Tensor:
    return reward - _others(reward) / (reward.shape[-1] - 1)


def _others(reward: Tensor) -> Tensor:
    return reward.sum(-1, keepdim=True) - reward


LEAVE_ONE_OUT = Exercise(
    inputs={"reward": -normal(3, 5, seed=41).abs()},
    solution=_leave_one_out,
    mistakes={
        "The baseline contains the sample's own reward: take the mean of the others.": lambda r: (
            r - r.mean(-1, keepdim=True)
        ),
        "The sum of the others is divided by k: there are only k − 1 of them.": lambda r: (
            r - _others(r) / r.shape[-1]
        ),
        "The sum is divided by k − 1, but it contains the sample's own reward.": lambda r: (
            r - r.sum(-1, keepdim=True) / (r.shape[-1] - 1)
        ),
        "The baseline is the sum of the others: take their mean.": lambda r: (
            r - _others(r)
        ),
        "This is the baseline alone: subtract it from the reward.": lambda r: (
            _others(r) / (r.shape[-1] - 1)
        ),
        "The sign is wrong: it is the reward minus the baseline.": lambda r: (
            -_leave_one_out(r)
        ),
        "The mean is over the other pictures: it is over the other samples of the picture.": (
            lambda r: r - (r.sum(0) - r) / (len(r) - 1)
        ),
        "The mean is over the samples of all pictures: each picture has its own baseline.": (
            lambda r: r - (r.sum() - r) / (r.numel() - 1)
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
        "words": _MASK,
        "weight": 0.7,
    },
    solution=_penalty,
    mistakes={
        "It is the mean over the regions: (4.7) has the sum over them, and the mean over the images only.": (
            lambda a, m, w: w * (1 - _received(a, m)).square().mean()
        ),
        "It is the sum over the images: take their mean.": lambda a, m, w: (
            3 * _penalty(a, m, w)
        ),
        "It is the sum over the images and the mean over the regions: it is the other way round.": (
            lambda a, m, w: w * (1 - _received(a, m)).square().sum(0).mean()
        ),
        "There is one penalty per image: take their mean.": lambda a, m, w: (
            w * (1 - _received(a, m)).square().sum(1)
        ),
        "Padding counts: the weights of padded steps must not be added.": (
            lambda a, m, w: _penalty(a, torch.ones_like(m), w)
        ),
        "λ is missing.": lambda a, m, w: _penalty(a, m, 1.0),
        "The difference is not squared.": lambda a, m, w: (
            w * (1 - _received(a, m)).sum(1).mean()
        ),
        "This is the absolute difference: square it instead.": lambda a, m, w: (
            w * (1 - _received(a, m)).abs().sum(1).mean()
        ),
        "The sum over the steps comes too late: sum the weights of a region first, then square.": (
            lambda a, m, w: w * ((1 - a).square() * m[..., None]).sum((1, 2)).mean()
        ),
        "The weights are summed over the regions, which always gives 1: sum over the steps.": (
            lambda a, m, w: w * (1 - a.sum(2)).square().sum(1).mean()
        ),
        "The weights of each step are summed over the regions: sum those of a region over the steps.": (
            lambda a, m, w: w * (1 - (a * m[..., None]).sum(2)).square().sum(1).mean()
        ),
        "Each region should receive 1 in total, not an equal fraction of the words.": lambda a, m, w: (
            w * (m.sum(1, keepdim=True) / 7 - _received(a, m)).square().sum(1).mean()
        ),
    },
)
REWARD_TO_GO = Exercise(
    inputs={"reward": -normal(3, 5, seed=46).abs(), "words": _MASK},
    solution=_to_go,
    mistakes={
        "This is the reward so far: a sample receives credit for its own word and those after it.": (
            lambda r, m: (r * m).cumsum(1)
        ),
        "This is the reward of the whole caption at every step.": lambda r, m: (
            (r * m).sum(1, keepdim=True).expand_as(r).clone()
        ),
        "This is the reward of each word alone: add those of the words after it.": lambda r, m: (
            r * m
        ),
        "Padding counts: its rewards must not be added.": lambda r, m: _to_go(
            r, torch.ones_like(m)
        ),
        "Padding is masked too late: its rewards are in the sums already.": (
            lambda r, m: _to_go(r, torch.ones_like(m)) * m
        ),
        "The step's own word is missing: its sample is taken before the word and influences it.": (
            lambda r, m: _to_go(r, m) - r * m
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
EXERCISES = {"4.1": LEAVE_ONE_OUT, "4.2": PENALTY, "4.3": REWARD_TO_GO}
