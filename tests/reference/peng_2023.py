"""Peng et al. 2023, YaRN, and Chen et al. 2023, position interpolation: rotations for longer texts."""

import math

from tests.reference.su_2021 import rotated
from tests.reference.vaswani_2017 import scaled_dot_score


def interpolated(x, position, scale):
    """f(x, m / s)   (Chen et al. 2023, equation 4)"""
    return rotated(x, position / scale)


def ramp(r, slow, fast):
    """γ(r)   (Peng et al. 2023, section 3.2)"""
    if r < slow:
        return 0.0
    if r > fast:
        return 1.0
    return (r - slow) / (fast - slow)


def yarn_frequency(theta, scale, trained, slow=1.0, fast=32.0):
    """h(θ) = (1 − γ(r)) θ / s + γ(r) θ,   r = L / λ,   λ = 2π / θ   (section 3.2)"""
    gamma = ramp(trained / (2 * math.pi / theta), slow, fast)
    return (1 - gamma) * theta / scale + gamma * theta


def yarn_score(query, key, i, j, scale, trained, slow=1.0, fast=32.0):
    """q_iᵀ k_j / (t √d) with √(1/t) = 0.1 ln s + 1   (section 3.4)"""
    pairs = [
        yarn_frequency(10000.0 ** (-2 * t / len(query)), scale, trained, slow, fast)
        for t in range(len(query) // 2)
    ]
    q, k = turned(query, i, pairs), turned(key, j, pairs)
    return scaled_dot_score({}, q, k) * (0.1 * math.log(scale) + 1) ** 2


def turned(x, position, frequencies):
    """Each pair of dimensions, rotated by its angle."""
    result = []
    for t, theta in enumerate(frequencies):
        c, s = math.cos(position * theta), math.sin(position * theta)
        result += [x[2 * t] * c - x[2 * t + 1] * s, x[2 * t] * s + x[2 * t + 1] * c]
    return result
