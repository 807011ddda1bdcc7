"""The exercises of chapter 2 on weights: the masked softmax and the expected position."""

import torch
from torch import Tensor

from attention_course.exercises.exercise import Exercise, Inputs, normal
from companion.attention.base import masked_softmax


def _scores_and_mask() -> Inputs:
    """One row has nothing to attend to, and some scores are extreme.

    In the last batch element ``exp`` overflows, and in one row it underflows. In another
    row a masked key would get all the weight except about ``exp(−100)``, which can still
    be normalised with 64 bits.
    """
    scores = normal(3, 5, 7, seed=1)
    mask = torch.rand(3, 5, 7, generator=torch.Generator().manual_seed(2)) < 0.6
    mask[..., 1], mask[..., 4] = True, False
    mask[1, 2] = False
    scores[2] += 1000
    scores[0, 3] -= 1000
    scores[0, 1, 4] += 100
    return {"scores": scores, "mask": mask}


def _filled(scores: Tensor, mask: Tensor, value: float) -> Tensor:
    return scores.masked_fill(~mask, value)


def _over_axis(axis: int, scores: Tensor, mask: Tensor) -> Tensor:
    return masked_softmax(scores.movedim(axis, -1), mask.movedim(axis, -1)).movedim(
        -1, axis
    )


def _masked_after(scores: Tensor, mask: Tensor) -> Tensor:
    return scores.softmax(-1) * mask


def _exponentials(scores: Tensor, mask: Tensor) -> Tensor:
    return scores.exp() * mask


_AXIS = "The softmax runs over {}. The weights of a query must sum to 1 over the keys, the last axis."
_EMPTY = "A row in which nothing may be attended to must get zero weights, but gets "
_LOWER = "Masked scores are set to −100: where real scores are even lower, the masked keys get the weight, "
MASKED_SOFTMAX = Exercise(
    inputs=_scores_and_mask(),
    solution=masked_softmax,
    mistakes={
        _AXIS.format("the queries (axis -2)"): lambda s, m: _over_axis(-2, s, m),
        _AXIS.format("the batch (axis 0)"): lambda s, m: _over_axis(0, s, m),
        _AXIS.format("all axes at once"): lambda s, m: masked_softmax(
            s.flatten(), m.flatten()
        ).view_as(s),
        _AXIS.format("queries and keys together"): lambda s, m: masked_softmax(
            s.flatten(1), m.flatten(1)
        ).view_as(s),
        "The mask is ignored: masked keys receive weight, too.": lambda s, m: s.softmax(
            -1
        ),
        "The mask is inverted: True means that the key may be attended to.": lambda s, m: (
            masked_softmax(s, ~m)
        ),
        _EMPTY + "NaN: the sum is 0, and 0/0 is NaN. Put zeros there.": lambda s, m: (
            _filled(s, m, -torch.inf).softmax(-1)
        ),
        _EMPTY
        + "equal ones: a softmax over −1e9 everywhere is uniform. Fill with −inf, then put zeros.": (
            lambda s, m: _filled(s, m, -1e9).softmax(-1)
        ),
        _EMPTY
        + "those without a mask: adding −1e9 to all its scores changes nothing. Use −inf, then zeros.": (
            lambda s, m: (s - 1e9 * ~m).softmax(-1)
        ),
        "The mask is applied after the softmax, so the rows no longer sum to 1: mask the scores first.": (
            _masked_after
        ),
        "Where a masked key had nearly all the weight, the constant in the sum dominates: mask the scores.": (
            lambda s, m: (
                _masked_after(s, m) / (_masked_after(s, m).sum(-1, keepdim=True) + 1e-9)
            )
        ),
        _LOWER
        + "and empty rows get equal weights. Set them to −inf, then put zeros.": (
            lambda s, m: _filled(s, m, -100.0).softmax(-1)
        ),
        _LOWER + "all of it. Set them to −inf.": (
            lambda s, m: _filled(s, m, -100.0).softmax(-1) * m.any(-1, keepdim=True)
        ),
        _LOWER + "and the real keys keep none. Set them to −inf.": (
            lambda s, m: _filled(s, m, -100.0).softmax(-1) * m
        ),
        "Masked scores are set to 0, but exp(0) is 1, so masked keys receive weight: set them to −inf.": (
            lambda s, m: _filled(s, m, 0.0).softmax(-1)
        ),
        "Masked scores are set to 0, but exp(0) is 1 and counts in the sum: set them to −inf.": (
            lambda s, m: _filled(s, m, 0.0).softmax(-1) * m
        ),
        "These are the logarithms of the weights: use softmax, not log_softmax.": (
            lambda s, m: _filled(s, m, -torch.inf).log_softmax(-1)
        ),
        "The exponentials are not divided by their sum.": _exponentials,
        "Large scores overflow: exp(1000) is infinite. Subtract the maximum first, or use torch.softmax.": (
            lambda s, m: _exponentials(s, m) / _exponentials(s, m).sum(-1, keepdim=True)
        ),
    },
)


def _weigh(weights: Tensor, start: int = 0) -> Tensor:
    return weights @ torch.arange(start, start + weights.shape[-1], dtype=weights.dtype)


def _query_positions(weights: Tensor) -> Tensor:
    return (weights * torch.arange(weights.shape[1], dtype=weights.dtype)[:, None]).sum(
        -1
    )


EXPECTED_POSITION = Exercise(
    inputs={"weights": (2 * normal(3, 5, 7, seed=21)).softmax(-1)},
    solution=_weigh,
    mistakes={
        "The positions are counted from 1: the first is 0.": lambda w: _weigh(w, 1),
        "The positions are counted from the end: the first is 0.": lambda w: _weigh(
            w.flip(-1)
        ),
        "The positions are counted from the end, and from 1: the first is 0.": lambda w: (
            _weigh(w.flip(-1), 1)
        ),
        "These are the positions of the queries: average the positions of the keys.": (
            _query_positions
        ),
        "This is the position of the largest weight: return the mean position under all weights.": (
            lambda w: w.argmax(-1)
        ),
        "The mean runs over the queries: it must run over the keys, the last axis.": lambda w: (
            _weigh(w.mT)
        ),
        "The weights are only summed, which gives 1: multiply each by its position first.": (
            lambda w: w.sum(-1)
        ),
        "It is divided by the number of keys: the weights sum to 1 already, so sum, do not average.": (
            lambda w: _weigh(w) / w.shape[-1]
        ),
        "The products with the positions are not summed over the keys.": (
            lambda w: w * torch.arange(w.shape[-1], dtype=w.dtype)
        ),
        "There is one mean for all queries: each query has its own.": lambda w: _weigh(
            w.mean(1)
        ),
    },
    hints={
        "same dtype|scalar type": "Both need the same dtype: torch.arange needs dtype=weights.dtype.",
        "size mismatch|must match|cannot be multiplied|does not broadcast": (
            "There is one position for each key: weights.shape[-1] of them."
        ),
    },
)
