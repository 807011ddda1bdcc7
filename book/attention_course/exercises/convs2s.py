"""The exercises of chapter 11: gated convolution, one attention step, weight normalisation."""

import math

import torch
from torch import Tensor
from torch.nn.functional import conv1d, pad

from attention_course.exercises.exercise import Exercise, Inputs, normal
from companion.attention.base import masked_softmax

_HALF = math.sqrt(0.5)


def _convolved(x: Tensor, W: Tensor, b: Tensor, before: int, after: int) -> Tensor:
    return conv1d(pad(x.mT, (before, after)), W, b).mT


def _linear(x: Tensor, W: Tensor, b: Tensor) -> Tensor:
    return _convolved(x, W, b, W.shape[-1] - 1, 0)


def _gated_with_padding(
    before: int, after: int, x: Tensor, W: Tensor, b: Tensor, V: Tensor, c: Tensor
) -> Tensor:
    """The gated convolution with ``before`` and ``after`` zeros around the sentence."""
    return (
        _convolved(x, W, b, before, after)
        * _convolved(x, V, c, before, after).sigmoid()
    )


def _gated(x: Tensor, W: Tensor, b: Tensor, V: Tensor, c: Tensor) -> Tensor:
    return _gated_with_padding(W.shape[-1] - 1, 0, x, W, b, V, c)


GATED_CONVOLUTION = Exercise(
    inputs={
        "x": normal(2, 7, 5, seed=111),
        "W": normal(11, 5, 3, seed=112) / 3,
        "b": normal(11, seed=113),
        "V": normal(11, 5, 3, seed=122) / 3,
        "c": normal(11, seed=123),
    },
    solution=_gated,
    mistakes={
        "It receives information from the future: all k − 1 zeros go to the left.": lambda *x: (
            _gated_with_padding(1, 1, *x)
        ),
        "It receives information only from the future: the zeros go to the left, not to the right.": (
            lambda *x: _gated_with_padding(0, 2, *x)
        ),
        "A position does not receive its own word: k − 1 zeros go before the sentence, not k.": lambda *x: (
            _gated_with_padding(3, -1, *x)
        ),
        "The output is k − 1 too long: put zeros on the left only, or cut k − 1 outputs off the end.": (
            lambda *x: _gated_with_padding(2, 2, *x)
        ),
        "The output is k − 1 too short: the zeros are missing.": lambda *x: (
            _gated_with_padding(0, 0, *x)
        ),
        "The last word is missing: cut k − 1 outputs off the end, not k as the paper says.": (
            lambda *x: _gated(*x)[:, :-1]
        ),
        "The wrong half is the gate: σ belongs to V and c.": lambda x, W, b, V, c: (
            _gated(x, V, c, W, b)
        ),
        "The gate is missing: σ belongs to V and c.": lambda x, W, b, V, c: (
            _linear(x, W, b) * _linear(x, V, c)
        ),
        "Both halves have a σ: it belongs to V and c only.": lambda x, W, b, V, c: (
            _linear(x, W, b).sigmoid() * _linear(x, V, c).sigmoid()
        ),
        "There is a tanh on the first half, as in an LSTM: a gated linear unit has none.": (
            lambda x, W, b, V, c: _linear(x, W, b).tanh() * _linear(x, V, c).sigmoid()
        ),
        "The gate is a softmax: use σ, which treats each feature separately.": lambda x, W, b, V, c: (
            _linear(x, W, b) * _linear(x, V, c).softmax(-1)
        ),
        "The two halves are added: the gate multiplies.": lambda x, W, b, V, c: (
            _linear(x, W, b) + _linear(x, V, c).sigmoid()
        ),
        "The bias b is missing.": lambda x, W, b, V, c: _gated(x, W, 0 * b, V, c),
        "The bias c is missing.": lambda x, W, b, V, c: _gated(x, W, b, V, 0 * c),
        "Both biases are missing.": lambda x, W, b, V, c: _gated(x, W, 0 * b, V, 0 * c),
        "The kernels are reversed: their last column belongs to the current word.": lambda x, W, b, V, c: (
            _gated(x, W.flip(-1), b, V.flip(-1), c)
        ),
    },
    hints={
        "channels|expected input": "conv1d needs the features before the positions: x.mT, and .mT after it."
    },
)


def _step_inputs(size: int, features: int) -> Inputs:
    lengths = torch.tensor([5, 4])
    return {
        "h": normal(2, 3, size, seed=114),
        "g": normal(2, 3, features, seed=115),
        "z": normal(2, 7, features, seed=116),
        "e": normal(2, 7, features, seed=117),
        "W": normal(features, size, seed=118) / 2,
        "b": normal(features, seed=119),
        "mask": torch.arange(7) < lengths[:, None],
    }


def _sum(
    *inputs: Tensor,
    query: Tensor | None = None,
    key: Tensor | None = None,
    value: Tensor | None = None,
) -> Tensor:
    """Σ_j a_ij (z_j + e_j) before the scaling, with some of its parts replaced."""
    h, g, z, e, W, b, mask = inputs
    query = h @ W.mT + b + g if query is None else query
    key, value = z if key is None else key, z + e if value is None else value
    return masked_softmax(query @ key.mT, mask[:, None]) @ value


def _unmasked(*inputs: Tensor) -> Tensor:
    return _sum(*inputs[:-1], torch.ones_like(inputs[-1]))


def _lengths(mask: Tensor) -> Tensor:
    return mask.sum(-1)[:, None, None].double()


def _step(*inputs: Tensor, **parts: Tensor) -> Tensor:
    return _lengths(inputs[-1]).sqrt() * _sum(*inputs, **parts)


ATTENTION_STEP = Exercise(
    inputs=_step_inputs(11, 5),
    solution=_step,
    mistakes={
        "m is the padded length: use the number of words of each sentence, mask.sum(-1).": (
            lambda *x: math.sqrt(x[-1].shape[-1]) * _sum(*x)
        ),
        "m is the length of the longest sentence: each sentence has its own.": lambda *x: (
            _lengths(x[-1]).amax().sqrt() * _sum(*x)
        ),
        "The factor m √(1/m) is missing.": _sum,
        "The factor is m: it must be m √(1/m), which is √m.": lambda *x: (
            _lengths(x[-1]) * _sum(*x)
        ),
        "The factor is √(1/m): it must be m √(1/m), which is √m.": lambda *x: (
            _lengths(x[-1]) ** -0.5 * _sum(*x)
        ),
        "The factor multiplies the scores: it scales the context, after the average.": lambda *x: (
            _sum(*x, query=_lengths(x[-1]).sqrt() * (x[0] @ x[4].mT + x[5] + x[1]))
        ),
        "The mask is not used: padding receives weight.": lambda *x: (
            _lengths(x[-1]).sqrt() * _unmasked(*x)
        ),
        "The mask is not used, and m includes padding.": lambda *x: (
            math.sqrt(x[-1].shape[-1]) * _unmasked(*x)
        ),
        "g is missing in the query d.": lambda *x: _step(
            *x, query=x[0] @ x[4].mT + x[5]
        ),
        "b is missing in the query d.": lambda *x: _step(
            *x, query=x[0] @ x[4].mT + x[1]
        ),
        "The key is z + e: it must be z; only the value is the sum.": lambda *x: _step(
            *x, key=x[2] + x[3]
        ),
        "The key is e: it must be z.": lambda *x: _step(*x, key=x[3]),
        "The value is z: it must be z + e.": lambda *x: _step(*x, value=x[2]),
        "The value is e: it must be z + e.": lambda *x: _step(*x, value=x[3]),
        "d is scaled by √½, as in the authors' code: the paper's text does not.": lambda *x: (
            _step(*x, query=_HALF * (x[0] @ x[4].mT + x[5] + x[1]))
        ),
        "z + e is scaled by √½, as in the authors' code: the paper's text does not.": lambda *x: (
            _HALF * _step(*x)
        ),
        "d and z + e are scaled by √½, as in the authors' code: the paper's text scales neither.": (
            lambda *x: _HALF * _step(*x, query=_HALF * (x[0] @ x[4].mT + x[5] + x[1]))
        ),
        "The scores are divided by √d, as in a Transformer: here they are dot products without scaling.": (
            lambda *x: _step(
                *x, query=(x[0] @ x[4].mT + x[5] + x[1]) / math.sqrt(x[1].shape[-1])
            )
        ),
        "The softmax runs over the queries: the weights of each query must sum to 1.": (
            lambda h, g, z, e, W, b, mask: (
                _lengths(mask).sqrt()
                * ((h @ W.mT + b + g) @ z.mT)
                .masked_fill(~mask[:, None], -torch.inf)
                .softmax(1)
                .nan_to_num()
                @ (z + e)
            )
        ),
    },
    hints={
        "size of tensor|must match": "The mask is (b, k), the scores are (b, q, k): use mask[:, None]."
    },
    alike=_step_inputs(5, 5),
    confusions={
        "W is transposed: it is (e, d), so W h is h @ W.mT.": lambda h, g, z, e, W, b, mask: (
            _step(h, g, z, e, W.mT, b, mask)
        )
    },
)


def _norms(v: Tensor, *axes: int) -> Tensor:
    return v.square().sum(axes, keepdim=True).sqrt()


NORMALISED = Exercise(
    inputs={"v": normal(7, 5, 3, seed=120), "g": normal(7, seed=121).abs() + 0.5},
    solution=lambda v, g: g[:, None, None] * v / _norms(v, 1, 2),
    mistakes={
        "The norm is that of the whole v: each output has its own.": lambda v, g: (
            g[:, None, None] * v / _norms(v, 0, 1, 2)
        ),
        "The norm runs over the inputs only: it must run over all weights of one output.": (
            lambda v, g: g[:, None, None] * v / _norms(v, 1)
        ),
        "The norm runs over the width only: it must run over all weights of one output.": (
            lambda v, g: g[:, None, None] * v / _norms(v, 2)
        ),
        "The norm runs over the outputs: it must run over all weights of one output.": lambda v, g: (
            g[:, None, None] * v / _norms(v, 0)
        ),
        "g is missing.": lambda v, g: v / _norms(v, 1, 2),
        "v is not divided by its norm: it must give the direction only.": lambda v, g: (
            g[:, None, None] * v
        ),
        "v is divided by its squared norm.": lambda v, g: (
            g[:, None, None] * v / _norms(v, 1, 2) ** 2
        ),
        "v is divided by the sum of its absolute values: the norm is the root of the sum of squares.": (
            lambda v, g: g[:, None, None] * v / v.abs().sum((1, 2), keepdim=True)
        ),
        "v is divided by its standard deviation: divide by its norm, without subtracting a mean.": (
            lambda v, g: g[:, None, None] * v / v.flatten(1).std(1)[:, None, None]
        ),
        "The mean is subtracted: weight normalisation only divides.": lambda v, g: (
            g[:, None, None] * _centred(v) / _norms(_centred(v), 1, 2)
        ),
    },
    hints={
        "must match": "g is (o) and v is (o, i, k): g needs two more axes, g[:, None, None]."
    },
)


def _centred(v: Tensor) -> Tensor:
    return v - v.mean((1, 2), keepdim=True)


EXERCISES = {"11.1": GATED_CONVOLUTION, "11.2": ATTENTION_STEP, "11.3": NORMALISED}
