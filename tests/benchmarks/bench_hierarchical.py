"""Hierarchical attention with all sentences in one batch, against the usual loop over sentences."""

import torch
from measure import compare, setting

from attention_course.data.vocabulary import PAD
from companion.models import HierarchicalAttention

WORDS, EMBEDDING, SIZE, CLASSES = 20_000, 64, 64, 2
DOCUMENTS, SENTENCES, LONGEST = 64, 16, 24


class Race:
    """The same documents and model for both implementations."""

    def __init__(self):
        torch.manual_seed(0)
        device = "cuda" if torch.cuda.is_available() else "cpu"
        self.model = HierarchicalAttention(WORDS, EMBEDDING, SIZE, CLASSES, pad=0).to(
            device
        )
        self.documents = torch.randint(
            4, WORDS, (DOCUMENTS, SENTENCES, LONGEST), device=device
        )
        lengths = torch.randint(
            5, LONGEST + 1, (DOCUMENTS, SENTENCES, 1), device=device
        )
        counts = torch.linspace(4, SENTENCES, DOCUMENTS, device=device).long()[
            :, None, None
        ]
        position = torch.arange(SENTENCES, device=device)[:, None]
        self.documents[
            (torch.arange(LONGEST, device=device) >= lengths) | (position >= counts)
        ] = PAD

    def batched(self):
        return self.model(self.documents)

    def loop(self):
        return torch.cat(
            [self.encode_document(document) for document in self.documents]
        )

    def encode_document(self, document):
        """One document, sentence by sentence."""
        encoder, vectors = self.model.encoder, []
        for sentence in document[(document != PAD).any(1)]:
            vectors.append(
                encoder.pooling(*encoder.words(sentence[None, sentence != PAD]))
            )
        states, _ = encoder.rnn(torch.stack(vectors, 1))
        mask = torch.ones(states.shape[:2], dtype=torch.bool, device=states.device)
        return self.model.W(self.model.pooling(states, mask))

    def step(self, logits):
        self.model.zero_grad()
        logits().square().sum().backward()


def main():
    print(setting())
    print(
        f"{DOCUMENTS} documents of 4 to {SENTENCES} sentences, each of 5 to {LONGEST} words, size {SIZE}"
    )
    race = Race()
    torch.testing.assert_close(race.batched(), race.loop(), atol=1e-5, rtol=1e-4)
    with torch.no_grad():
        compare("hierarchical attention", race.batched, race.loop, "5")
    compare(
        "hierarchical attention, training step",
        lambda: race.step(race.batched),
        lambda: race.step(race.loop),
        "5",
        rounds=3,
    )


if __name__ == "__main__":
    main()
