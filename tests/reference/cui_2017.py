"""Cui et al. 2017, Attention-over-attention neural networks for reading comprehension."""

import math

from tests.reference.scalars import softmax, transposed


def attention_over_attention(scores):
    """s_i = Σ_t α(t)_i β_t   (section 3): M has a row for each word of the document, without padding"""
    alpha = [softmax(column) for column in transposed(scores)]
    beta = [
        math.fsum(column) / len(scores)
        for column in transposed([softmax(row) for row in scores])
    ]
    return [
        math.fsum(a[i] * b for a, b in zip(alpha, beta, strict=True))
        for i in range(len(scores))
    ]
