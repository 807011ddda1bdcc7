"""The exercises of chapter 5: the general score, local-p's centres and its weights."""

import torch
from torch import Tensor

from attention_course.exercises.exercise import Exercise, Inputs, normal
from companion.attention.base import masked_softmax


def _query_and_key(query_size: int, key_size: int) -> Inputs:
    sizes = {
        "query": (2, 3, query_size),
        "key": (2, 5, key_size),
        "W": (query_size, key_size),
    }
    return {
        name: normal(*shape, seed=seed) / 2
        for seed, (name, shape) in enumerate(sizes.items(), 51)
    }


def _general(query: Tensor, key: Tensor, W: Tensor) -> Tensor:
    return query @ W @ key.mT


GENERAL_SCORES = Exercise(
    inputs=_query_and_key(7, 11),
    solution=_general,
    mistakes={
        "There is a tanh around the scores: that is another score.": lambda q, k, W: (
            _general(q, k, W).tanh()
        ),
        "There is a tanh around W k: general has none.": lambda q, k, W: (
            q @ (k @ W.mT).tanh().mT
        ),
        "There is a tanh around the query's part: general has none.": lambda q, k, W: (
            (q @ W).tanh() @ k.mT
        ),
        "These are weights: return the scores, before any softmax.": lambda q, k, W: (
            _general(q, k, W).softmax(-1)
        ),
        "The scores are divided by √d: general does not scale.": lambda q, k, W: (
            _general(q * q.shape[-1] ** -0.5, k, W)
        ),
        "The scores are divided by the root of the keys' dimension: general does not scale.": (
            lambda q, k, W: _general(q * k.shape[-1] ** -0.5, k, W)
        ),
        "Every query gets the scores of the first query.": lambda q, k, W: _general(
            q[:, :1].expand_as(q), k, W
        ),
        "The products are not summed over the dimensions.": lambda q, k, W: (
            (q @ W)[:, :, None] * k[:, None]
        ),
    },
    hints={
        "must match|mat1 and mat2|Expected size": (
            "W is (d, e) and maps keys from e to d dimensions. A batch is transposed by .mT, not by .T."
        )
    },
    alike=_query_and_key(7, 7),
    confusions={
        "W is transposed: it is (d, e), so the scores are query @ W @ key.mT.": lambda q, k, W: (
            _general(q, k, W.mT)
        ),
        "W is missing: this is the score dot.": lambda q, k, W: q @ k.mT,
        "W is used twice, for the query and for the key.": lambda q, k, W: (
            (q @ W) @ (k @ W.mT).mT
        ),
    },
)


def _centre_inputs(size: int) -> Inputs:
    return {
        "query": normal(2, 3, 7, seed=54),
        "lengths": torch.tensor([11, 4]),
        "W": normal(size, 7, seed=55) / 2,
        "v": normal(size, seed=56),
    }


def _relative_centre(query: Tensor, W: Tensor, v: Tensor) -> Tensor:
    return ((query @ W.mT).tanh() @ v).sigmoid()


def _centre(query: Tensor, lengths: Tensor, W: Tensor, v: Tensor) -> Tensor:
    return lengths[:, None] * _relative_centre(query, W, v)


PREDICTED_CENTRE = Exercise(
    inputs=_centre_inputs(5),
    solution=_centre,
    mistakes={
        "Every sentence gets the length of the longest: S is the length of each sentence.": (
            lambda q, n, W, v: n.max() * _relative_centre(q, W, v)
        ),
        "S is missing: this is a fraction of the sentence, not a position in it.": lambda q, n, W, v: (
            _relative_centre(q, W, v)
        ),
        "S is the number of queries: it is the length of the source.": lambda q, n, W, v: (
            q.shape[1] * _relative_centre(q, W, v)
        ),
        "S − 1 is used instead of S: p_t lies between 0 and S.": lambda q, n, W, v: (
            _centre(q, n - 1, W, v)
        ),
        "The tanh is missing.": lambda q, n, W, v: (
            n[:, None] * (q @ W.mT @ v).sigmoid()
        ),
        "The sigmoid is missing: p_t could lie outside the sentence.": lambda q, n, W, v: (
            n[:, None] * ((q @ W.mT).tanh() @ v)
        ),
        "There is a tanh instead of the sigmoid: half of its values are negative.": lambda q, n, W, v: (
            n[:, None] * ((q @ W.mT).tanh() @ v).tanh()
        ),
        "There is a sigmoid instead of the tanh.": lambda q, n, W, v: (
            n[:, None] * ((q @ W.mT).sigmoid() @ v).sigmoid()
        ),
        "There is a softmax over the queries instead of the sigmoid.": lambda q, n, W, v: (
            n[:, None] * ((q @ W.mT).tanh() @ v).softmax(-1)
        ),
        "S is inside the sigmoid: multiply by it afterwards.": lambda q, n, W, v: (
            n[:, None] * ((q @ W.mT).tanh() @ v)
        ).sigmoid(),
        "p_t is rounded: it must remain a real number, otherwise it has no gradient.": lambda q, n, W, v: (
            _centre(q, n, W, v).round()
        ),
        "p_t is rounded down: it must remain a real number, otherwise it has no gradient.": (
            lambda q, n, W, v: _centre(q, n, W, v).floor()
        ),
        "v is missing: the components are only summed.": lambda q, n, W, v: (
            n[:, None] * (q @ W.mT).tanh().sum(-1).sigmoid()
        ),
    },
    hints={
        "must match|must be broadcastable": "lengths is (b), p_t is (b, q): lengths needs one more axis, "
        "lengths[:, None]."
    },
    alike=_centre_inputs(7),
    confusions={
        "W is transposed: it is (e, d), so its part is query @ W.mT.": lambda q, n, W, v: (
            _centre(q, n, W.mT, v)
        )
    },
)


def _squared(scores: Tensor, centre: Tensor) -> Tensor:
    positions = torch.arange(scores.shape[-1], dtype=scores.dtype)
    return (positions - centre[..., None]).square()


def _in_window(scores: Tensor, centre: Tensor, radius: int) -> Tensor:
    return masked_softmax(scores, _squared(scores, centre) <= radius**2)


def _gaussian(scores: Tensor, centre: Tensor, sigma: float) -> Tensor:
    return torch.exp(-_squared(scores, centre) / (2 * sigma**2))


def _local_p(scores: Tensor, centre: Tensor, radius: int) -> Tensor:
    return _in_window(scores, centre, radius) * _gaussian(scores, centre, radius / 2)


LOCAL_P_WEIGHTS = Exercise(
    inputs={
        "scores": normal(2, 3, 11, seed=57),
        "centre": torch.tensor(
            [[0.3, 4.0, 5.5], [6.7, 2.6, 10.8]], dtype=torch.float64
        ),
        "radius": 3,
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
                e.softmax(-1) * _gaussian(e, p, D / 2) * (_squared(e, p) <= D**2)
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
                * torch.exp(-_squared(e, p).sqrt() / (2 * (D / 2) ** 2))
            )
        ),
        "The ends of the window are excluded: |s − p| may equal D.": (
            lambda e, p, D: (
                masked_softmax(e, _squared(e, p) < D**2) * _gaussian(e, p, D / 2)
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
EXERCISES = {"5.1": GENERAL_SCORES, "5.2": PREDICTED_CENTRE, "5.3": LOCAL_P_WEIGHTS}
