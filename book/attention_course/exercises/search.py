"""The exercises of chapter 1 on decoding: scores, and nucleus sampling."""

import torch
from torch import Tensor

from attention_course.exercises.exercise import Exercise, normal


def _score(log_probs: Tensor, lengths: Tensor, penalty: float) -> Tensor:
    return log_probs / ((5 + lengths) / 6) ** penalty


SCORE = Exercise(
    inputs={
        "log_probs": -3 * normal(3, 5, seed=41).abs() - 1,
        "lengths": torch.tensor(
            [[1, 2, 4, 7, 11], [3, 5, 6, 8, 20], [9, 10, 12, 13, 30]]
        ),
        "penalty": 0.7,
    },
    solution=_score,
    mistakes={
        "The length is not used.": lambda p, n, a: p,
        "The penalty is not used: (5 + length) / 6 is raised to it.": lambda p, n, a: (
            _score(p, n, 1.0)
        ),
        "The divisor is the length: it must be ((5 + length) / 6)^penalty.": lambda p, n, a: (
            p / n
        ),
        "The divisor is length^penalty: it must be ((5 + length) / 6)^penalty.": lambda p, n, a: (
            p / n**a
        ),
        "The penalty term multiplies instead of dividing: long sentences get worse scores.": lambda p, n, a: (
            _score(p, n, -a)
        ),
        "The penalty is a factor: it must be an exponent.": lambda p, n, a: (
            p / ((5 + n) / 6 * a)
        ),
        "Only 5 + length is raised to the penalty: 6 must be, too.": lambda p, n, a: (
            p / ((5 + n) ** a / 6)
        ),
        "Only 6 is raised to the penalty: 5 + length must be, too.": lambda p, n, a: (
            p / ((5 + n) / 6**a)
        ),
        "The division by 6 is missing.": lambda p, n, a: p / (5 + n) ** a,
        "Only the length is divided by 6: put 5 + length in brackets.": lambda p, n, a: (
            p / (5 + n / 6) ** a
        ),
        "The 5 is missing.": lambda p, n, a: p / (n / 6) ** a,
        "There is a division by 5 instead of 6: a sentence of one word must keep its log-probability.": (
            lambda p, n, a: p / ((5 + n) / 5) ** a
        ),
        "6 is added to the length instead of 5.": lambda p, n, a: _score(p, n + 1, a),
        "4 is added to the length instead of 5.": lambda p, n, a: _score(p, n - 1, a),
        "The division by 6 is an integer division: use /, not //.": lambda p, n, a: (
            p / ((5 + n) // 6) ** a
        ),
        "The sign is wrong: a better sentence has a higher score.": lambda p, n, a: (
            -_score(p, n, a)
        ),
        "The probability is divided: divide its logarithm.": lambda p, n, a: _score(
            p.exp(), n, a
        ),
        "A logarithm is taken of the log-probabilities: they are logarithms already.": lambda p, n, a: (
            _score(p.log(), n, a)
        ),
        "The penalty term is subtracted: it must divide.": lambda p, n, a: (
            p - ((5 + n) / 6) ** a
        ),
        "The penalty term is added: it must divide.": lambda p, n, a: (
            p + ((5 + n) / 6) ** a
        ),
    },
)


def _by_rank(logits: Tensor, descending: bool = True) -> tuple[Tensor, Tensor]:
    """The sorted words, and the cumulative probability at each rank."""
    order = logits.argsort(-1, descending=descending)
    return order, logits.gather(-1, order).softmax(-1).cumsum(-1)


def _before(reached: Tensor) -> Tensor:
    """The cumulative probability before each rank."""
    return torch.cat([torch.zeros_like(reached[:, :1]), reached[:, :-1]], -1)


def _without(logits: Tensor, order: Tensor, outside: Tensor) -> Tensor:
    """The logits with −inf for the words of some ranks."""
    return logits.masked_fill(outside.scatter(-1, order, outside), -torch.inf)


def _outside(logits: Tensor, top_p: float) -> tuple[Tensor, Tensor]:
    order, reached = _by_rank(logits)
    return order, _before(reached) >= top_p


def _nucleus(logits: Tensor, top_p: float) -> Tensor:
    return _without(logits, *_outside(logits, top_p))


def _least(logits: Tensor, top_p: float) -> Tensor:
    order, reached = _by_rank(logits, descending=False)
    return _without(logits, order, _before(reached) >= top_p)


def _short(logits: Tensor, top_p: float, at_least: int) -> Tensor:
    """Without the word that crosses the threshold, but with ``at_least`` words."""
    order, reached = _by_rank(logits)
    outside = reached > top_p
    outside[:, :at_least] = False
    return _without(logits, order, outside)


def _long(logits: Tensor, top_p: float) -> Tensor:
    order, reached = _by_rank(logits)
    return _without(logits, order, _before(_before(reached)) >= top_p)


def _unsorted_mask(logits: Tensor, top_p: float) -> Tensor:
    return logits.masked_fill(_outside(logits, top_p)[1], -torch.inf)


def _still_sorted(logits: Tensor, top_p: float) -> Tensor:
    order, outside = _outside(logits, top_p)
    return logits.gather(-1, order).masked_fill(outside, -torch.inf)


def _sorted_twice(logits: Tensor, top_p: float) -> Tensor:
    order, outside = _outside(logits, top_p)
    return logits.masked_fill(outside.gather(-1, order), -torch.inf)


def _of_logits(logits: Tensor, top_p: float) -> Tensor:
    order = logits.argsort(-1, descending=True)
    return _without(
        logits, order, _before(logits.gather(-1, order).cumsum(-1)) >= top_p
    )


def _filled(logits: Tensor, top_p: float, value: float) -> Tensor:
    return logits.masked_fill(_nucleus(logits, top_p).isinf(), value)


def _fraction_of_words(logits: Tensor, top_p: float) -> Tensor:
    least = logits.topk(int(top_p * logits.shape[-1]), -1).values[:, -1:]
    return logits.masked_fill(logits < least, -torch.inf)


_LOGITS = [
    [0.3, -1.1, 1.9, 0.9, -0.4, 1.4, -2.0],
    [-0.7, 0.1, -2.3, 4.6, -1.2, 0.6, -0.2],
    [0.25, 0.7, -0.3, 0.1, -3.1, 0.45, 0.9],
]
_OWN = "Each word's probability is compared with {}: compare the cumulative sum, most probable first."
NUCLEUS = Exercise(
    inputs={"logits": torch.tensor(_LOGITS, dtype=torch.float64), "top_p": 0.7},
    solution=_nucleus,
    mistakes={
        "The word that crosses the threshold is removed, even if it is the first: it must be kept.": (
            lambda x, p: _short(x, p, 0)
        ),
        "The word that crosses the threshold is removed, unless it is the first: always keep it.": (
            lambda x, p: _short(x, p, 1)
        ),
        "One word too many is kept: the last must be the one that crosses the threshold.": _long,
        "The result is in sorted order: restore the order of the vocabulary.": _still_sorted,
        "The mask is in sorted order: restore the order of the vocabulary.": _unsorted_mask,
        "The order is applied a second time instead of undone: scatter undoes gather.": _sorted_twice,
        "The least probable words come first: sort with descending=True.": _least,
        "The words of the nucleus are −inf and the others are kept: it is the other way round.": (
            lambda x, p: x.masked_fill(_nucleus(x, p).isfinite(), -torch.inf)
        ),
        "The logits are summed: the threshold is for probabilities, so apply the softmax first.": _of_logits,
        "top_p is used as a fraction of the vocabulary: it is a probability.": _fraction_of_words,
        _OWN.format("top_p"): lambda x, p: x.masked_fill(x.softmax(-1) < p, -torch.inf),
        _OWN.format("1 − top_p"): lambda x, p: x.masked_fill(
            x.softmax(-1) < 1 - p, -torch.inf
        ),
        "The words outside are 0, but exp(0) is 1: set them to −inf.": lambda x, p: (
            _filled(x, p, 0.0)
        ),
        "The words outside are −1e9: set them to −inf.": lambda x, p: _filled(
            x, p, -1e9
        ),
        "These are probabilities: return the logits, unchanged inside the nucleus.": lambda x, p: (
            _nucleus(x, p).softmax(-1)
        ),
        "These are log-probabilities: return the logits, unchanged inside the nucleus.": lambda x, p: (
            _nucleus(x, p).log_softmax(-1)
        ),
        "Nothing is removed.": lambda x, p: x,
        "The nucleus runs over the batch (axis 0): each row has its own.": lambda x, p: (
            _nucleus(x.mT, p).mT
        ),
    },
    hints={
        "dtype.*scatter|scatter.*dtype": "scatter needs two tensors of the same dtype: here, two masks.",
    },
)
