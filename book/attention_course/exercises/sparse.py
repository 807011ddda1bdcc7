"""The exercises of chapter 7: a mask rule, residue classes, and merged softmaxes."""

import torch
from torch import Tensor
from torch.nn.functional import pad

from attention_course.exercises.exercise import Exercise, normal
from companion.attention.masks import strided


def _strided(i: Tensor, j: Tensor, stride: int) -> Tensor:
    return strided(stride)(i, j)


def _near(i: Tensor, j: Tensor, stride: int) -> Tensor:
    return (i - j).abs() <= stride


def _far(i: Tensor, j: Tensor, stride: int) -> Tensor:
    return (i - j) % stride == 0


STRIDED = Exercise(
    inputs={
        "i": torch.arange(11)[:, None],
        "j": torch.arange(13)[None, :],
        "stride": 3,
    },
    solution=_strided,
    mistakes={
        "It is not causal: a key must not come after the query, j ≤ i.": lambda i, j, s: (
            _near(i, j, s) | _far(i, j, s)
        ),
        "Only the far part is causal: the near part must be, too.": lambda i, j, s: (
            _near(i, j, s) | (_far(i, j, s) & (j <= i))
        ),
        "Only the near part is causal: the far part must be, too.": lambda i, j, s: (
            (_near(i, j, s) & (j <= i)) | _far(i, j, s)
        ),
        "Only keys in both parts are allowed: one part is enough, so use `|` instead of `&`.": (
            lambda i, j, s: _near(i, j, s) & _far(i, j, s) & (j <= i)
        ),
        "The far part is missing: every stride-th earlier position.": lambda i, j, s: (
            _near(i, j, s) & (j <= i)
        ),
        "The near part is missing: the last `stride` positions.": lambda i, j, s: (
            _far(i, j, s) & (j <= i)
        ),
        "The far positions are counted from the start of the sequence, j mod stride: count them from "
        "the query, (i − j) mod stride.": lambda i, j, s: (
            (_near(i, j, s) | (j % s == 0)) & (j <= i)
        ),
        "The near part is that of the fixed pattern, the query's block: use the last `stride` positions.": (
            lambda i, j, s: ((i // s == j // s) | _far(i, j, s)) & (j <= i)
        ),
        "A position may not attend to itself: it should, j ≤ i.": lambda i, j, s: (
            _strided(i, j, s) & (j < i)
        ),
        "Query and key are swapped: positions attend to later ones.": lambda i, j, s: (
            (_near(i, j, s) | _far(i, j, s)) & (i <= j)
        ),
        "The mask is inverted: True means may attend.": lambda i, j, s: (
            ~_strided(i, j, s)
        ),
    },
    hints={
        "truth value|ambiguous|bool value": (
            "Boolean tensors are combined with `&` and `|`, not with `and` and `or`."
        )
    },
)


def _by_class(x: Tensor, rate: int) -> Tensor:
    return (
        pad(x, (0, 0, 0, -x.shape[1] % rate)).unflatten(1, (-1, rate)).transpose(1, 2)
    )


def _padded(x: Tensor, rate: int) -> Tensor:
    return pad(x, (0, 0, 0, -x.shape[1] % rate))


BY_CLASS = Exercise(
    inputs={"x": normal(2, 11, 5, seed=71), "rate": 3},
    solution=_by_class,
    mistakes={
        "Each row contains neighbours: unflatten into (m, rate) first, then transpose the two axes.": (
            lambda x, r: _padded(x, r).unflatten(1, (r, -1))
        ),
        "The two axes are not transposed: the class comes first, then the position in the class.": (
            lambda x, r: _padded(x, r).unflatten(1, (-1, r))
        ),
        "The zeros are before the first position: pad at the end.": lambda x, r: (
            pad(x, (0, 0, -x.shape[1] % r, 0)).unflatten(1, (-1, r)).transpose(1, 2)
        ),
        "The last positions are cut off: m is rounded up, and the end padded with zeros.": lambda x, r: (
            x[:, : x.shape[1] // r * r].unflatten(1, (-1, r)).transpose(1, 2)
        ),
        "There is one row of zeros too many: pad with -n % rate zeros.": lambda x, r: (
            pad(x, (0, 0, 0, -x.shape[1] % r + r)).unflatten(1, (-1, r)).transpose(1, 2)
        ),
        "The padding repeats the last position: use zeros.": lambda x, r: _by_class(
            torch.cat([x, x[:, -1:].expand(-1, -x.shape[1] % r, -1)], 1), r
        ),
    },
    hints={
        "invalid for input|don't multiply up|unflatten|not divisible": (
            "11 positions are not a multiple of 3: pad with -n % rate zeros first."
        )
    },
)


def _merge(context: Tensor, lse: Tensor, other: Tensor, other_lse: Tensor) -> Tensor:
    return _mix(context, other, (other_lse - lse).sigmoid())


def _mix(context: Tensor, other: Tensor, weight: Tensor) -> Tensor:
    return (1 - weight[..., None]) * context + weight[..., None] * other


def _sums(context: Tensor, lse: Tensor, other: Tensor, other_lse: Tensor) -> Tensor:
    one, two = lse.exp()[..., None], other_lse.exp()[..., None]
    return (one * context + two * other) / (one + two)


_LARGE = torch.tensor([0.0, 0.0, 800.0, 0.0, 0.0, -900.0, 0.0], dtype=torch.float64)
MERGE = Exercise(
    inputs={
        "context": normal(2, 7, 5, seed=73),
        "lse": normal(2, 7, seed=74) + _LARGE,
        "other": normal(2, 7, 5, seed=75),
        "other_lse": normal(2, 7, seed=76) + _LARGE,
    },
    solution=_merge,
    mistakes={
        "The exponentials overflow, or both underflow: take the difference of the two first.": _sums,
        "The weights are swapped: each context has the weight of its own log-sum-exp.": lambda c, s, o, t: (
            _mix(c, o, (s - t).sigmoid())
        ),
        "This is the mean of the two: the part with the larger sum has more weight.": lambda c, s, o, t: (
            (c + o) / 2
        ),
        "The contexts are summed: their weights must sum to 1.": lambda c, s, o, t: (
            c + o
        ),
        "The log-sum-exps are used as the sums: the sums are their exponentials.": lambda c, s, o, t: (
            _mix(c, o, t / (s + t))
        ),
        "The weight is not normalised: it is exp(lse_2) / (exp(lse_1) + exp(lse_2)).": (
            lambda c, s, o, t: c + (t - s).exp()[..., None] * o
        ),
        "All positions have the same weight: each has its own.": lambda c, s, o, t: (
            _mix(c, o, (t - s).mean().sigmoid().expand(s.shape))
        ),
    },
    hints={
        "must match": "The log-sum-exps have no feature axis: add one of size 1 with [..., None]."
    },
)
EXERCISES = {"7.1": STRIDED, "7.2": BY_CLASS, "7.3": MERGE}
