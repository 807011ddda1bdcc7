"""Press et al. 2022, Train short, test long: attention with linear biases."""

from tests.reference.vaswani_2017 import scaled_dot_score


def slopes(heads):
    """A geometric sequence that starts at 2^(−8/n) and has that ratio   (section 3)"""
    start = 2 ** (-8 / heads)
    found = [start]
    while len(found) < heads:
        found.append(found[-1] * start)
    return found


def biased_score(query, key, i, j, slope):
    """q_iᵀ k_j / √d − m |i − j|   (section 3; there j ≤ i)"""
    return scaled_dot_score({}, query, key) - slope * abs(i - j)
