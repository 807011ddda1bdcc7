"""Beam search over a batch of sentences, against the same search sentence by sentence."""

import os

import torch
from measure import compare, setting

from attention_course.data.vocabulary import PAD
from companion.attention import Additive
from companion.decoding import beam_search
from companion.models import BahdanauDecoder, BahdanauEncoder, EncoderDecoder
from tests.tiny import MARKS

SENTENCES, LENGTH, WIDTH = 64, 20, 5
SIZES = {  # words of both languages, embedding, hidden
    "chapter 2's model": (36, 32, 64),
    "our Multi30k experiment's": (7853, 256, 320),
    "the Multi30k tutorials'": (7853, 256, 512),
}


class Race:
    """The same search and sentences for both implementations."""

    def __init__(self, words: int, embedding: int, hidden: int):
        torch.manual_seed(0)
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        decoder = BahdanauDecoder(
            words, embedding, hidden, 2 * hidden, Additive(hidden, 2 * hidden, hidden)
        )
        decoder.output.W.weight.data *= (
            30  # as peaked a distribution as a trained model's
        )
        self.model = EncoderDecoder(
            BahdanauEncoder(words, embedding, hidden, pad=0), decoder
        ).to(self.device)
        self.source = torch.randint(4, words, (SENTENCES, LENGTH))
        lengths = torch.linspace(LENGTH // 2, LENGTH, SENTENCES).long()
        self.source[torch.arange(LENGTH) >= lengths[:, None]] = PAD

    @torch.no_grad()
    def search(self, source):
        state = self.model.start(source.to(self.device))
        return beam_search(
            self.model.step, state, LENGTH, WIDTH, length_penalty=1.0, **MARKS
        )

    def batched(self):
        return self.search(self.source)

    def one_at_a_time(self):
        return [
            self.search(sentence[sentence != PAD][None]) for sentence in self.source
        ]


def require_identical(batched, alone):
    for row, found in enumerate(alone):
        length = found.tokens.shape[-1]
        assert torch.equal(batched.tokens[row, :, :length], found.tokens[0])
        assert (batched.tokens[row, :, length:] == PAD).all()
        torch.testing.assert_close(
            batched.log_probs[row], found.log_probs[0], atol=1e-3, rtol=1e-4
        )


def main():
    cores = 1 if torch.cuda.is_available() else os.cpu_count() or 1
    for threads in sorted({1, cores}):
        torch.set_num_threads(threads)  # cores can divide the work of a batch
        print(setting())
        print(
            f"{SENTENCES} sentences of {LENGTH // 2} to {LENGTH} words, a beam of {WIDTH}"
        )
        for name, sizes in SIZES.items():
            race = Race(*sizes)
            # In float32, rounding may exchange two nearly equal hypotheses of a batch.
            race.model.double()
            require_identical(race.batched(), race.one_at_a_time())
            race.model.float()
            compare(
                f"beam search, {name} size",
                race.batched,
                race.one_at_a_time,
                "at least 5",
                rounds=5,
            )


if __name__ == "__main__":
    main()
