"""Qiu et al. 2025: gated attention, a sigmoid behind the softmax."""

from tests.reference.scalars import context, linear, part, sigmoid, softmax, times
from tests.reference.vaswani_2017 import scaled_dot_score


def gated_attention(parameters, inputs, heads, visible):
    """W_O (Y ∘ σ(X W_θ)), Y = [head_1; …; head_h]   (section 2.2, position G1, elementwise)"""
    q, k, v = (
        [linear(part(parameters, name), x) for x in inputs]
        for name in ("W_Q", "W_K", "W_V")
    )
    size, outputs = len(q[0]) // heads, []
    for i, x in enumerate(inputs):
        joined = []
        for head in range(heads):
            own = slice(head * size, (head + 1) * size)
            scores = [scaled_dot_score({}, q[i][own], key[own]) for key in k]
            weights = softmax(scores, [visible(i, j) for j in range(len(k))])
            joined += context(weights, [value[own] for value in v])
        gate = sigmoid(linear(part(parameters, "W_G"), x))
        outputs.append(linear(part(parameters, "W_O"), times(joined, gate)))
    return outputs
