"""Wu et al. 2016, Google's neural machine translation system."""

import math


def length_penalty(words, power):
    """lp(Y) = ((5 + |Y|) / 6)^α   (equation 14)"""
    return ((5 + words) / 6) ** power


def score(log_prob, weights, length_power, coverage_factor):
    """s(Y, X) = log p / lp(Y) + β Σ_j log min(Σ_i α_ij, 1)   (equation 14)

    ``weights`` holds one list for each token of Y, with one weight for each token of X.
    """
    coverage = sum(
        math.log(min(sum(received), 1.0)) for received in zip(*weights, strict=True)
    )
    return (
        log_prob / length_penalty(len(weights), length_power)
        + coverage_factor * coverage
    )
