"""Yin et al. 2016, ABCNN: attention-based convolutional neural network for modeling sentence pairs."""

import math

from tests.reference.scalars import context, part, tanh, transposed


def match_scores(left, right):
    """A_ij = 1 / (1 + |x_i − y_j|)   (section 4)"""
    return [[1 / (1 + math.dist(x, y)) for y in right] for x in left]


def attention_feature_map(W, scores):
    """F_i = Σ_j A_ij W_0[:, j], one for each row of A   (section 4)"""
    return [
        [sum(a * w for a, w in zip(row, feature, strict=False)) for feature in W]
        for row in scores
    ]


def wide_convolution(parameters, words):
    """p_i = tanh(W [v_{i−w+1}; …; v_i] + b), i = 1 … s + w − 1, zero beyond both ends   (section 3)"""
    width, phrases = len(parameters["weight"][0][0]), []
    for i in range(len(words) + width - 1):
        phrase = list(parameters["bias"])
        for channel, taps in enumerate(parameters["weight"]):
            for feature, row in enumerate(taps):
                for m, tap in enumerate(row):
                    if 0 <= i - width + 1 + m < len(words):
                        phrase[channel] += tap * words[i - width + 1 + m][feature]
        phrases.append(tanh(phrase))
    return phrases


def window_sums(phrases, weights, width):
    """v'_j = Σ_{k=j}^{j+w−1} a_k p_k   (sections 3 and 4)"""
    return [
        context(weights[j : j + width], phrases[j : j + width])
        for j in range(len(phrases) - width + 1)
    ]


def abcnn(parameters, left, right, before, after):
    """A block on one pair of sentences, with or without attention before and after the convolution."""
    convolution = part(parameters, "convolution")
    width = len(convolution["weight"][0][0])
    if before:
        scores = match_scores(left, right)
        first = attention_feature_map(parameters["W_0"], scores)
        second = attention_feature_map(parameters["W_0"], transposed(scores))
        left = [x + f for x, f in zip(left, first, strict=True)]
        right = [x + f for x, f in zip(right, second, strict=True)]
    left, right = (
        wide_convolution(convolution, left),
        wide_convolution(convolution, right),
    )
    rows, columns = [1 / width] * len(left), [1 / width] * len(right)
    if after:
        scores = match_scores(left, right)
        rows = [sum(row) for row in scores]
        columns = [sum(column) for column in transposed(scores)]
    return window_sums(left, rows, width), window_sums(right, columns, width)
