"""Bahdanau's decoder against the way most tutorials write it: the very same model, with the same weights.

The tutorials' decoder projects every key again at every step, beside the query in one matrix, and calls the
output layer inside the loop.
"""

import sys

import torch
from torch import nn
from torch.nn import functional

from companion.bahdanau import Additive, Decoder, Encoder
from companion.data.vocabulary import BOS, PAD
from companion.decoding import greedy
from companion.seq2seq import EncoderDecoder
from measure import compare, output_of, peak_of_this_process, report, setting

GERMAN, ENGLISH, EMBEDDING, HIDDEN = 7853, 5893, 256, 512  # the sizes of the Multi30k tutorials
SENTENCES, LENGTH = 64, 30


class TutorialDecoder(nn.Module):
    """The weights of a :class:`companion.bahdanau.Decoder`, used as most tutorials do."""

    def __init__(self, decoder: Decoder):
        super().__init__()
        attention = decoder.attention
        self.embedding, self.cell, self.output = decoder.embedding, decoder.cell, decoder.output
        self.W_s, self.v = decoder.W_s, attention.v
        self.both = nn.Linear(HIDDEN + 2 * HIDDEN, HIDDEN, bias=False)
        self.both.weight.data = torch.cat([attention.W.weight.data, attention.U.weight.data], 1)

    def look(self, hidden, states, mask):
        repeated = hidden[:, None].repeat(1, states.shape[1], 1)
        energy = torch.tanh(self.both(torch.cat([repeated, states], -1))) @ self.v
        weights = energy.masked_fill(~mask, -torch.inf).softmax(-1)
        return (weights[:, None] @ states).squeeze(1)

    def one_step(self, token, hidden, states, mask):
        embedded = self.embedding(token)
        context = self.look(hidden, states, mask)
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
    decoder = Decoder(ENGLISH, EMBEDDING, HIDDEN, 2 * HIDDEN, attention)
    ours = EncoderDecoder(Encoder(GERMAN, EMBEDDING, HIDDEN), decoder)
    tutorial = EncoderDecoder(ours.encoder, TutorialDecoder(decoder))
    source = torch.randint(4, GERMAN, (SENTENCES, LENGTH))
    lengths = torch.linspace(LENGTH // 2, LENGTH, SENTENCES).long()
    source[torch.arange(LENGTH) >= lengths[:, None]] = PAD
    target = torch.randint(4, ENGLISH, (SENTENCES, LENGTH))
    return ours.to(device), tutorial.to(device), source.to(device), target.to(device)


def training_step(model, logits, target):
    model.zero_grad()
    functional.cross_entropy(logits.flatten(0, 1), target.flatten()).backward()


def main():
    ours, tutorial, source, target = build()

    def tutorial_logits():
        return tutorial.decoder(target, *tutorial.encoder(source))

    def our_step():
        training_step(ours, ours(source, target), target)

    def tutorial_step():
        training_step(tutorial, tutorial_logits(), target)

    if sys.argv[1:]:
        {"ours": our_step, "tutorial": tutorial_step}[sys.argv[1]]()
        print(peak_of_this_process())
        return

    print(setting())
    print(f"{SENTENCES} sentences of {LENGTH // 2} to {LENGTH} words, embedding {EMBEDDING}, hidden {HIDDEN}")
    torch.testing.assert_close(ours(source, target), tutorial_logits(), atol=1e-4, rtol=1e-4)
    compare("training step", our_step, tutorial_step, "at least 2")

    def our_decode():
        return greedy(ours.step, ours.start(source), LENGTH).tokens

    def tutorial_decode():
        with torch.no_grad():
            return tutorial.decoder.greedy(*tutorial.encoder(source), LENGTH)

    torch.testing.assert_close(our_decode(), tutorial_decode())
    compare("greedy decode", our_decode, tutorial_decode, "at least 1.5")
    peaks = {name: [output_of(__file__, name) for _ in range(3)] for name in ("ours", "tutorial")}
    report("peak memory of a training step", peaks["ours"], peaks["tutorial"], "MB", "at least 1")


if __name__ == "__main__":
    main()
