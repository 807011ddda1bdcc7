"""Small random models for the searches, and what is asserted of everything a search finds."""

import math

import pytest
import torch
from hypothesis import strategies as st

from companion.decoding import DecoderStep

PAD, BOS, EOS = 0, 1, 2
KEYS = 7
SENTENCES = 3


class ToyModel:
    """A recurrent network with random vectors, for three sentences.

    The attention weights depend on the whole prefix, so that exchanged rows are noticed.
    ``ending`` is added to the logit of ``<eos>``.
    """

    def __init__(self, seed, vocabulary, ending=0.0):
        generator = torch.Generator().manual_seed(seed)

        def normal(*shape):
            return torch.randn(*shape, generator=generator, dtype=torch.float64)

        self.vocabulary, self.ending = vocabulary, ending
        self.embedding = normal(vocabulary, 5)
        self.recurrent = normal(5, 5)
        self.output = normal(5, vocabulary)
        self.attention = normal(5, KEYS)
        self.initial = normal(SENTENCES, 5)

    def step(self, token, state):
        (hidden,) = state
        hidden = torch.tanh(hidden @ self.recurrent + self.embedding[token])
        logits = 2 * hidden @ self.output
        logits[:, EOS] += self.ending
        return DecoderStep(logits, (hidden,), (hidden @ self.attention).softmax(-1))

    def start(self, row=None):
        return (self.initial if row is None else self.initial[row : row + 1],)

    def retrace(self, row, tokens):
        """log p of each token, and the weights of each step, computed step by step."""
        state, before, log_probs, weights = self.start(row), BOS, [], []
        for token in tokens:
            logits, state, attended = self.step(torch.tensor([before]), state)
            log_probs.append(logits.log_softmax(-1)[0, token].item())
            weights.append(attended[0])
            before = token
        return log_probs, torch.stack(weights)

    def next_log_probs(self, row):
        def next_log_probs(prefix):
            state, before = self.start(row), BOS
            for token in (*prefix, None):
                logits, state, _ = self.step(torch.tensor([before]), state)
                before = token
            return logits.log_softmax(-1)[0].tolist()

        return next_log_probs


models = st.builds(
    ToyModel,
    st.integers(0, 10**6),
    st.integers(3, 7),
    st.sampled_from([-math.inf, -2.0, 0.0, 2.0]),
)
lengths = st.integers(1, 5)
widths = st.integers(1, 6)
penalties = st.sampled_from([0.0, 0.6, 1.0, 2.5])


def fixed_probabilities(first, later):
    """A step with these probabilities after ``<bos>``, and others after any other token."""

    def step(token, state):
        probabilities = torch.where(
            token[:, None] == BOS, torch.tensor(first), torch.tensor(later)
        )
        return DecoderStep(probabilities.log(), state, None)

    return step


two_tokens = fixed_probabilities([0.0, 0.0, 0.4, 0.6], [0.0, 0.0, 0.5, 0.5])


def length_of(tokens):
    """The number of tokens, ``<eos>`` included."""
    tokens = tokens.tolist()
    return tokens.index(EOS) + 1 if EOS in tokens else len(tokens)


def assert_same(found, expected):
    """A sentence of a batch, which may have more padding, and the same sentence alone."""
    length = expected.tokens.shape[-1]
    assert torch.equal(found.tokens[..., :length], expected.tokens)
    assert (found.tokens[..., length:] == PAD).all()
    for ours, alone in (
        (found.log_probs, expected.log_probs),
        (found.scores, expected.scores),
        (found.weights[..., :length, :], expected.weights),
    ):
        torch.testing.assert_close(ours, alone, atol=1e-10, rtol=0)
    assert (found.weights[..., length:, :] == 0).all()


def assert_true_to_the_model(model, row, found):
    """Log-probability and weights are those of these tokens; padding follows ``<eos>``."""
    length = length_of(found.tokens)
    log_probs, weights = model.retrace(row, found.tokens[:length].tolist())
    assert found.log_probs.item() == pytest.approx(sum(log_probs), abs=1e-9)
    torch.testing.assert_close(found.weights[:length], weights, atol=1e-10, rtol=0)
    assert (found.tokens[length:] == PAD).all()
    assert (found.weights[length:] == 0).all()


def at(found, *index):
    """One sentence, or several, of what a search found."""
    return type(found)(*(part[index] for part in found))
