"""Katharopoulos et al. 2020, Transformers are RNNs: linear attention."""

import math

from tests.reference.scalars import add, dot


def elu_features(x):
    """φ(x) = elu(x) + 1, elementwise   (equation 7)"""
    return [number + 1 if number > 0 else math.exp(number) for number in x]


def linear_weights(query, keys):
    """φ(q)ᵀ φ(k_j) / Σ_l φ(q)ᵀ φ(k_l)   (equation 4)"""
    products = [dot(elu_features(query), elu_features(key)) for key in keys]
    return [x / math.fsum(products) for x in products]


def recurrence(queries, keys, values):
    """S_i = S_(i−1) + φ(k_i) v_iᵀ,   c_i = φ(q_i)ᵀ S_i / φ(q_i)ᵀ z_i   (equations 18 to 20)"""
    S = [[0.0] * len(values[0]) for _ in keys[0]]
    z = [0.0] * len(keys[0])
    contexts = []
    for query, key, value in zip(queries, keys, values, strict=True):
        features, asked = elu_features(key), elu_features(query)
        S = [
            add(row, [f * x for x in value]) for row, f in zip(S, features, strict=True)
        ]
        z = add(z, features)
        above = [dot(asked, column) for column in zip(*S, strict=True)]
        contexts.append([x / dot(asked, z) for x in above])
    return contexts
