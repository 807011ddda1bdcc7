"""Schlag et al. 2021, Linear Transformers Are Secretly Fast Weight Programmers: the delta rule."""

from tests.reference.scalars import add, dot


def unit(vector):
    """x / |x|"""
    norm = dot(vector, vector) ** 0.5
    return [x / norm for x in vector]


def recurrence(queries, keys, values, betas):
    """Write to what was retrieved before, and read   (section 4.2)

    v̄_i = W_(i−1) k_i,   W_i = W_(i−1) + β_i (v_i − v̄_i) ⊗ k_i,   y_i = W_i q_i
    """
    W = [[0.0] * len(keys[0]) for _ in values[0]]
    contexts = []
    for query, key, value, beta in zip(queries, keys, values, betas, strict=True):
        held = [dot(row, key) for row in W]
        W = [
            add(row, [beta * (v - old) * k for k in key])
            for row, v, old in zip(W, value, held, strict=True)
        ]
        contexts.append([dot(row, query) for row in W])
    return contexts
