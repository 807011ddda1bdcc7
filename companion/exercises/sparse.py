"""The exercises of chapter 7: a rule, a sequence by its classes, and two softmaxes joined."""

import torch
from torch import Tensor
from torch.nn.functional import pad

from companion.attention.masks import strided
from companion.exercises.exercise import Exercise, normal


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
        "It looks ahead: a key must not come after the query, j ≤ i.": lambda i, j, s: (
            _near(i, j, s) | _far(i, j, s)
        ),
        "Only the far part does not look ahead: the near one does.": lambda i, j, s: (
            _near(i, j, s) | (_far(i, j, s) & (j <= i))
        ),
        "Only the near part does not look ahead: the far one does.": lambda i, j, s: (
            (_near(i, j, s) & (j <= i)) | _far(i, j, s)
        ),
        "It sees only what is in both parts: to be in one is enough, `|` and not `&`.": lambda i, j, s: (
            _near(i, j, s) & _far(i, j, s) & (j <= i)
        ),
        "The far part is missing: every stride-th position before.": lambda i, j, s: (
            _near(i, j, s) & (j <= i)
        ),
        "The near part is missing: what came at most stride ago.": lambda i, j, s: (
            _far(i, j, s) & (j <= i)
        ),
        "The far positions are counted from the start of the sequence, j mod stride: they are counted from "
        "the query, (i − j) mod stride.": lambda i, j, s: (
            (_near(i, j, s) | (j % s == 0)) & (j <= i)
        ),
        "This is the fixed pattern's near part, the own block: it is what came at most stride ago.": (
            lambda i, j, s: ((i // s == j // s) | _far(i, j, s)) & (j <= i)
        ),
        "A position does not see itself: it may, j ≤ i.": lambda i, j, s: (
            _strided(i, j, s) & (j < i)
        ),
        "Query and key are exchanged: it sees what comes after it.": lambda i, j, s: (
            (_near(i, j, s) | _far(i, j, s)) & (i <= j)
        ),
        "It is the other way round: True means may attend.": lambda i, j, s: (
            ~_strided(i, j, s)
        ),
    },
    hints={
        "truth value|ambiguous|bool value": "Tensors are joined with `&` and `|`, not with `and` and `or`."
    },
)


def _by_class(x: Tensor, rate: int) -> Tensor:
    return (
        pad(x, (0, 0, 0, -x.shape[1] % rate)).unflatten(1, (-1, rate)).transpose(1, 2)
    )


def _filled(x: Tensor, rate: int) -> Tensor:
    return pad(x, (0, 0, 0, -x.shape[1] % rate))


BY_CLASS = Exercise(
    inputs={"x": normal(2, 11, 5, seed=71), "rate": 3},
    solution=_by_class,
    mistakes={
        "Each row holds neighbours: cut into (m, rate) first, and then exchange the two axes.": lambda x, r: (
            _filled(x, r).unflatten(1, (r, -1))
        ),
        "The two axes are not exchanged: class first, then the place in the class.": lambda x, r: (
            _filled(x, r).unflatten(1, (-1, r))
        ),
        "The zeros stand before the first position: they fill the end.": lambda x, r: (
            pad(x, (0, 0, -x.shape[1] % r, 0)).unflatten(1, (-1, r)).transpose(1, 2)
        ),
        "The last positions are cut off: m is rounded up, and zeros fill the end.": lambda x, r: (
            x[:, : x.shape[1] // r * r].unflatten(1, (-1, r)).transpose(1, 2)
        ),
        "A row of zeros is too many: only the last row is filled, with -n % rate zeros.": lambda x, r: (
            pad(x, (0, 0, 0, -x.shape[1] % r + r)).unflatten(1, (-1, r)).transpose(1, 2)
        ),
        "The last position is repeated where zeros should stand.": lambda x, r: (
            _by_class(torch.cat([x, x[:, -1:].expand(-1, -x.shape[1] % r, -1)], 1), r)
        ),
    },
    hints={
        "invalid for input|don't multiply up|unflatten|not divisible": (
            "11 positions do not fill rows of 3: add -n % rate rows of zeros first."
        )
    },
)


def _join(context: Tensor, lse: Tensor, other: Tensor, other_lse: Tensor) -> Tensor:
    return _mix(context, other, (other_lse - lse).sigmoid())


def _mix(context: Tensor, other: Tensor, share: Tensor) -> Tensor:
    return (1 - share[..., None]) * context + share[..., None] * other


def _sums(context: Tensor, lse: Tensor, other: Tensor, other_lse: Tensor) -> Tensor:
    one, two = lse.exp()[..., None], other_lse.exp()[..., None]
    return (one * context + two * other) / (one + two)


_LARGE = torch.tensor([0.0, 0.0, 800.0, 0.0, 0.0, -900.0, 0.0], dtype=torch.float64)
JOIN = Exercise(
    inputs={
        "context": normal(2, 7, 5, seed=73),
        "lse": normal(2, 7, seed=74) + _LARGE,
        "other": normal(2, 7, 5, seed=75),
        "other_lse": normal(2, 7, seed=76) + _LARGE,
    },
    solution=_join,
    mistakes={
        "The exponentials overflow, or both are 0: take the difference of the two first.": _sums,
        "The shares are exchanged: each context has the share of its own log-sum-exp.": lambda c, s, o, t: (
            _mix(c, o, (s - t).sigmoid())
        ),
        "This is the mean of the two: the part with the larger sum counts more.": lambda c, s, o, t: (
            (c + o) / 2
        ),
        "The contexts are added up: they share, and the shares sum to 1.": lambda c, s, o, t: (
            c + o
        ),
        "The log-sum-exps themselves are taken for the sums: their exponentials are.": lambda c, s, o, t: (
            _mix(c, o, t / (s + t))
        ),
        "The share is not divided by the sum of both: it is exp(lse_2) / (exp(lse_1) + exp(lse_2)).": (
            lambda c, s, o, t: c + (t - s).exp()[..., None] * o
        ),
        "All positions have the same share: each has its own.": lambda c, s, o, t: _mix(
            c, o, (t - s).mean().sigmoid().expand(s.shape)
        ),
    },
    hints={
        "must match": "The log-sum-exps have no axis of features: give them one of size 1 with [..., None]."
    },
)
EXERCISES = {"7.1": STRIDED, "7.2": BY_CLASS, "7.3": JOIN}
