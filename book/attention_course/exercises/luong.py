"""The exercises of chapter 5: the score concat, the gradient of local-p's centre, its weights."""

import torch
from torch import Tensor

from attention_course.exercises.exercise import Exercise, Inputs, normal
from companion.attention.base import masked_softmax


def _concat_inputs(query_dim: int, key_dim: int) -> Inputs:
    return {
        "query": normal(3, 5, query_dim, seed=51),
        "keys": normal(3, 7, key_dim, seed=52),
        "W": normal(17, query_dim + key_dim, seed=53) / 2,
        "v": normal(17, seed=54),
    }


def _parts(query: Tensor, keys: Tensor, W: Tensor) -> tuple[Tensor, Tensor]:
    """The part of W [q; k] that each query has, and that of each key, to be added."""
    split = query.shape[-1]
    return (query @ W[:, :split].mT)[:, :, None], (keys @ W[:, split:].mT)[:, None]


def _hidden(query: Tensor, keys: Tensor, W: Tensor) -> Tensor:
    from_query, from_key = _parts(query, keys, W)
    return from_query + from_key


def _concat(query: Tensor, keys: Tensor, W: Tensor, v: Tensor) -> Tensor:
    return _hidden(query, keys, W).tanh() @ v


CONCAT_SCORES = Exercise(
    inputs=_concat_inputs(2, 11),
    solution=_concat,
    mistakes={
        "The tanh is missing: the weights do not depend on the query.": (
            lambda q, k, W, v: _hidden(q, k, W) @ v
        ),
        "The tanh is around the scores: it belongs around W [q; k].": (
            lambda q, k, W, v: (_hidden(q, k, W) @ v).tanh()
        ),
        "Each part has a tanh of its own: the sum has one.": (
            lambda q, k, W, v: sum(part.tanh() for part in _parts(q, k, W)) @ v
        ),
        "v is missing: the components are only summed.": (
            lambda q, k, W, v: _hidden(q, k, W).tanh().sum(-1)
        ),
        "The query's part is missing.": (
            lambda q, k, W, v: (
                _parts(q, k, W)[1].expand(-1, q.shape[1], -1, -1).tanh() @ v
            )
        ),
        "The key's part is missing.": (
            lambda q, k, W, v: (
                _parts(q, k, W)[0].expand(-1, -1, k.shape[1], -1).tanh() @ v
            )
        ),
        "These are weights: return the scores, before any softmax.": (
            lambda q, k, W, v: _concat(q, k, W, v).softmax(-1)
        ),
        "The two halves of W are swapped: the first columns belong to the query.": (
            lambda q, k, W, v: _concat(q, k, W.roll(q.shape[-1], 1), v)
        ),
        "There is a sigmoid instead of the tanh.": (
            lambda q, k, W, v: _hidden(q, k, W).sigmoid() @ v
        ),
    },
    hints={
        "must match|mat1 and mat2|Expected size|size of tensor": (
            "The first n columns of W belong to the query, the others to the key. The query's part needs"
            " an axis for the keys, the key's part one for the queries."
        )
    },
    alike=_concat_inputs(2, 2),
    confusions={
        "The query's columns of W are used for the key, too.": lambda q, k, W, v: (
            ((q[:, :, None] + k[:, None]) @ W[:, : q.shape[-1]].mT).tanh() @ v
        ),
    },
)


_WINDOWS: Inputs = {
    "centre": torch.tensor([[0.3, 4.0, 5.5], [6.7, 2.6, 10.8]], dtype=torch.float64),
    "radius": 3,
}


def _distance(of_positions: Tensor, centre: Tensor) -> Tensor:
    """Of each position from the centre; the first tensor has a number for each position."""
    positions = torch.arange(of_positions.shape[-1], dtype=of_positions.dtype)
    return positions - centre[..., None]


def _centre_gradient(
    weights: Tensor, gradient: Tensor, centre: Tensor, radius: int
) -> Tensor:
    moved = (gradient * weights * _distance(weights, centre)).sum(-1)
    return moved / (radius / 2) ** 2


CENTRE_GRADIENT = Exercise(
    inputs={
        "weights": normal(2, 3, 11, seed=55).softmax(-1),
        "gradient": normal(2, 3, 11, seed=56),
        **_WINDOWS,
    },
    solution=_centre_gradient,
    mistakes={
        "The sign is wrong: the distance is s − p, and not p − s.": (
            lambda a, g, p, D: -_centre_gradient(a, g, p, D)
        ),
        "The weights are missing: each position counts as much as its weight.": (
            lambda a, g, p, D: _centre_gradient(torch.ones_like(a), g, p, D)
        ),
        "The gradient is missing: this is the derivative of the sum of the weights.": (
            lambda a, g, p, D: _centre_gradient(a, torch.ones_like(g), p, D)
        ),
        "The distance is missing.": (
            lambda a, g, p, D: (g * a).sum(-1) / (D / 2) ** 2 + 0 * p
        ),
        "σ is D: it must be D / 2.": lambda a, g, p, D: _centre_gradient(
            a, g, p, 2 * D
        ),
        "σ is not squared.": lambda a, g, p, D: _centre_gradient(a, g, p, D) * (D / 2),
        "σ² is missing.": lambda a, g, p, D: (
            _centre_gradient(a, g, p, D) * (D / 2) ** 2
        ),
        "There is a factor of 2 in σ²: the derivative of the square cancels it.": (
            lambda a, g, p, D: _centre_gradient(a, g, p, D) / 2
        ),
        "The positions are counted from 1: the first is 0.": lambda a, g, p, D: (
            _centre_gradient(a, g, p - 1, D)
        ),
        "It is not summed over the positions: a centre has one gradient.": (
            lambda a, g, p, D: g * a * _distance(a, p) / (D / 2) ** 2
        ),
        "It is a mean over the positions: it must be their sum.": (
            lambda a, g, p, D: _centre_gradient(a, g, p, D) / a.shape[-1]
        ),
        "The distance has no sign: the centre must know in which direction to move.": (
            lambda a, g, p, D: (g * a * _distance(a, p).abs()).sum(-1) / (D / 2) ** 2
        ),
    },
    hints={
        "must match|size of tensor": (
            "centre is (b, t): the distances need an axis for the positions, centre[..., None]."
        )
    },
)


def _in_window(scores: Tensor, centre: Tensor, radius: int) -> Tensor:
    return masked_softmax(scores, _distance(scores, centre).square() <= radius**2)


def _gaussian(scores: Tensor, centre: Tensor, sigma: float) -> Tensor:
    return torch.exp(-_distance(scores, centre).square() / (2 * sigma**2))


def _local_p(scores: Tensor, centre: Tensor, radius: int) -> Tensor:
    return _in_window(scores, centre, radius) * _gaussian(scores, centre, radius / 2)


LOCAL_P_WEIGHTS = Exercise(
    inputs={
        "scores": normal(2, 3, 11, seed=57),
        **_WINDOWS,
    },
    solution=_local_p,
    mistakes={
        "The weights sum to 1: the logarithm of the Gaussian was added to the scores, or the weights were "
        "renormalised. The Gaussian multiplies the weights after the softmax, and they stay unnormalised.": (
            lambda e, p, D: _in_window(e + _gaussian(e, p, D / 2).log(), p, D)
        ),
        "The scores are multiplied by the Gaussian: it multiplies the weights, after the softmax.": (
            lambda e, p, D: _in_window(e * _gaussian(e, p, D / 2), p, D)
        ),
        "The Gaussian is missing: these are the weights of a window alone, as in local-m.": _in_window,
        "The window is missing: the softmax runs over the whole source.": (
            lambda e, p, D: e.softmax(-1) * _gaussian(e, p, D / 2)
        ),
        "The window comes after the softmax: the softmax must run over the window only.": (
            lambda e, p, D: (
                e.softmax(-1)
                * _gaussian(e, p, D / 2)
                * (_distance(e, p).square() <= D**2)
            )
        ),
        "σ is D: it must be D / 2.": lambda e, p, D: (
            _in_window(e, p, D) * _gaussian(e, p, float(D))
        ),
        "σ is not squared: the squared distance is divided by 2σ².": (
            lambda e, p, D: _in_window(e, p, D) * _gaussian(e, p, (D / 2) ** 0.5)
        ),
        "The 2 is missing in 2σ².": (
            lambda e, p, D: _in_window(e, p, D) * _gaussian(e, p, D / 2) ** 2
        ),
        "The Gaussian has a factor 1/(σ√(2π)), as a density has: here it is 1 at the centre.": (
            lambda e, p, D: _local_p(e, p, D) / (D / 2 * (2 * torch.pi) ** 0.5)
        ),
        "The distance is not squared: this is exp(−|s − p| / 2σ²).": (
            lambda e, p, D: (
                _in_window(e, p, D)
                * torch.exp(-_distance(e, p).abs() / (2 * (D / 2) ** 2))
            )
        ),
        "The ends of the window are excluded: |s − p| may equal D.": (
            lambda e, p, D: (
                masked_softmax(e, _distance(e, p).square() < D**2)
                * _gaussian(e, p, D / 2)
            )
        ),
        "The centre is rounded: p_t is a real number.": lambda e, p, D: _local_p(
            e, p.round(), D
        ),
        "The centre is rounded down: p_t is a real number.": lambda e, p, D: _local_p(
            e, p.floor(), D
        ),
        "The window is centred at the rounded p_t, the Gaussian at p_t: here both are centred at p_t.": (
            lambda e, p, D: _in_window(e, p.round(), D) * _gaussian(e, p, D / 2)
        ),
        "The window is centred at p_t rounded down, as in the authors' code: here at p_t itself.": (
            lambda e, p, D: _in_window(e, p.floor(), D) * _gaussian(e, p, D / 2)
        ),
        "The positions are counted from 1: the first is 0.": lambda e, p, D: _local_p(
            e, p - 1, D
        ),
    },
    hints={
        "must match": "centre is (b, q): the distances need an axis for the positions, centre[..., None]."
    },
)
EXERCISES = {"5.1": CONCAT_SCORES, "5.2": CENTRE_GRADIENT, "5.3": LOCAL_P_WEIGHTS}
