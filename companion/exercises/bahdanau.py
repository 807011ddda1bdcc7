"""The exercises of chapter 2, Bahdanau attention."""

import torch
from torch import Tensor
from torch.nn import functional

from companion.attention import masked_softmax
from companion.exercises.exercise import Exercise, Inputs


def _normal(*size: int, seed: int) -> Tensor:
    return torch.randn(*size, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


# 2.1: masked softmax


def _scores_and_mask() -> Inputs:
    """One row has nothing to attend to, and some scores are so large that ``exp`` alone overflows."""
    scores = _normal(3, 5, 7, seed=1)
    scores[2] += 1000
    mask = torch.rand(3, 5, 7, generator=torch.Generator().manual_seed(2)) < 0.6
    mask[..., 1], mask[..., 4] = True, False
    mask[1, 2] = False
    return {"scores": scores, "mask": mask}


def _filled(scores: Tensor, mask: Tensor, value: float) -> Tensor:
    return scores.masked_fill(~mask, value)


def _over_axis(axis: int, scores: Tensor, mask: Tensor) -> Tensor:
    return masked_softmax(scores.movedim(axis, -1), mask.movedim(axis, -1)).movedim(-1, axis)


def _exponentials(scores: Tensor, mask: Tensor) -> Tensor:
    return scores.exp() * mask


_AXIS = "The softmax runs over {}. A query's weights over the keys must sum to 1: it runs over the last axis."
_EMPTY = "A row in which nothing may be attended to must get zero weights, and gets "

MASKED_SOFTMAX = Exercise(
    inputs=_scores_and_mask(),
    solution=masked_softmax,
    mistakes={
        _AXIS.format("the queries (axis -2)"): lambda s, m: _over_axis(-2, s, m),
        _AXIS.format("the batch (axis 0)"): lambda s, m: _over_axis(0, s, m),
        _AXIS.format("all axes at once"): lambda s, m: masked_softmax(s.flatten(), m.flatten()).view_as(s),
        _AXIS.format("queries and keys together"): lambda s, m: masked_softmax(
            s.flatten(1), m.flatten(1)
        ).view_as(s),
        "The mask is ignored: masked keys get weight too.": lambda s, m: s.softmax(-1),
        "The mask is the wrong way round: True means that the key may be attended to.": lambda s, m: (
            masked_softmax(s, ~m)
        ),
        _EMPTY + "NaN: a softmax over nothing but −inf is 0/0.": lambda s, m: _filled(
            s, m, -torch.inf
        ).softmax(-1),
        _EMPTY + "equal ones: a softmax over nothing but −1e9 is uniform. Fill with −inf, then put zeros.": (
            lambda s, m: _filled(s, m, -1e9).softmax(-1)
        ),
        _EMPTY
        + "those without a mask: −1e9 added to all its scores changes nothing. Use −inf, then zeros.": (
            lambda s, m: (s - 1e9 * ~m).softmax(-1)
        ),
        "The mask comes after the softmax, so the rows no longer sum to 1: mask the scores first.": (
            lambda s, m: s.softmax(-1) * m
        ),
        "Masked scores are set to 0, but exp(0) is 1, so masked keys get weight: set them to −inf.": (
            lambda s, m: _filled(s, m, 0.0).softmax(-1)
        ),
        "Masked scores are set to 0, but exp(0) is 1 and counts in the sum: set them to −inf.": (
            lambda s, m: _filled(s, m, 0.0).softmax(-1) * m
        ),
        "These are the logarithms of the weights: softmax is wanted, not log_softmax.": (
            lambda s, m: _filled(s, m, -torch.inf).log_softmax(-1)
        ),
        "The exponentials are not divided by their sum.": _exponentials,
        "Large scores overflow: exp(1000) is infinite. Subtract the greatest first, or use torch.softmax.": (
            lambda s, m: _exponentials(s, m) / _exponentials(s, m).sum(-1, keepdim=True)
        ),
    },
)


# 2.2: additive scores


def _query_and_key(query_size: int, key_size: int, size: int) -> Inputs:
    sizes = {
        "query": (2, 3, query_size),
        "key": (2, 5, key_size),
        "W": (size, query_size),
        "U": (size, key_size),
        "v": (size,),
    }
    return {name: _normal(*shape, seed=seed) / 2 for seed, (name, shape) in enumerate(sizes.items())}


def _sum(query: Tensor, key: Tensor, W: Tensor, U: Tensor) -> Tensor:
    return (query @ W.mT)[:, :, None] + (key @ U.mT)[:, None]


def _additive(query: Tensor, key: Tensor, W: Tensor, U: Tensor, v: Tensor) -> Tensor:
    return _sum(query, key, W, U).tanh() @ v


ADDITIVE_SCORES = Exercise(
    inputs=_query_and_key(7, 11, 13),
    solution=_additive,
    mistakes={
        "The tanh is missing.": lambda q, k, W, U, v: _sum(q, k, W, U) @ v,
        "The tanh comes after v; it belongs inside: v · tanh(…).": lambda q, k, W, U, v: (
            _sum(q, k, W, U) @ v
        ).tanh(),
        "There is a sigmoid in the place of the tanh.": lambda q, k, W, U, v: _sum(q, k, W, U).sigmoid() @ v,
        "There is a ReLU in the place of the tanh.": lambda q, k, W, U, v: _sum(q, k, W, U).relu() @ v,
        "The two parts are subtracted: it is W s + U h.": lambda q, k, W, U, v: _additive(q, -k, W, U, v),
        "The tanh is taken of each part alone: add W s and U h first.": lambda q, k, W, U, v: (
            _additive(q, 0 * k, W, U, v) + _additive(0 * q, k, W, U, v)
        ),
        "v is missing: the d numbers are only added up.": lambda q, k, W, U, v: (
            _sum(q, k, W, U).tanh().sum(-1)
        ),
        "v is missing: the d numbers are only averaged.": lambda q, k, W, U, v: (
            _sum(q, k, W, U).tanh().mean(-1)
        ),
        "v is missing: d numbers are left for each query and key.": lambda q, k, W, U, v: _sum(
            q, k, W, U
        ).tanh(),
        "The products with v are not added up over d.": lambda q, k, W, U, v: _sum(q, k, W, U).tanh() * v,
        "These are weights already: give the scores, before any softmax.": lambda q, k, W, U, v: _additive(
            q, k, W, U, v
        ).softmax(-1),
        "Every query gets the first query's scores.": lambda q, k, W, U, v: _additive(
            q[:, :1].expand_as(q), k, W, U, v
        ),
        "The query takes no part.": lambda q, k, W, U, v: _additive(0 * q, k, W, U, v),
        "The keys take no part.": lambda q, k, W, U, v: _additive(q, 0 * k, W, U, v),
    },
    alike=_query_and_key(7, 7, 7),
    confusions={
        "W and U are swapped: W (d, s) is the query's, U (d, h) the keys'.": lambda q, k, W, U, v: _additive(
            q, k, U, W, v
        ),
        "W and U are transposed: W is (d, s), so the query's part is query @ W.mT.": lambda q, k, W, U, v: (
            _additive(q, k, W.mT, U.mT, v)
        ),
        "W is transposed: it is (d, s), so the query's part is query @ W.mT.": lambda q, k, W, U, v: (
            _additive(q, k, W.mT, U, v)
        ),
        "U is transposed: it is (d, h), so the keys' part is key @ U.mT.": lambda q, k, W, U, v: _additive(
            q, k, W, U.mT, v
        ),
        "W is used for the keys too; they have their own matrix, U.": lambda q, k, W, U, v: _additive(
            q, k, W, W, v
        ),
        "U is used for the query too; it has its own matrix, W.": lambda q, k, W, U, v: _additive(
            q, k, U, U, v
        ),
    },
)


# 2.3: location features


def _features(previous: Tensor, filters: Tensor) -> Tensor:
    """As many positions as before: the padding is what the caller has put on both sides."""
    return functional.conv1d(previous[:, None], filters[:, None]).mT


def _padded(
    x: Tensor, filters: Tensor, left: float = 0.5, right: float = 0.5, mode: str = "constant"
) -> Tensor:
    both = filters.shape[1] - 1
    return functional.pad(x[:, None], (int(left * both), int(right * both)), mode)[:, 0]


LOCATION_FEATURES = Exercise(
    inputs={"previous": _normal(2, 7, seed=11).softmax(-1), "filters": _normal(3, 5, seed=12)},
    solution=lambda p, f: _features(_padded(p, f), f),
    mistakes={
        "The filters are flipped: this is a convolution as in mathematics, and conv1d does not flip.": (
            lambda p, f: _features(_padded(p, f), f.flip(1))
        ),
        "There is no padding, so positions are lost: put (w − 1) / 2 zeros on each side.": _features,
        "There is too much padding: put (w − 1) / 2 zeros on each side, not w − 1.": (
            lambda p, f: _features(_padded(p, f, 1.0, 1.0), f)
        ),
        "All the padding is on the left: a position sees only what comes before. Half goes on each side.": (
            lambda p, f: _features(_padded(p, f, 1.0, 0.0), f)
        ),
        "All the padding is on the right: a position sees only what comes after. Half goes on each side.": (
            lambda p, f: _features(_padded(p, f, 0.0, 1.0), f)
        ),
        "The padding wraps around the ends: it must be zeros.": (
            lambda p, f: _features(_padded(p, f, mode="circular"), f)
        ),
        "The padding repeats the weights at the ends: it must be zeros.": (
            lambda p, f: _features(_padded(p, f, mode="replicate"), f)
        ),
        "The padding mirrors the weights at the ends: it must be zeros.": (
            lambda p, f: _features(_padded(p, f, mode="reflect"), f)
        ),
        "The filters are added up: each of the c filters gives a feature of its own.": (
            lambda p, f: _features(_padded(p, f), f).sum(-1)
        ),
    },
)


# 2.4: the mean position


def _weigh(weights: Tensor, start: int = 0) -> Tensor:
    return weights @ torch.arange(start, start + weights.shape[-1], dtype=weights.dtype)


EXPECTED_POSITION = Exercise(
    inputs={"weights": (2 * _normal(3, 5, 7, seed=21)).softmax(-1)},
    solution=_weigh,
    mistakes={
        "The positions are counted from 1: the first is 0.": lambda w: _weigh(w, 1),
        "This is the position of the greatest weight: the mean position under all the weights is wanted.": (
            lambda w: w.argmax(-1)
        ),
        "The mean runs over the queries: it runs over the keys, the last axis.": lambda w: _weigh(w.mT),
        "The weights are only added up, which gives 1: multiply each by its position first.": (
            lambda w: w.sum(-1)
        ),
        "It is divided by the number of keys: the weights sum to 1 already, so sum, and do not average.": (
            lambda w: _weigh(w) / w.shape[-1]
        ),
        "The products with the positions are not added up over the keys.": (
            lambda w: w * torch.arange(w.shape[-1], dtype=w.dtype)
        ),
        "One mean is taken over all queries: each query has its own.": lambda w: _weigh(w.mean(1)),
    },
)

EXERCISES = {
    "2.1": MASKED_SOFTMAX,
    "2.2": ADDITIVE_SCORES,
    "2.3": LOCATION_FEATURES,
    "2.4": EXPECTED_POSITION,
}
