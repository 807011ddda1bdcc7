"""Chorowski et al. 2015, Attention-based models for speech recognition."""

from tests.reference import cho_2014
from tests.reference.recurrence import gru_cell
from tests.reference.scalars import add, context, dot, linear, part, softmax, tanh


def location_features(filters, previous):
    """f_ij,c = Σ_m F_c,m α_{i−1, j+m−middle}, with α = 0 beyond both ends   (equation 8)"""
    features = []
    for j in range(len(previous)):
        row = []
        for (taps,) in filters:
            middle, total = len(taps) // 2, 0.0
            for m, tap in enumerate(taps):
                if 0 <= j + m - middle < len(previous):
                    total += tap * previous[j + m - middle]
            row.append(total)
        features.append(row)
    return features


def location_score(parameters, query, state, features):
    """e_ij = vᵀ tanh(W s_{i−1} + U h_j + L f_ij + b)   (equation 9)"""
    hidden = add(
        linear(part(parameters, "W"), query),
        linear(part(parameters, "U"), state),
        linear(part(parameters, "L"), features),
    )
    return dot(parameters["v"], tanh(hidden))


def step(parameters, token, hidden, states, last=None):
    """As Bahdanau's step, with location-sensitive scores;   α_0 = 0"""
    word = parameters["embedding.weight"][token]
    attention = part(parameters, "attention")
    features = location_features(
        attention["F.weight"], last[1] if last else [0.0] * len(states)
    )
    scores = [
        location_score(attention, hidden, h, f)
        for h, f in zip(states, features, strict=True)
    ]
    weights = softmax(scores)
    attended = context(weights, states)
    logits = cho_2014.deep_output(part(parameters, "output"), hidden, word, attended)
    return (
        logits,
        gru_cell(part(parameters, "cell"), word + attended, hidden),
        (attended, weights),
    )
