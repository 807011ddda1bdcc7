"""Beam search over a batch of sentences, against the same search over one sentence at a time."""

import torch
from measure import compare, setting

from companion.bahdanau import Additive, Decoder, Encoder
from companion.data.vocabulary import PAD
from companion.decoding import beam_search
from companion.seq2seq import EncoderDecoder

GERMAN, ENGLISH = 7853, 5893  # words, as in the Multi30k tutorials
SENTENCES, LENGTH, WIDTH = 64, 20, 5
SIZES = [(128, 256), (256, 512)]  # embedding and hidden: our experiment's, and the tutorials'


class Race:
    """The same search in both ways, over the same sentences."""

    def __init__(self, embedding: int, hidden: int):
        torch.manual_seed(0)
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        decoder = Decoder(ENGLISH, embedding, hidden, 2 * hidden, Additive(hidden, 2 * hidden, hidden))
        decoder.output.W.weight.data *= 30  # as sure of its words as a trained model, not all nearly equal
        self.model = EncoderDecoder(Encoder(GERMAN, embedding, hidden), decoder).to(self.device)
        self.source = torch.randint(4, GERMAN, (SENTENCES, LENGTH))
        lengths = torch.linspace(LENGTH // 2, LENGTH, SENTENCES).long()
        self.source[torch.arange(LENGTH) >= lengths[:, None]] = PAD

    @torch.no_grad()
    def search(self, source):
        state = self.model.start(source.to(self.device))
        return beam_search(self.model.step, state, LENGTH, WIDTH, length_penalty=1.0)

    def together(self):
        return self.search(self.source)

    def one_by_one(self):
        return [self.search(sentence[sentence != PAD][None]) for sentence in self.source]


def require_identical(together, alone):
    for row, found in enumerate(alone):
        length = found.tokens.shape[-1]
        assert torch.equal(together.tokens[row, :, :length], found.tokens[0])
        assert (together.tokens[row, :, length:] == PAD).all()
        torch.testing.assert_close(together.log_probs[row], found.log_probs[0], atol=1e-3, rtol=1e-4)


def main():
    print(setting())
    print(f"{SENTENCES} sentences of {LENGTH // 2} to {LENGTH} words, a beam of {WIDTH}")
    for embedding, hidden in SIZES:
        race = Race(embedding, hidden)
        require_identical(race.together(), race.one_by_one())
        name = f"beam search, embedding {embedding}, hidden {hidden}"
        compare(name, race.together, race.one_by_one, "at least 5", rounds=5)


if __name__ == "__main__":
    main()
