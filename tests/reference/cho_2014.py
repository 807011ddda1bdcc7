"""Cho et al. 2014, Learning phrase representations using RNN encoder–decoder."""

from tests.reference.recurrence import gru_cell
from tests.reference.scalars import linear, part, tanh


def deep_output(parameters, state, embedded, attended):
    """The maxout output layer.

    t̃ = [U_o V_o C_o] [s; y; c],   t_j = max(t̃_{2j−1}, t̃_{2j}),   logits = W_o t
    (Bahdanau et al. 2015, appendix A.2.2)
    """
    raw = linear(part(parameters, "hidden"), state + embedded + attended)
    maxout = [max(raw[j], raw[j + 1]) for j in range(0, len(raw), 2)]
    return linear(part(parameters, "W"), maxout)


def logits(parameters, source, target):
    """Logits after each token of ``target``   (section 2.2 and appendix A.1).

    h_j = GRU(x_j, h_{j−1}),   c = tanh(V h_T)
    h'_0 = tanh(V' c),   h'_t = GRU([y_{t−1}; c], h'_{t−1}),   p(y_t) from h'_t, y_{t−1}, c
    """
    encoder, decoder = part(parameters, "encoder"), part(parameters, "decoder")
    state = [0.0] * len(encoder["rnn.weight_hh_l0"][0])
    for token in source:
        state = gru_cell(
            part(encoder, "rnn"), encoder["embedding.weight"][token], state, "_l0"
        )
    summary = tanh(linear(part(encoder, "V"), state))
    hidden, outputs = tanh(linear(part(decoder, "V"), summary)), []
    for token in target:
        word = decoder["embedding.weight"][token]
        hidden = gru_cell(part(decoder, "rnn"), word + summary, hidden, "_l0")
        outputs.append(deep_output(part(decoder, "output"), hidden, word, summary))
    return outputs
