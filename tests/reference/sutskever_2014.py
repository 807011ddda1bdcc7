"""Sutskever et al. 2014, Sequence to sequence learning with neural networks."""

from tests.reference.recurrence import deep_lstm
from tests.reference.scalars import linear, part


def logits(parameters, source, target):
    """Logits after each token of ``target``   (sections 2 and 3.3).

    layers = LSTM over x_T, …, x_1
    layers = LSTM(y_{t−1}, layers),   logits = W s_t of the last layer
    """
    return logits_in_source_order(parameters, source[::-1], target)


def logits_in_source_order(parameters, source, target):
    """The same without reversing the source."""
    encoder, decoder = part(parameters, "encoder"), part(parameters, "decoder")
    rnn = part(encoder, "rnn")
    count = sum(name.startswith("weight_hh") for name in rnn)
    zeros = [0.0] * len(rnn["weight_hh_l0"][0])
    layers, outputs = [(zeros, zeros)] * count, []
    for token in source:
        layers = deep_lstm(rnn, encoder["embedding.weight"][token], layers)
    for token in target:
        layers = deep_lstm(
            part(decoder, "rnn"), decoder["embedding.weight"][token], layers
        )
        outputs.append(linear(part(decoder, "output"), layers[-1][0]))
    return outputs
