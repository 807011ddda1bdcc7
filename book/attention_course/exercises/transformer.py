"""The exercises of chapter 6: sinusoids that are shifted, sinusoids, label smoothing."""

from collections.abc import Callable

import torch
from torch import Tensor

from attention_course.exercises.exercise import Exercise, normal
from companion.layers.positional_encoding import sinusoids

_Function = Callable[[Tensor], Tensor]
_Wave = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


def _shift(
    pairs: Tensor,
    k: float,
    sine: _Wave = lambda s, c, sin, cos: s * cos + c * sin,
    cosine: _Wave = lambda s, c, sin, cos: c * cos - s * sin,
    exponent: float = 1,
) -> Tensor:
    """The encodings k positions further on, by the rules for the sine and for the cosine."""
    count = pairs.shape[1]
    turn = k * 10000 ** (-exponent * torch.arange(count) / count)
    hands = *pairs.unbind(-1), turn.sin(), turn.cos()
    return torch.stack([sine(*hands), cosine(*hands)], -1)


def _pairs(positions: Tensor, count: int) -> Tensor:
    return sinusoids(positions, 2 * count).unflatten(-1, (count, 2))


SHIFT = Exercise(
    inputs={"pairs": _pairs(torch.tensor([0.0, 7, 40]), 5), "k": 3},
    solution=_shift,
    mistakes={
        "The hands turn backwards: this is the encoding of pos − k.": lambda x, k: (
            _shift(x, -k)
        ),
        "The encoding of k is added to that of pos: rotate each pair instead.": lambda x, k: (
            x + _pairs(torch.tensor([k]), x.shape[1])
        ),
        "k is added to the encoding: it must be added to the angle of each pair.": lambda x, k: (
            x + k
        ),
        "All pairs turn by k: pair i turns by k · ω_i.": lambda x, k: _shift(
            x, k, exponent=0
        ),
        "The turn of pair i is k · 10000^(2i/d): the exponent must be negative.": lambda x, k: (
            _shift(x, k, exponent=-1)
        ),
        "The exponent is −i/d: it must be −2i/d, because there are d/2 pairs.": lambda x, k: (
            _shift(x, k, exponent=0.5)
        ),
        "A sign of the cosine is wrong: cos(α + β) = cos α cos β − sin α sin β.": lambda x, k: (
            _shift(x, k, cosine=lambda s, c, sin, cos: c * cos + s * sin)
        ),
        "A sign of the sine is wrong: sin(α + β) = sin α cos β + cos α sin β.": lambda x, k: (
            _shift(x, k, sine=lambda s, c, sin, cos: s * cos - c * sin)
        ),
        "The cosine is cos α sin β − sin α sin β: the first factor of β must be its cosine.": lambda x, k: (
            _shift(x, k, cosine=lambda s, c, sin, cos: c * sin - s * sin)
        ),
        "Sine and cosine have changed places: the sine comes first.": lambda x, k: (
            _shift(x, k).flip(-1)
        ),
        "The pairs are joined: the shape must stay (n, d/2, 2).": (
            lambda x, k: _shift(x, k).flatten(1)
        ),
    },
    hints={
        "must match|expanded size": "There are d/2 turns, one for each pair: x[:, :, 0] are the sines."
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
EXERCISES = {"6.1": SHIFT, "6.2": SINUSOIDS, "6.3": LABEL_SMOOTHING}
