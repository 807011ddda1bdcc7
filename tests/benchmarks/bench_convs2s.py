"""The convolutional model's training step against other models', and decoding from its state and without.

All models have 256 dimensions for embeddings and layers, and about four million parameters beside the
embeddings; sentences have 40 tokens on both sides. Both ways of decoding must generate the same tokens.
"""

import torch
from measure import compare, setting

from attention_course.data.batching import Batch
from attention_course.training import sequence_loss
from companion.attention import Dot
from companion.decoding import greedy
from companion.models import ConvS2S, EncoderDecoder, Transformer, luong
from tests.tiny import MARKS

WORDS, SIZE, SENTENCES, LENGTH = 4000, 256, 32, 40
MODELS = {
    "Luong with input feeding": lambda: EncoderDecoder(
        luong.LuongEncoder(WORDS, SIZE, SIZE, layers=4, pad=0),
        luong.InputFeedingDecoder(WORDS, SIZE, SIZE, Dot(), layers=4),
    ),
    "Luong": lambda: EncoderDecoder(
        luong.LuongEncoder(WORDS, SIZE, SIZE, layers=4, pad=0),
        luong.LuongDecoder(WORDS, SIZE, SIZE, Dot(), layers=4),
    ),
    "Transformer": lambda: Transformer(
        WORDS, WORDS, SIZE, 4, 4 * SIZE, layers=2, dropout=0.0, pad=0
    ),
}


class Race:
    """Models that are all trained on the same sentences."""

    def __init__(self):
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        torch.manual_seed(0)
        source, target = torch.randint(
            4, WORDS, (2, SENTENCES, LENGTH), device=self.device
        )
        self.batch = Batch(source, target)

    def build(self, make):
        torch.manual_seed(0)
        return make().to(self.device)

    def learn(self, model):
        model.zero_grad()
        sequence_loss(model, self.batch).total.backward()


def convs2s():
    return ConvS2S(
        WORDS, WORDS, SIZE, SIZE, layers=4, dropout=0.0, max_length=300, pad=0
    )


@torch.no_grad()
def from_the_state(model, source, words):
    return greedy(model.step, model.start(source), words, **MARKS).tokens


@torch.no_grad()
def all_again(model, source, words):
    """Compute the whole prefix again for every token, and the normalised weights too."""
    state, target = model.start(source), torch.ones_like(source[:, :1])
    for _ in range(words):
        target = torch.cat([target, model.decoder(target, state)[:, -1:].argmax(-1)], 1)
    return target[:, 1:]


def size(model):
    embeddings = [
        model.encoder.embedding,
        model.decoder.embedding,
        model.decoder.output,
    ]
    words = {id(p) for layer in embeddings for p in layer.parameters()}
    return sum(p.numel() for p in model.parameters() if id(p) not in words) / 1e6


def main():
    torch.set_num_threads(1)
    print(setting())
    race, ours = Race(), Race().build(convs2s)
    print(
        f"{SENTENCES} sentences of {LENGTH} words; ours has {size(ours):.1f} million parameters"
    )
    for name, make in MODELS.items():
        other = race.build(make)
        goal = "above 1" if name == "Luong with input feeding" else "none"
        compare(
            f"training step, {name} ({size(other):.1f} million)",
            lambda: race.learn(ours),
            lambda other=other: race.learn(other),
            goal,
            rounds=5,
        )
    ours.eval()
    ours.decoder.output.bias.data[2] = -1e9  # never <eos>
    source = race.batch.source[:8]
    assert torch.equal(from_the_state(ours, source, 64), all_again(ours, source, 64))
    for words, goal in ((64, "above 3"), (256, "above 10")):
        compare(
            f"decoding {words} words of 8 sentences",
            lambda words=words: from_the_state(ours, source, words),
            lambda words=words: all_again(ours, source, words),
            goal,
            rounds=3,
        )


if __name__ == "__main__":
    main()
