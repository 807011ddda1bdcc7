"""The exercises of chapter 6: concatenated heads, sinusoids, the KV cache, label smoothing."""

from collections.abc import Callable

import torch
from einops import rearrange
from torch import Tensor

from attention_course.exercises.exercise import Answer, Exercise, normal
from companion.layers.positional_encoding import sinusoids

_Function = Callable[[Tensor], Tensor]


def _concatenate(context: Tensor) -> Tensor:
    return rearrange(context, "b h n v -> b n (h v)")


JOIN_HEADS = Exercise(
    inputs={"context": normal(2, 3, 5, 7, seed=61)},
    solution=_concatenate,
    mistakes={
        "The axes are not transposed before the reshape: different positions are mixed.": lambda c: (
            c.reshape(c.shape[0], c.shape[2], -1)
        ),
        "The heads alternate, component by component: those of each head must stay together.": lambda c: (
            rearrange(c, "b h n v -> b n (v h)")
        ),
        "The head axis is still there: merge (h, v) into one axis.": lambda c: (
            c.transpose(1, 2)
        ),
        "The heads are summed: concatenate them.": lambda c: c.sum(1),
        "The heads are averaged: concatenate them.": lambda c: c.mean(1),
        "The words are concatenated instead of the heads.": lambda c: rearrange(
            c, "b h n v -> b h (n v)"
        ),
    },
    hints={
        "view size is not compatible": "After a transpose use .reshape, or .contiguous() first."
    },
)


def _waves(
    positions: Tensor,
    rates: Tensor,
    even: _Function = torch.sin,
    odd: _Function = torch.cos,
) -> Tensor:
    """Waves over the positions, with one rate per feature; sines and cosines alternate."""
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
        "Each feature has its own frequency: a sine and its cosine have the same, that of 2i.": lambda p, d: (
            _waves(p, 10000.0 ** (-torch.arange(d) / d))
        ),
        "The exponent is i/d: it must be 2i/d, because i counts pairs.": lambda p, d: (
            _waves(p, 10000.0 ** (-(torch.arange(d) // 2) / d))
        ),
        "All sines precede the cosines: they must alternate.": _halves,
        "Sine and cosine are swapped: the even features are sines.": lambda p, d: (
            _waves(p, _rates(d), torch.cos, torch.sin)
        ),
        "There are only sines.": lambda p, d: _waves(p, _rates(d), odd=torch.sin),
        "The position is multiplied by 10000^(2i/d): divide by it.": lambda p, d: (
            _waves(p, 1 / _rates(d))
        ),
        "The base is 1000: it must be 10000.": lambda p, d: _waves(p, _rates(d, 1e3)),
        "1 is added to the positions: use them as given, also 0.": lambda p, d: (
            sinusoids(p + 1, d)
        ),
        "The angles are multiplied by 2π.": lambda p, d: _waves(
            p, 2 * torch.pi * _rates(d)
        ),
        "The positions are rounded down: they may be fractions.": lambda p, d: (
            sinusoids(p.floor(), d)
        ),
        "The result is transposed: its shape must be (n, size).": lambda p, d: (
            sinusoids(p, d).mT
        ),
    },
    hints={
        "expanded size|must match|shape mismatch|cannot assign": (
            "7 features are 4 sines and 3 cosines: an odd size has one cosine less."
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
    """The solution with scores multiplied by another factor."""
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
        "The word does not attend to itself: append its key and value to the cache first.": (
            lambda q, pk, pv, k, v: _attend(q, pk, pv, q.shape[-1] ** -0.5)
        ),
        "The word attends only to itself: the cache is missing.": lambda q, pk, pv, k, v: (
            v
        ),
        "The word attends only to the first word: a causal mask for one query and eight keys is aligned at "
        "the top left. The word is the last of all and needs no mask.": lambda q, pk, pv, k, v: (
            pv[..., :1, :]
        ),
        "The scores are not divided by √d.": _scaled(5**0.5),
        "The scores are divided by d: it is √d.": _scaled(5**-0.5),
        "The new key is appended, but the new value prepended: they must be at the same position.": (
            lambda q, pk, pv, k, v: _attend(
                q, torch.cat([pk, k], -2), torch.cat([v, pv], -2), q.shape[-1] ** -0.5
            )
        ),
        "The new value is appended, but the new key prepended: they must be at the same position.": (
            lambda q, pk, pv, k, v: _attend(
                q, torch.cat([k, pk], -2), torch.cat([pv, v], -2), q.shape[-1] ** -0.5
            )
        ),
        "The softmax runs over the single query, so that each weight is 1: it must run over the keys.": (
            lambda q, pk, pv, k, v: torch.cat([pv, v], -2).sum(-2, keepdim=True)
        ),
    },
    hints={
        "must match|Expected size|mat1 and mat2": (
            "Append keys and values along the axis of the words, -2. The scores are "
            "query @ keys.mT."
        )
    },
)


def _smoothed(logits: Tensor, target: Tensor, epsilon: float) -> Tensor:
    log_probs = logits.log_softmax(-1)
    right = log_probs.gather(-1, target[:, None]).squeeze(-1)
    return -(1 - epsilon) * right - epsilon * log_probs.mean(-1)


def _others(logits: Tensor, target: Tensor, epsilon: float, left_out: int) -> Tensor:
    """ε is distributed over the other words, except for the first ``left_out``."""
    log_probs = logits.log_softmax(-1)
    right = log_probs.gather(-1, target[:, None])
    others = log_probs.scatter(-1, target[:, None], 0)[:, left_out:].sum(
        -1, keepdim=True
    )
    count = logits.shape[-1] - 1 - left_out
    return (-(1 - epsilon) * right - epsilon * others / count).squeeze(-1)


LABEL_SMOOTHING = Exercise(
    inputs={
        "logits": normal(5, 7, seed=67),
        "target": torch.tensor([3, 1, 6, 2, 5]),
        "epsilon": 0.1,
    },
    solution=_smoothed,
    mistakes={
        "ε is distributed over the V − 1 other words: use all V, so that the target gets 1 − ε + ε/V.": (
            lambda x, y, e: _others(x, y, e, 0)
        ),
        "ε is distributed over V − 2 words, all except the target and padding: use all V.": lambda x, y, e: (
            _others(x, y, e, 1)
        ),
        "Nothing is smoothed: this is the plain cross-entropy.": lambda x, y, e: (
            _smoothed(x, y, 0.0)
        ),
        "The target gets ε and all words together 1 − ε: it is the other way round.": lambda x, y, e: (
            _smoothed(x, y, 1 - e)
        ),
        "Each word gets ε: distribute it over all V, ε/V each.": lambda x, y, e: (
            -(1 - e) * x.log_softmax(-1).gather(-1, y[:, None]).squeeze(-1)
            - e * x.log_softmax(-1).sum(-1)
        ),
        "The target keeps probability 1: it must get 1 − ε + ε/V.": lambda x, y, e: (
            -x.log_softmax(-1).gather(-1, y[:, None]).squeeze(-1)
            - e * x.log_softmax(-1).mean(-1)
        ),
        "The sign is wrong: a loss decreases in training.": lambda x, y, e: (
            -_smoothed(x, y, e)
        ),
        "This is the mean over all words: return one loss per word.": lambda x, y, e: (
            _smoothed(x, y, e).mean()
        ),
        "The logits are used as log-probabilities: apply log_softmax first.": lambda x, y, e: (
            -(1 - e) * x.gather(-1, y[:, None]).squeeze(-1) - e * x.mean(-1)
        ),
    },
    hints={
        "[Ii]ndex": "The targets' log-probabilities are log_probs.gather(-1, target[:, None])."
    },
)
EXERCISES = {
    "6.1": JOIN_HEADS,
    "6.2": SINUSOIDS,
    "6.3": ATTEND_NEXT,
    "6.4": LABEL_SMOOTHING,
}
