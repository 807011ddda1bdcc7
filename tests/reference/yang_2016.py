"""Yang et al. 2016, Hierarchical attention networks for document classification."""

from tests.reference import bahdanau_2015
from tests.reference.recurrence import bidirectional_gru
from tests.reference.scalars import context, dot, linear, part, softmax, tanh


def hidden_dot_score(parameters, query, state):
    """u_j = tanh(W h_j + b),   e_j = qᵀ u_j   (equations 5 and 6)"""
    return dot(query, tanh(linear(part(parameters, "W"), state)))


def attention_pooling(parameters, states):
    """α_j = softmax_j(uᵀ u_j),   Σ_j α_j h_j   (equations 6 and 7)"""
    scores = [
        hidden_dot_score(part(parameters, "attention"), parameters["query"], state)
        for state in states
    ]
    weights = softmax(scores)
    return context(weights, states), weights


def hierarchical_attention(parameters, document):
    """s_i from the words of each sentence, v from the sentences   (equations 1 to 11), without padding

    Returns the logits, each sentence's word weights, and the sentence weights.
    """
    sentences, words = [], []
    for sentence in document:
        states = bahdanau_2015.encoder(part(parameters, "encoder.words"), sentence)
        vector, weights = attention_pooling(part(parameters, "encoder.pooling"), states)
        sentences.append(vector)
        words.append(weights)
    states = bidirectional_gru(part(parameters, "encoder.rnn"), sentences)
    vector, weights = attention_pooling(part(parameters, "pooling"), states)
    return linear(part(parameters, "W"), vector), words, weights
