"""Graves et al. 2014, Neural Turing machines."""

import math

from tests.reference.scalars import dot


def cosine_score(parameters, query, key):
    """e_ij = q_iᵀ k_j / (|q_i| |k_j|), and 0 where either is zero   (section 3.3.1)"""
    norms = math.sqrt(dot(query, query)) * math.sqrt(dot(key, key))
    return dot(query, key) / norms if norms else 0.0
