"""The exercises of chapter 6: heads side by side, sinusoids, one step with a cache, and label smoothing."""

from collections.abc import Callable

import torch
from einops import rearrange
from torch import Tensor

from companion.exercises.exercise import Answer, Exercise, normal
from companion.layers.positional_encoding import sinusoids

_Function = Callable[[Tensor], Tensor]


def _join(context: Tensor) -> Tensor:
    return rearrange(context, "b h n v -> b n (h v)")


JOIN_HEADS = Exercise(
    inputs={"context": normal(2, 3, 5, 7, seed=61)},
    solution=_join,
    mistakes={
        "The axes are not exchanged before the reshape: the numbers of several words are mixed.": lambda c: (
            c.reshape(c.shape[0], c.shape[2], -1)
        ),
        "The heads alternate, feature by feature: each head's features stay together.": lambda c: (
            rearrange(c, "b h n v -> b n (v h)")
        ),
        "The heads' axis is still there: let (h, v) become one axis.": lambda c: (
            c.transpose(1, 2)
        ),
        "The heads are added up: they stand side by side.": lambda c: c.sum(1),
        "The heads are averaged: they stand side by side.": lambda c: c.mean(1),
        "The words are joined in the place of the heads.": lambda c: rearrange(
            c, "b h n v -> b h (n v)"
        ),
    },
    hints={
        "view size is not compatible": "After an exchange of axes use .reshape, or .contiguous() first."
    },
)


def _waves(
    positions: Tensor,
    rates: Tensor,
    even: _Function = torch.sin,
    odd: _Function = torch.cos,
) -> Tensor:
    """Waves over the positions, with a rate for each feature: sines and cosines in turn."""
    angle = positions[:, None] * rates
    return torch.where(torch.arange(len(rates)) % 2 == 0, even(angle), odd(angle))


def _rates(size: int, base: float = 1e4) -> Tensor:
    feature = torch.arange(size)
    return base ** (-(feature - feature % 2) / size)


def _halves(positions: Tensor, size: int) -> Tensor:
    waves = sinusoids(positions, size)
    return torch.cat([waves[:, 0::2], waves[:, 1::2]], -1)


SINUSOIDS = Exercise(
    inputs={"positions": torch.tensor([0.0, 1, 2.5, 7, 40]), "size": 7},
    solution=sinusoids,
    mistakes={
        "Each feature has a rate of its own: a sine and its cosine share one, that of 2i.": lambda p, d: (
            _waves(p, 10000.0 ** (-torch.arange(d) / d))
        ),
        "The exponent is i/d: it is 2i/d, for i counts pairs.": lambda p, d: _waves(
            p, 10000.0 ** (-(torch.arange(d) // 2) / d)
        ),
        "The sines stand before all cosines: they alternate.": _halves,
        "Sine and cosine are exchanged: the even features are sines.": lambda p, d: (
            _waves(p, _rates(d), torch.cos, torch.sin)
        ),
        "There are only sines.": lambda p, d: _waves(p, _rates(d), odd=torch.sin),
        "The position is multiplied by 10000^(2i/d): it is divided by it.": lambda p, d: (
            _waves(p, 1 / _rates(d))
        ),
        "The base is 1000: it is 10000.": lambda p, d: _waves(p, _rates(d, 1e3)),
        "The positions are counted from 1: they are given, and the first may be 0.": lambda p, d: (
            sinusoids(p + 1, d)
        ),
        "The angles are multiplied by 2π.": lambda p, d: _waves(
            p, 2 * torch.pi * _rates(d)
        ),
        "The positions are rounded down: they may be fractions.": lambda p, d: (
            sinusoids(p.floor(), d)
        ),
        "The features run down and the positions across: it is (n, size).": lambda p, d: (
            sinusoids(p, d).mT
        ),
    },
    hints={
        "expanded size|must match|shape mismatch|cannot assign": (
            "7 features are 4 sines and 3 cosines: with an odd size there is one cosine less."
        )
    },
)


def _attend(query: Tensor, key: Tensor, value: Tensor, scale: float = 1.0) -> Tensor:
    return (query @ key.mT * scale).softmax(-1) @ value


def _next(
    query: Tensor, past_key: Tensor, past_value: Tensor, key: Tensor, value: Tensor
) -> Tensor:
    keys, values = torch.cat([past_key, key], -2), torch.cat([past_value, value], -2)
    return _attend(query, keys, values, query.shape[-1] ** -0.5)


def _scaled(scale: float) -> Answer:
    """The same with the scores times a number more."""
    return lambda q, pk, pv, k, v: _next(q * scale, pk, pv, k, v)


ATTEND_NEXT = Exercise(
    inputs={
        "query": normal(2, 3, 1, 5, seed=62),
        "past_key": normal(2, 3, 7, 5, seed=63),
        "past_value": normal(2, 3, 7, 11, seed=64),
        "key": normal(2, 3, 1, 5, seed=65),
        "value": normal(2, 3, 1, 11, seed=66),
    },
    solution=_next,
    mistakes={
        "The word does not see itself: its own key and value belong to the past that it looks at.": (
            lambda q, pk, pv, k, v: _attend(q, pk, pv, q.shape[-1] ** -0.5)
        ),
        "The word sees only itself: the past is missing.": lambda q, pk, pv, k, v: v,
        "The word sees only the first word: a causal mask for one query and eight keys, made from the top "
        "left. The word is the last of all, and needs no mask.": lambda q, pk, pv, k, v: (
            pv[..., :1, :]
        ),
        "The scores are not divided by √d.": _scaled(5**0.5),
        "The scores are divided by d: it is √d.": _scaled(5**-0.5),
        "The new key is appended, and the new value put in front: they must stand at the same place.": (
            lambda q, pk, pv, k, v: _attend(
                q, torch.cat([pk, k], -2), torch.cat([v, pv], -2), q.shape[-1] ** -0.5
            )
        ),
        "The new value is appended, and the new key put in front: they must stand at the same place.": (
            lambda q, pk, pv, k, v: _attend(
                q, torch.cat([k, pk], -2), torch.cat([pv, v], -2), q.shape[-1] ** -0.5
            )
        ),
        "The softmax runs over the one query: each weight is 1. It runs over the keys.": (
            lambda q, pk, pv, k, v: torch.cat([pv, v], -2).sum(-2, keepdim=True)
        ),
    },
    hints={
        "must match|Expected size|mat1 and mat2": (
            "Keys are appended along the words' axis, -2; keys and values alike. The scores are "
            "query @ keys.mT."
        )
    },
)


def _smoothed(logits: Tensor, target: Tensor, share: float) -> Tensor:
    log_probs = logits.log_softmax(-1)
    right = log_probs.gather(-1, target[:, None]).squeeze(-1)
    return -(1 - share) * right - share * log_probs.mean(-1)


def _others(logits: Tensor, target: Tensor, share: float, left_out: int) -> Tensor:
    """The share goes to the other words alone, but for the first ``left_out``."""
    log_probs = logits.log_softmax(-1)
    right = log_probs.gather(-1, target[:, None])
    others = log_probs.scatter(-1, target[:, None], 0)[:, left_out:].sum(
        -1, keepdim=True
    )
    count = logits.shape[-1] - 1 - left_out
    return (-(1 - share) * right - share * others / count).squeeze(-1)


LABEL_SMOOTHING = Exercise(
    inputs={
        "logits": normal(5, 7, seed=67),
        "target": torch.tensor([3, 1, 6, 2, 5]),
        "share": 0.1,
    },
    solution=_smoothed,
    mistakes={
        "ε is spread over the V − 1 other words: over all V, so that the right one gets 1 − ε + ε/V.": (
            lambda x, y, e: _others(x, y, e, 0)
        ),
        "ε is spread over V − 2 words, all but the right one and number 0: over all V.": lambda x, y, e: (
            _others(x, y, e, 1)
        ),
        "Nothing is smoothed: this is the plain cross-entropy.": lambda x, y, e: (
            _smoothed(x, y, 0.0)
        ),
        "The right word gets ε and all words share 1 − ε: it is the other way round.": lambda x, y, e: (
            _smoothed(x, y, 1 - e)
        ),
        "Each word gets ε: all V share it, ε/V each.": lambda x, y, e: (
            -(1 - e) * x.log_softmax(-1).gather(-1, y[:, None]).squeeze(-1)
            - e * x.log_softmax(-1).sum(-1)
        ),
        "The right word keeps 1: it keeps 1 − ε, and its part of ε.": lambda x, y, e: (
            -x.log_softmax(-1).gather(-1, y[:, None]).squeeze(-1)
            - e * x.log_softmax(-1).mean(-1)
        ),
        "The sign is wrong: a loss is what gets smaller.": lambda x, y, e: (
            -_smoothed(x, y, e)
        ),
        "This is the mean of all words: give each word's loss.": lambda x, y, e: (
            _smoothed(x, y, e).mean()
        ),
        "The logits are taken for log-probabilities: a log_softmax is missing.": lambda x, y, e: (
            -(1 - e) * x.gather(-1, y[:, None]).squeeze(-1) - e * x.mean(-1)
        ),
    },
    hints={
        "index": "The right words' log-probabilities are log_probs.gather(-1, target[:, None])."
    },
)
EXERCISES = {
    "6.1": JOIN_HEADS,
    "6.2": SINUSOIDS,
    "6.3": ATTEND_NEXT,
    "6.4": LABEL_SMOOTHING,
}
