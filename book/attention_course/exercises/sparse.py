"""The exercises of chapter 7: a rule of positions, the tiles of a mask, and merged softmaxes."""

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


def _needed(mask: Tensor, side: int) -> Tensor:
    return _tiles(mask, side).any(3).any(1)


def _tiles(mask: Tensor, side: int, outside: bool = False) -> Tensor:
    """Entry (a, p, b, q) is query p and key q of tile (a, b)."""
    n, m = mask.shape
    mask = pad(mask, (0, -m % side, 0, -n % side), value=outside)
    return mask.unflatten(0, (-1, side)).unflatten(2, (-1, side))


_I, _J = torch.arange(11)[:, None], torch.arange(13)
TILES = Exercise(
    inputs={"mask": ((_I - _J).abs() <= 1) | ((_J > 10) & (_I < 4)), "side": 3},
    solution=_needed,
    mistakes={
        "Only tiles that are allowed whole are needed: a single allowed score is enough, so use `any`.": (
            lambda m, s: _tiles(m, s).all(3).all(1)
        ),
        "The tiles are not squares: unflatten both axes, and reduce the two that are inside a tile.": (
            lambda m, s: (
                pad(m, (0, -13 % s, 0, -11 % s)).reshape(4, 5, s, s).any(3).any(2)
            )
        ),
        "The padding counts as allowed: pad with False.": lambda m, s: (
            _tiles(m, s, True).any(3).any(1)
        ),
        "The padding is in front: pad at the end of both axes.": lambda m, s: _needed(
            pad(m, (-13 % s, 0, -11 % s, 0)), s
        ),
        "The last tiles are missing: their number is rounded up.": lambda m, s: _needed(
            m[: 11 // s * s, : 13 // s * s], s
        ),
        "Queries and keys are swapped: the first axis is that of the queries.": lambda m, s: (
            _needed(m, s).T
        ),
        "This says which tiles are skipped: True means needed.": lambda m, s: (
            ~_needed(m, s)
        ),
        "There is one row and one column of tiles too many: pad with -n % side.": lambda m, s: (
            _needed(pad(m, (0, s - 13 % s + s, 0, s - 11 % s + s)), s)
        ),
    },
    hints={
        "invalid for input|don't multiply up|unflatten|not divisible": (
            "11 and 13 are not multiples of 3: pad both axes first."
        )
    },
)


def _merge(contexts: Tensor, lses: Tensor) -> Tensor:
    return _mix(contexts, lses.softmax(0))


def _mix(contexts: Tensor, weights: Tensor) -> Tensor:
    return (weights[..., None] * contexts).sum(0)


def _sums(contexts: Tensor, lses: Tensor) -> Tensor:
    return _mix(contexts, lses.exp()) / lses.exp().sum(0)[..., None]


def _one_after_the_other(contexts: Tensor, lses: Tensor) -> Tensor:
    """Each group merged with the log-sum-exp of the one before it alone."""
    merged = contexts[0]
    for context, before, lse in zip(contexts[1:], lses[:-1], lses[1:], strict=True):
        weight = (lse - before).sigmoid()[..., None]
        merged = (1 - weight) * merged + weight * context
    return merged


_LARGE = torch.tensor([0.0, 0.0, 800.0, 0.0, 0.0, -900.0, 0.0], dtype=torch.float64)
MERGE = Exercise(
    inputs={
        "contexts": normal(3, 2, 7, 5, seed=73),
        "lses": normal(3, 2, 7, seed=74) + _LARGE,
    },
    solution=_merge,
    mistakes={
        "The exponentials overflow, or all underflow: subtract the largest first, as `softmax` does.": _sums,
        "This is the mean of the groups: one with a larger sum has more weight.": lambda c, s: (
            c.mean(0)
        ),
        "The contexts are summed: their weights must sum to 1.": lambda c, s: c.sum(0),
        "The log-sum-exps are used as the sums: the sums are their exponentials.": lambda c, s: (
            _mix(c, s / s.sum(0))
        ),
        "The weights sum to 1 over the positions: they must do so over the groups.": (
            lambda c, s: _mix(c, s.softmax(-1))
        ),
        "The weights sum to 1 over the batch: they must do so over the groups.": (
            lambda c, s: _mix(c, s.softmax(1))
        ),
        "All positions have the same weights: each has its own.": lambda c, s: _mix(
            c, s.mean((1, 2), keepdim=True).softmax(0).expand(s.shape)
        ),
        "The third group is merged with the second alone: it needs the log-sum-exp of both before it, "
        "`torch.logaddexp`.": _one_after_the_other,
    },
    hints={
        "must match": "The log-sum-exps have no feature axis: add one of size 1 with [..., None]."
    },
)
EXERCISES = {"7.1": STRIDED, "7.2": TILES, "7.3": MERGE}
