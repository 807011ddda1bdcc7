"""Yang et al. 2024, Gated Linear Attention: how much is forgotten depends on the position."""

import math

from tests.reference.katharopoulos_2020 import elu_features
from tests.reference.scalars import add, dot, transposed


def gate(logit, temperature):
    """α = σ(g)^(1/τ)   (section 4)"""
    return (1 / (1 + math.exp(-logit))) ** (1 / temperature)


def gated_recurrence(queries, keys, values, decays):
    """S_t = α_t S_(t−1) + k_tᵀ v_t,   o_t = q_t S_t, with one number α_t for all features"""
    S = [[0.0] * len(values[0]) for _ in keys[0]]
    contexts = []
    for query, key, value, decay in zip(queries, keys, values, decays, strict=True):
        S = [
            add([decay * x for x in row], [k * x for x in value])
            for row, k in zip(S, key, strict=True)
        ]
        contexts.append([dot(query, column) for column in transposed(S)])
    return contexts


def averages(queries, keys, values, decays):
    """The same of φ(q) and φ(k), divided by what it gives for values of 1."""
    features = [[elu_features(x) for x in vectors] for vectors in (queries, keys)]
    above = gated_recurrence(*features, values, decays)
    below = gated_recurrence(*features, [[1.0]] * len(values), decays)
    return [[x / z for x in row] for row, (z,) in zip(above, below, strict=True)]
