"""The exercises of chapter 2, Bahdanau attention: scores and location features."""

from torch import Tensor
from torch.nn import functional

from attention_course.exercises.exercise import Exercise, Inputs, normal
from attention_course.exercises.weights import EXPECTED_POSITION, MASKED_SOFTMAX


def _query_and_key(query_size: int, key_size: int, size: int) -> Inputs:
    sizes = {
        "query": (2, 3, query_size),
        "key": (2, 5, key_size),
        "W": (size, query_size),
        "U": (size, key_size),
        "v": (size,),
    }
    return {
        name: normal(*shape, seed=seed) / 2
        for seed, (name, shape) in enumerate(sizes.items())
    }


def _query_part(query: Tensor, W: Tensor) -> Tensor:
    return (query @ W.mT)[:, :, None]


def _key_part(key: Tensor, U: Tensor) -> Tensor:
    return (key @ U.mT)[:, None]


def _sum(query: Tensor, key: Tensor, W: Tensor, U: Tensor) -> Tensor:
    return _query_part(query, W) + _key_part(key, U)


def _additive(query: Tensor, key: Tensor, W: Tensor, U: Tensor, v: Tensor) -> Tensor:
    return _sum(query, key, W, U).tanh() @ v


ADDITIVE_SCORES = Exercise(
    inputs=_query_and_key(7, 11, 13),
    solution=_additive,
    mistakes={
        "The tanh is missing.": lambda q, k, W, U, v: _sum(q, k, W, U) @ v,
        "The tanh comes after v; it belongs inside: v · tanh(…).": lambda q, k, W, U, v: (
            (_sum(q, k, W, U) @ v).tanh()
        ),
        "There is a sigmoid instead of the tanh.": lambda q, k, W, U, v: (
            _sum(q, k, W, U).sigmoid() @ v
        ),
        "There is a ReLU instead of the tanh.": lambda q, k, W, U, v: (
            _sum(q, k, W, U).relu() @ v
        ),
        "The two parts are subtracted: the sum is W s + U h.": lambda q, k, W, U, v: (
            _additive(q, -k, W, U, v)
        ),
        "The tanh is applied to each part separately: add W s and U h first.": lambda q, k, W, U, v: (
            _additive(q, 0 * k, W, U, v) + _additive(0 * q, k, W, U, v)
        ),
        "The tanh is applied to the query's part only: add W s and U h first.": lambda q, k, W, U, v: (
            (_query_part(q, W).tanh() + _key_part(k, U)) @ v
        ),
        "The tanh is applied to the keys' part only: add W s and U h first.": lambda q, k, W, U, v: (
            (_query_part(q, W) + _key_part(k, U).tanh()) @ v
        ),
        "v is inside the tanh; it belongs outside: v · tanh(…).": lambda q, k, W, U, v: (
            (_sum(q, k, W, U) * v).tanh().sum(-1)
        ),
        "The two parts are multiplied: take the sum W s + U h.": lambda q, k, W, U, v: (
            (_query_part(q, W) * _key_part(k, U)).tanh() @ v
        ),
        "This is the dot product of W s and U h: the score is v · tanh(W s + U h).": lambda q, k, W, U, v: (
            (q @ W.mT) @ (k @ U.mT).mT
        ),
        "v is missing: the n′ components are only summed.": lambda q, k, W, U, v: (
            _sum(q, k, W, U).tanh().sum(-1)
        ),
        "v is missing: the n′ components are only averaged.": lambda q, k, W, U, v: (
            _sum(q, k, W, U).tanh().mean(-1)
        ),
        "v is missing: n′ components are left for each query and key.": lambda q, k, W, U, v: (
            _sum(q, k, W, U).tanh()
        ),
        "The products with v are not summed over n′.": lambda q, k, W, U, v: (
            _sum(q, k, W, U).tanh() * v
        ),
        "These are weights: return the scores, before any softmax.": lambda q, k, W, U, v: (
            _additive(q, k, W, U, v).softmax(-1)
        ),
        "Every query gets the scores of the first query.": lambda q, k, W, U, v: (
            _additive(q[:, :1].expand_as(q), k, W, U, v)
        ),
        "The query is not used.": lambda q, k, W, U, v: _additive(0 * q, k, W, U, v),
        "The keys are not used.": lambda q, k, W, U, v: _additive(q, 0 * k, W, U, v),
    },
    hints={
        "must match": "Each query is compared with each key, so both parts need a new axis: "
        "query (b, q, 1, n′), key (b, 1, k, n′)."
    },
    alike=_query_and_key(7, 7, 7),
    confusions={
        "W and U are swapped: W (n′, n) is the query's, U (n′, 2n) the keys'.": lambda q, k, W, U, v: (
            _additive(q, k, U, W, v)
        ),
        "W and U are transposed: W is (n′, n), so the query's part is query @ W.mT.": lambda q, k, W, U, v: (
            _additive(q, k, W.mT, U.mT, v)
        ),
        "W is transposed: it is (n′, n), so the query's part is query @ W.mT.": lambda q, k, W, U, v: (
            _additive(q, k, W.mT, U, v)
        ),
        "U is transposed: it is (n′, 2n), so the keys' part is key @ U.mT.": lambda q, k, W, U, v: (
            _additive(q, k, W, U.mT, v)
        ),
        "W is used for the keys too; they have their own matrix, U.": lambda q, k, W, U, v: (
            _additive(q, k, W, W, v)
        ),
        "U is used for the query too; it has its own matrix, W.": lambda q, k, W, U, v: (
            _additive(q, k, U, U, v)
        ),
    },
)


def _features(previous: Tensor, filters: Tensor) -> Tensor:
    """A convolution without padding, which the caller has added on both sides."""
    return functional.conv1d(previous[:, None], filters[:, None]).mT


def _padded(
    x: Tensor,
    filters: Tensor,
    left: float = 0.5,
    right: float = 0.5,
    mode: str = "constant",
) -> Tensor:
    total = filters.shape[1] - 1
    sides = int(left * total), int(right * total)
    return functional.pad(x[:, None], sides, mode)[:, 0]


def _location(previous: Tensor, filters: Tensor) -> Tensor:
    return _features(_padded(previous, filters), filters)


LOCATION_FEATURES = Exercise(
    inputs={
        "previous": normal(2, 7, seed=11).softmax(-1),
        "filters": normal(3, 5, seed=12),
    },
    solution=_location,
    mistakes={
        "The filters are flipped, as in a mathematical convolution: conv1d does not flip them.": (
            lambda p, f: _features(_padded(p, f), f.flip(1))
        ),
        "There is no padding, so positions are lost: put (w − 1) / 2 zeros on each side.": _features,
        "There is too much padding: put (w − 1) / 2 zeros on each side, not w − 1.": (
            lambda p, f: _features(_padded(p, f, 1.0, 1.0), f)
        ),
        "All the padding is on the left: only earlier positions are included. Put half on each side.": (
            lambda p, f: _features(_padded(p, f, 1.0, 0.0), f)
        ),
        "All the padding is on the right: only later positions are included. Put half on each side.": (
            lambda p, f: _features(_padded(p, f, 0.0, 1.0), f)
        ),
        "The features are one position late: put as many zeros on the left as on the right.": (
            lambda p, f: _features(_padded(p, f, 0.75, 0.25), f)
        ),
        "The features are one position early: put as many zeros on the right as on the left.": (
            lambda p, f: _features(_padded(p, f, 0.25, 0.75), f)
        ),
        "The features are one position late, and the last has wrapped around to the first.": (
            lambda p, f: _location(p, f).roll(1, 1)
        ),
        "The features are one position early, and the first has wrapped around to the last.": (
            lambda p, f: _location(p, f).roll(-1, 1)
        ),
        "The last position is left at 0: there are as many windows as positions.": (
            lambda p, f: functional.pad(_location(p, f)[:, :-1], (0, 0, 0, 1))
        ),
        "The last position is missing: there are as many windows as positions.": (
            lambda p, f: _location(p, f)[:, :-1]
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
        "The filters are summed: each of the c filters gives its own feature.": (
            lambda p, f: _location(p, f).sum(-1)
        ),
    },
    hints={
        "three dimensions|channels": "conv1d needs a channel axis, of size 1 here: (b, 1, k), (c, 1, w)."
    },
)
EXERCISES = {
    "2.1": MASKED_SOFTMAX,
    "2.2": ADDITIVE_SCORES,
    "2.3": LOCATION_FEATURES,
    "2.4": EXPECTED_POSITION,
}
