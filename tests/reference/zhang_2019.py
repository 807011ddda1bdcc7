"""Zhang and Sennrich 2019, Root mean square layer normalization; and the two layers built on it."""

import math

from tests.reference.scalars import dot, sigmoid, times


def rms_norm(gain, x, epsilon=1e-6):
    """g ∘ x / √(mean of x² + ε)   (equation 4)"""
    size = math.sqrt(math.fsum(number**2 for number in x) / len(x) + epsilon)
    return times(gain, [number / size for number in x])


def normalised_score(query_gain, key_gain, query, key):
    """RMSNorm(q)ᵀ RMSNorm(k) / √d   (Dehghani et al. 2023, section 2, with this norm)"""
    return dot(rms_norm(query_gain, query), rms_norm(key_gain, key)) / math.sqrt(
        len(query)
    )


def swiglu(gate, up, down, x):
    """W_down (Swish(W_gate x) ∘ W_up x)   (Shazeer 2020, equation 6)"""
    gates = [dot(row, x) for row in gate]
    opened = times(gates, sigmoid(gates))
    hidden = times(opened, [dot(row, x) for row in up])
    return [dot(row, hidden) for row in down]
