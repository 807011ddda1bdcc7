"""The exercises of chapter 8: factorized scores, attention by a table, a Toeplitz table."""

import torch
from torch import Tensor

from attention_course.exercises.exercise import Exercise, normal


def _factorized(A: Tensor, B: Tensor) -> Tensor:
    return (B[..., :, None] * A[..., None, :]).flatten(-2)


def _tiled(x: Tensor, times: int) -> Tensor:
    return x.repeat(1, 1, times)


def _repeated(x: Tensor, times: int) -> Tensor:
    return x.repeat_interleave(times, -1)


FACTORIZED = Exercise(
    inputs={"A": normal(2, 7, 3, seed=81), "B": normal(2, 7, 5, seed=82)},
    solution=_factorized,
    mistakes={
        "Both are tiled: repeat each entry of B, otherwise some products occur twice and others never.": (
            lambda A, B: _tiled(A, B.shape[-1]) * _tiled(B, A.shape[-1])
        ),
        "Each entry of both is repeated: tile A, otherwise some products occur twice and others never.": (
            lambda A, B: _repeated(A, B.shape[-1]) * _repeated(B, A.shape[-1])
        ),
        "The roles of A and B are swapped: tile A, so that position r·a + c has its entry c.": (
            lambda A, B: _repeated(A, B.shape[-1]) * _tiled(B, A.shape[-1])
        ),
        "The entries are added: each score is a product.": lambda A, B: (
            B[..., :, None] + A[..., None, :]
        ).flatten(-2),
        "The last two axes, (b, a), are still separate: flatten them into one of a·b positions.": (
            lambda A, B: B[..., :, None] * A[..., None, :]
        ),
        "The last two axes are separate and in the wrong order: use (b, a), then flatten them.": (
            lambda A, B: A[..., :, None] * B[..., None, :]
        ),
        "This is a matrix product over the queries: the scores of a query depend on its own A and B only.": (
            lambda A, B: B.mT @ A
        ),
        "These are softmax weights: return the scores.": lambda A, B: _factorized(
            A, B
        ).softmax(-1),
    },
    hints={
        "must match|Expected size": (
            "Give A and B new axes, (…, 1, a) and (…, b, 1), before multiplying."
        ),
    },
)


def _table(R: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    return _first(R, value).masked_fill(~mask[:, None], -torch.inf).softmax(-1) @ value


def _first(R: Tensor, value: Tensor) -> Tensor:
    return R[:, : value.shape[1]]


TABLE = Exercise(
    inputs={
        "R": normal(5, 11, seed=83),
        "value": normal(2, 7, 3, seed=84),
        "mask": torch.arange(7) < torch.tensor([[7], [4]]),
    },
    solution=_table,
    mistakes={
        "There is no softmax: the weights of a query must sum to 1.": lambda R, v, m: (
            _first(R, v).masked_fill(~m[:, None], 0) @ v
        ),
        "There is no softmax and no mask: the weights must sum to 1 over the words.": lambda R, v, m: (
            _first(R, v) @ v
        ),
        "The mask is not used: padding receives weight.": lambda R, v, m: (
            _first(R, v).softmax(-1) @ v
        ),
        "The mask is inverted: True means that the position may be attended to.": lambda R, v, m: (
            _first(R, v).masked_fill(m[:, None], -torch.inf).softmax(-1) @ v
        ),
        "The mask is applied after the softmax: the remaining weights do not sum to 1.": lambda R, v, m: (
            _first(R, v).softmax(-1).masked_fill(~m[:, None], 0) @ v
        ),
        "The softmax is applied before the table is cut: it must sum to 1 over this sequence.": (
            lambda R, v, m: _first(R.softmax(-1), v).masked_fill(~m[:, None], 0) @ v
        ),
        "The softmax runs over the queries: it must run over the keys, the last axis.": lambda R, v, m: (
            _first(R, v).masked_fill(~m[:, None], -torch.inf).softmax(-2).nan_to_num()
            @ v
        ),
        "These are the last columns of the table: a shorter sequence uses the first.": lambda R, v, m: (
            _table(R[:, -v.shape[1] :], v, m)
        ),
        "Masked scores are 0, which is a score like any other: set them to −∞.": lambda R, v, m: (
            _first(R, v).masked_fill(~m[:, None], 0).softmax(-1) @ v
        ),
    },
    hints={
        "must match|broadcast|Expected size|cannot be multiplied": (
            "The table has 11 columns, but the sequence 7 positions: cut it. And a mask (b, n) needs an axis "
            "for the queries: mask[:, None]."
        ),
    },
)


def _offsets(n: int) -> Tensor:
    """The offset j − i of each key from each query."""
    return torch.arange(n) - torch.arange(n)[:, None]


def _by_offset(kernel: Tensor) -> Tensor:
    n = (kernel.shape[-1] + 1) // 2
    return kernel[:, _offsets(n) + n - 1]


def _middle(kernel: Tensor) -> int:
    return (kernel.shape[-1] + 1) // 2


BY_OFFSET = Exercise(
    inputs={"kernel": normal(3, 13, seed=85)},
    solution=_by_offset,
    mistakes={
        "It is mirrored: the offset is j − i, key minus query.": lambda k: _by_offset(
            k.flip(-1)
        ),
        "It depends on i + j: the offset is j − i.": lambda k: k[
            :, torch.arange(_middle(k)) + torch.arange(_middle(k))[:, None]
        ],
        "It depends on the distance |j − i|: left and right must differ.": lambda k: k[
            :, _offsets(_middle(k)).abs() + _middle(k) - 1
        ],
        "Offset 0 must be in the middle: use entry j − i + n − 1; a negative j − i counts from the end.": (
            lambda k: k[:, _offsets(_middle(k))]
        ),
        "It is off by one: the diagonal is entry n − 1.": lambda k: k[
            :, (_offsets(_middle(k)) + _middle(k)) % k.shape[-1]
        ],
        "The rows wrap around: entries shifted out on one side must not reappear on the other.": lambda k: (
            k[:, _offsets(_middle(k)) % _middle(k) + _middle(k) - 1]
        ),
        "These are softmax weights: return the scores.": lambda k: _by_offset(
            k
        ).softmax(-1),
    },
    hints={
        "out of bounds|out of range|maximum size": "The kernel has 2n − 1 entries: n is (entries + 1) / 2."
    },
)
EXERCISES = {"8.1": FACTORIZED, "8.2": TABLE, "8.3": BY_OFFSET}
