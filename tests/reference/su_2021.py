"""Su et al. 2021, RoFormer: enhanced Transformer with rotary position embedding."""

import math

from tests.reference.vaswani_2017 import scaled_dot_score


def rotated(x, position, base=10000.0):
    """R_m x: each pair of dimensions is rotated by m θ_t, θ_t = base^(−2t/d)   (equations 15 and 34)"""
    result = []
    for t in range(len(x) // 2):
        angle = position * base ** (-2 * t / len(x))
        first, second = x[2 * t], x[2 * t + 1]
        result.append(first * math.cos(angle) - second * math.sin(angle))
        result.append(first * math.sin(angle) + second * math.cos(angle))
    return result


def rotary_score(query, key, i, j):
    """(R_i q)ᵀ (R_j k) / √d   (equation 16)"""
    return scaled_dot_score({}, rotated(query, i), rotated(key, j))
