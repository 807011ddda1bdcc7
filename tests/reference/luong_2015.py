"""Luong et al. 2015, Effective approaches to attention-based neural machine translation."""

import math

from tests.reference.recurrence import deep_lstm
from tests.reference.scalars import context, dot, linear, part, sigmoid, softmax, tanh


def dot_score(parameters, query, key):
    """e_ij = q_iᵀ k_j   (section 3.1)"""
    return dot(query, key)


def bilinear_score(parameters, query, key):
    """e_ij = q_iᵀ W k_j   (section 3.1, general)"""
    return dot(query, linear(part(parameters, "W"), key))


def concat_score(parameters, query, key):
    """e_ij = vᵀ tanh(W [q_i; k_j])   (section 3.1, concat)"""
    return dot(parameters["v"], tanh(linear(part(parameters, "W"), query + key)))


def global_weights(score):
    """a_t(s) = exp(e_ts) / Σ_s' exp(e_ts')   (equation 7)"""
    return lambda parameters, query, states, t: softmax(
        [score(parameters, query, h) for h in states]
    )


def location_weights(parameters, query, states, t):
    """a_t = softmax(W_a h_t), restricted to the positions of the source   (equation 8)"""
    return softmax(linear(part(parameters, "W"), query)[: len(states)])


def window_weights(score, parameters, query, states, centre, radius):
    """a_t(s) = softmax over the s with |s − p_t| ≤ D, and 0 elsewhere   (section 3.2)"""
    scores = [score(part(parameters, "attention"), query, h) for h in states]
    return softmax(scores, [abs(s - centre) <= radius for s in range(len(states))])


def local_m_weights(score, radius):
    """p_t = t   (section 3.2)"""
    return lambda parameters, query, states, t: window_weights(
        score, parameters, query, states, t, radius
    )


def predicted_centre(parameters, query, length):
    """p_t = S σ(v_pᵀ tanh(W_p h_t))   (equation 9)"""
    hidden = tanh(linear(part(parameters, "W_p"), query))
    return length * sigmoid([dot(parameters["v_p"], hidden)])[0]


def local_p_weights(score, radius):
    """a_t(s) exp(−(s − p_t)² / 2σ²) with σ = D / 2   (equation 10)"""

    def weights(parameters, query, states, t):
        centre, sigma = predicted_centre(parameters, query, len(states)), radius / 2
        around = window_weights(score, parameters, query, states, centre, radius)
        return [
            a * math.exp(-((s - centre) ** 2) / (2 * sigma**2))
            for s, a in enumerate(around)
        ]

    return weights


def teacher_forced(parameters, attend, source, target, input_feeding):
    """Logits and weights after each token of ``target``   (section 3).

    h_t = LSTM(y_{t−1}, h_{t−1}), or with input feeding LSTM([y_{t−1}; h̃_{t−1}], h_{t−1}), h̃_0 = 0
    c_t = Σ_s a_t(s) h̄_s,   h̃_t = tanh(W_c [c_t; h_t]),   logits = W_s h̃_t
    """
    encoder, decoder = part(parameters, "encoder"), part(parameters, "decoder")
    rnn = part(encoder, "rnn")
    zeros = [0.0] * len(rnn["weight_hh_l0"][0])
    layers = [(zeros, zeros)] * sum(name.startswith("weight_hh") for name in rnn)
    fed = [0.0] * len(decoder["W_c.weight"])
    states, logits, weights = [], [], []
    for token in source:
        layers = deep_lstm(rnn, encoder["embedding.weight"][token], layers)
        states.append(layers[-1][0])
    for t, token in enumerate(target):
        word = decoder["embedding.weight"][token]
        layers = deep_lstm(
            part(decoder, "rnn"), word + fed if input_feeding else word, layers
        )
        query = layers[-1][0]
        weights.append(attend(part(decoder, "attention"), query, states, t))
        fed = tanh(linear(part(decoder, "W_c"), context(weights[-1], states) + query))
        logits.append(linear(part(decoder, "output"), fed))
    return logits, weights
