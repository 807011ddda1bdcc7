"""Bahdanau's decoder against the one of most tutorials: the same model with the same parameters.

The tutorials' decoder projects every key again at every step, in one matrix with the query, and applies the
output layer inside the loop.
"""

import sys

import torch
from measure import compare, output_of, peak_of_this_process, report, setting
from torch import nn
from torch.nn import functional

from attention_course.data.vocabulary import BOS, EOS, PAD
from companion.attention import Additive
from companion.decoding import greedy
from companion.models import BahdanauDecoder, BahdanauEncoder, EncoderDecoder
from tests.tiny import MARKS

GERMAN, ENGLISH, EMBEDDING, HIDDEN = (
    7853,
    5893,
    256,
    512,
)  # the sizes of the Multi30k tutorials
SENTENCES, LENGTH = 64, 30


class TutorialDecoder(nn.Module):
    """The parameters of a :class:`companion.models.BahdanauDecoder`, used as in most tutorials."""

    def __init__(self, decoder: BahdanauDecoder):
        super().__init__()
        attention = decoder.attention
        self.embedding, self.cell, self.output = (
            decoder.embedding,
            decoder.cell,
            decoder.output,
        )
        self.W_s, self.v = decoder.W_s, attention.v
        self.both = nn.Linear(HIDDEN + 2 * HIDDEN, HIDDEN, bias=False)
        self.both.weight.data = torch.cat(
            [attention.W.weight.data, attention.U.weight.data], 1
        )

    def attend(self, hidden, states, mask):
        repeated = hidden[:, None].repeat(1, states.shape[1], 1)
        energy = torch.tanh(self.both(torch.cat([repeated, states], -1))) @ self.v
        weights = energy.masked_fill(~mask, -torch.inf).softmax(-1)
        return (weights[:, None] @ states).squeeze(1)

    def one_step(self, token, hidden, states, mask):
        embedded = self.embedding(token)
        context = self.attend(hidden, states, mask)
        logits = self.output(hidden, embedded, context)
        return logits, self.cell(torch.cat([embedded, context], -1), hidden)

    def forward(self, target, states, mask):
        hidden, outputs = torch.tanh(self.W_s(states[:, 0, HIDDEN:])), []
        for token in target.unbind(1):
            logits, hidden = self.one_step(token, hidden, states, mask)
            outputs.append(logits)
        return torch.stack(outputs, 1)

    @torch.no_grad()
    def greedy(self, states, mask, max_length):
        hidden = torch.tanh(self.W_s(states[:, 0, HIDDEN:]))
        token, tokens = torch.full(states.shape[:1], BOS, device=states.device), []
        for _ in range(max_length):
            logits, hidden = self.one_step(token, hidden, states, mask)
            token = logits.argmax(-1)
            tokens.append(token)
        return torch.stack(tokens, 1)


def build():
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    attention = Additive(HIDDEN, 2 * HIDDEN, HIDDEN)
    decoder = BahdanauDecoder(ENGLISH, EMBEDDING, HIDDEN, 2 * HIDDEN, attention)
    decoder.output.W.bias.data[EOS] = -1e9  # both decode to the maximum length
    ours = EncoderDecoder(BahdanauEncoder(GERMAN, EMBEDDING, HIDDEN, pad=0), decoder)
    tutorial = EncoderDecoder(ours.encoder, TutorialDecoder(decoder))
    source = torch.randint(4, GERMAN, (SENTENCES, LENGTH))
    lengths = torch.linspace(LENGTH // 2, LENGTH, SENTENCES).long()
    source[torch.arange(LENGTH) >= lengths[:, None]] = PAD
    target = torch.randint(4, ENGLISH, (SENTENCES, LENGTH))
    return ours.to(device), tutorial.to(device), source.to(device), target.to(device)


class Race:
    """The same work in both ways, with the same parameters and sentences."""

    def __init__(self):
        self.model, self.tutorial_model, self.source, self.target = build()

    def ours(self):
        return self.model(self.source, self.target)

    def tutorial(self):
        return self.tutorial_model.decoder(
            self.target, *self.tutorial_model.encoder(self.source)
        )

    def step(self, logits):
        self.model.zero_grad()
        self.tutorial_model.zero_grad()
        functional.cross_entropy(
            logits().flatten(0, 1), self.target.flatten()
        ).backward()

    def our_greedy(self):
        return greedy(
            self.model.step, self.model.start(self.source), LENGTH, **MARKS
        ).tokens

    @torch.no_grad()
    def tutorial_greedy(self):
        return self.tutorial_model.decoder.greedy(
            *self.tutorial_model.encoder(self.source), LENGTH
        )


def peak(name):
    race = Race()
    race.step(getattr(race, name))
    print(peak_of_this_process())


def main():
    print(setting())
    print(
        f"{SENTENCES} sentences of {LENGTH // 2} to {LENGTH} words, embedding {EMBEDDING}, hidden {HIDDEN}"
    )
    # First, while this process is small: a child's peak includes its parent's memory at the fork.
    peaks = {
        name: [output_of(__file__, name) for _ in range(3)]
        for name in ("ours", "tutorial")
    }
    report(
        "peak memory of a training step",
        peaks["ours"],
        peaks["tutorial"],
        "MB",
        "at least 1",
    )

    race = Race()
    torch.testing.assert_close(race.ours(), race.tutorial(), atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(race.our_greedy(), race.tutorial_greedy())
    compare(
        "training step",
        lambda: race.step(race.ours),
        lambda: race.step(race.tutorial),
        "at least 2",
    )
    compare("greedy decode", race.our_greedy, race.tutorial_greedy, "at least 1.5")


if __name__ == "__main__":
    peak(sys.argv[1]) if sys.argv[1:] else main()
