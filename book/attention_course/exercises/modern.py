"""The exercises of chapter 12: rotations, shared keys, and linear attention as a recurrence."""

import torch
from torch import Tensor

from attention_course.exercises.exercise import Exercise, normal
from companion.attention.linear import parallel_linear_attention


def _angle(x: Tensor, position: Tensor, base: float, step: float = 2) -> Tensor:
    """An angle for each position and pair, ``(n, d/2)``."""
    pairs = x.shape[-2]
    exponent = -step * torch.arange(pairs, dtype=x.dtype) / (2 * pairs)
    return position.to(x.dtype)[:, None] * base**exponent


def _turned(x: Tensor, angle: Tensor) -> Tensor:
    (first, second), cos, sin = x.unbind(-1), angle.cos(), angle.sin()
    return torch.stack([first * cos - second * sin, first * sin + second * cos], -1)


def _rotate(x: Tensor, position: Tensor, base: float) -> Tensor:
    return _turned(x, _angle(x, position, base))


ROTATE = Exercise(
    inputs={
        "x": normal(3, 7, 5, 2, seed=121),
        "position": torch.tensor([0, 1, 2, 5, 11, 23, 40]),
        "base": 100.0,
    },
    solution=_rotate,
    mistakes={
        "It turns the other way: the first of a pair is x cos − y sin, the second x sin + y cos.": (
            lambda x, p, base: _turned(x, -_angle(x, p, base))
        ),
        "The rows are counted 0, 1, 2, …: use `position`.": lambda x, p, base: _rotate(
            x, torch.arange(len(p)), base
        ),
        "Positions are counted from 1: take them as they are.": lambda x, p, base: (
            _rotate(x, p + 1, base)
        ),
        "The exponent lacks its factor 2: it is −2t/d, where d is twice the number of pairs.": (
            lambda x, p, base: _turned(x, _angle(x, p, base, step=1))
        ),
        "The exponent is −2t divided by the number of pairs: divide by d, which is twice as many.": (
            lambda x, p, base: _turned(x, _angle(x, p, base, step=4))
        ),
        "The exponent has no minus, so that later pairs turn faster: they turn more slowly.": (
            lambda x, p, base: _turned(x, _angle(x, p, base, step=-2))
        ),
        "All pairs turn at one speed: pair t turns by base^(−2t/d).": (
            lambda x, p, base: _turned(x, _angle(x, p, base, step=0))
        ),
        "Cosine and sine are swapped.": lambda x, p, base: _turned(
            x, torch.pi / 2 - _angle(x, p, base)
        ),
        "Each number is only scaled, by a cosine or a sine: a rotation mixes the two of a pair.": (
            lambda x, p, base: (
                x
                * torch.stack([_angle(x, p, base).cos(), _angle(x, p, base).sin()], -1)
            )
        ),
        "The angles are taken as degrees: cos and sin take radians.": lambda x, p, base: (
            _turned(x, _angle(x, p, base) * torch.pi / 180)
        ),
    },
    hints={
        "must match": "The angles are (n, d/2): position[:, None] times one frequency a pair."
    },
)


def _shared(keys: Tensor, share: int) -> Tensor:
    return keys.repeat_interleave(share, 1)


SHARED = Exercise(
    inputs={"keys": normal(2, 3, 5, 7, seed=122), "share": 2},
    solution=_shared,
    mistakes={
        "The heads alternate, 0, 1, 2, 0, 1, 2: those that share a key are neighbours, 0, 0, 1, 1.": (
            lambda keys, share: keys.repeat(1, share, 1, 1)
        ),
        "Positions are repeated, not heads: the heads are the second axis.": (
            lambda keys, share: keys.repeat_interleave(share, 2)
        ),
        "Features are repeated, not heads: the heads are the second axis.": (
            lambda keys, share: keys.repeat_interleave(share, 3)
        ),
        "The batch is repeated, not the heads: they are the second axis.": (
            lambda keys, share: keys.repeat_interleave(share, 0)
        ),
        "There is one head too many for each key: `share` counts all heads that use it.": (
            lambda keys, share: keys.repeat_interleave(share + 1, 1)
        ),
        "The copies have an axis of their own: join it with the heads.": (
            lambda keys, share: keys[:, :, None].expand(-1, -1, share, -1, -1)
        ),
    },
    hints={
        "view size is not compatible": (
            "After expand the copies do not lie one after the other: use reshape, not view."
        )
    },
)


def _shifted(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Contexts of the positions before each one; zero for the first."""
    products = (query @ key.mT).tril(-1)
    below = products.sum(-1, keepdim=True)
    empty = below == 0
    return (products @ value / below.masked_fill(empty, 1)).masked_fill(empty, 0)


LINEAR = Exercise(
    inputs={
        "query": normal(2, 7, 3, seed=123).exp(),
        "key": normal(2, 7, 3, seed=124).exp(),
        "value": normal(2, 7, 5, seed=125),
    },
    solution=parallel_linear_attention,
    mistakes={
        "It is not causal: position i reads the sums over j ≤ i, not over all positions.": (
            lambda q, k, v: q @ (k.mT @ v) / (q @ k.sum(1)[..., None])
        ),
        "A position is read before it is written: add φ(k_i) v_iᵀ to the state first.": (
            _shifted
        ),
        "It is not normalised: divide by φ(q_i)ᵀ z_i.": lambda q, k, v: (
            (q @ k.mT).tril() @ v
        ),
        "It is divided by the number of positions: divide by φ(q_i)ᵀ z_i.": (
            lambda q, k, v: (
                (q @ k.mT).tril()
                @ v
                / torch.arange(1, q.shape[1] + 1, dtype=q.dtype)[:, None]
            )
        ),
        "The denominator has all keys: z_i, too, is a sum over j ≤ i.": lambda q, k, v: (
            (q @ k.mT).tril() @ v / (q @ k.sum(1)[..., None])
        ),
        "This is softmax attention: its weights are products of features, without an exponential.": (
            lambda q, k, v: (
                (q @ k.mT)
                .masked_fill(
                    torch.ones(q.shape[1], q.shape[1]).triu(1).bool(), -torch.inf
                )
                .softmax(-1)
                @ v
            )
        ),
        "The state forgets: only the last product is in it. Add each to those before.": (
            lambda q, k, v: v + 0 * q.sum() + 0 * k.sum()
        ),
        "Query and key are swapped.": lambda q, k, v: parallel_linear_attention(
            k, q, v
        ),
        "The state is zero at every position but the first: it must be kept from step to step.": (
            lambda q, k, v: torch.cat([v[:, :1], 0 * v[:, 1:]], 1) + 0 * (q + k).sum()
        ),
    },
    hints={
        "in-place|inplace|modified by an inplace": (
            "Write S = S + … instead of S += …: the gradient needs the earlier states."
        )
    },
)
EXERCISES = {"12.1": ROTATE, "12.2": SHARED, "12.3": LINEAR}
