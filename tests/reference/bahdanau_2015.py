"""Bahdanau et al. 2015, Neural machine translation by jointly learning to align and translate."""

from tests.reference import cho_2014
from tests.reference.recurrence import bidirectional_gru, gru_cell
from tests.reference.scalars import (
    add,
    context,
    dot,
    linear,
    part,
    sigmoid,
    softmax,
    tanh,
    times,
)


def additive_score(parameters, query, state):
    """e_ij = vᵀ tanh(W s_{i−1} + U h_j)   (appendix A.1.2)"""
    hidden = add(
        linear(part(parameters, "W"), query), linear(part(parameters, "U"), state)
    )
    return dot(parameters["v"], tanh(hidden))


def gated_unit(W, U, W_z, U_z, W_r, U_r, x, state):
    """The paper's gated unit, which applies the reset gate before the matrix   (appendix A.1.1).

    z = σ(W_z x + U_z s),   r = σ(W_r x + U_r s)
    s̃ = tanh(W x + U [r ∘ s])
    s' = (1 − z) ∘ s + z ∘ s̃
    """
    update = sigmoid(
        add([dot(row, x) for row in W_z], [dot(row, state) for row in U_z])
    )
    reset = sigmoid(add([dot(row, x) for row in W_r], [dot(row, state) for row in U_r]))
    kept = times(reset, state)
    new = tanh(add([dot(row, x) for row in W], [dot(row, kept) for row in U]))
    return [(1 - z) * s + z * a for z, a, s in zip(update, new, state, strict=True)]


def encoder(parameters, source):
    """→h_j = GRU(x_j, →h_{j−1}),   ←h_j = GRU(x_j, ←h_{j+1}),   h_j = [→h_j; ←h_j]   (section 3.2)"""
    return bidirectional_gru(
        part(parameters, "rnn"),
        [parameters["embedding.weight"][token] for token in source],
    )


def initial_state(parameters, states):
    """s_0 = tanh(W_s ←h_1)   (appendix A.2.2)"""
    return tanh(linear(part(parameters, "W_s"), states[0][len(states[0]) // 2 :]))


def attend(parameters, query, states):
    """α_ij = softmax_j(e_ij),   c_i = Σ_j α_ij h_j"""
    attention = part(parameters, "attention")
    weights = softmax([additive_score(attention, query, state) for state in states])
    return context(weights, states), weights


def step(parameters, token, hidden, states, last=None):
    """c_i from s_{i−1};   p(y_i) from s_{i−1}, y_{i−1}, c_i;   s_i = GRU([y_{i−1}; c_i], s_{i−1})"""
    word = parameters["embedding.weight"][token]
    attended, weights = attend(parameters, hidden, states)
    logits = cho_2014.deep_output(part(parameters, "output"), hidden, word, attended)
    return (
        logits,
        gru_cell(part(parameters, "cell"), word + attended, hidden),
        (attended, weights),
    )


def state_and_word_step(parameters, token, hidden, states, last=None):
    """As :func:`step`, with the query [s_{i−1}; y_{i−1}]"""
    word = parameters["embedding.weight"][token]
    attended, weights = attend(parameters, hidden + word, states)
    logits = cho_2014.deep_output(part(parameters, "output"), hidden, word, attended)
    return (
        logits,
        gru_cell(part(parameters, "cell"), word + attended, hidden),
        (attended, weights),
    )


def current_state_step(parameters, token, hidden, states, last=None):
    """s_i = GRU([y_{i−1}; c_{i−1}], s_{i−1});   c_i from s_i;   p(y_i) from s_i, y_{i−1}, c_i;   c_0 = 0"""
    word = parameters["embedding.weight"][token]
    before = last[0] if last else [0.0] * len(states[0])
    hidden = gru_cell(part(parameters, "cell"), word + before, hidden)
    attended, weights = attend(parameters, hidden, states)
    return (
        cho_2014.deep_output(part(parameters, "output"), hidden, word, attended),
        hidden,
        (attended, weights),
    )


def teacher_forced(parameters, step, source, target):
    """Logits and weights after each token of ``target``, of one sentence, by one of the steps."""
    states = encoder(part(parameters, "encoder"), source)
    decoder = part(parameters, "decoder")
    hidden, last = initial_state(decoder, states), None
    logits, weights = [], []
    for token in target:
        scores, hidden, last = step(decoder, token, hidden, states, last)
        logits.append(scores)
        weights.append(last[1])
    return logits, weights
