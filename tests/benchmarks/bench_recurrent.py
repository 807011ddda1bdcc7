"""A packed encoder against a loop over time steps that computes the padding as well."""

import torch
from measure import compare, setting
from torch import nn

from attention_course.data.vocabulary import PAD
from companion.models import ChoEncoder

WORDS, EMBEDDING, HIDDEN = 7853, 256, 512
SENTENCES, SHORTEST, LONGEST = 128, 5, 40


class Race:
    """The same vectors in both ways, with the same parameters."""

    def __init__(self):
        torch.manual_seed(0)
        device = "cuda" if torch.cuda.is_available() else "cpu"
        self.encoder = ChoEncoder(WORDS, EMBEDDING, HIDDEN, pad=0).to(device)
        self.cell = nn.GRUCell(EMBEDDING, HIDDEN, device=device)
        for name, parameter in self.cell.named_parameters():
            parameter.data = getattr(self.encoder.rnn, f"{name}_l0").data
        self.source = torch.randint(4, WORDS, (SENTENCES, LONGEST), device=device)
        lengths = torch.linspace(SHORTEST, LONGEST, SENTENCES, device=device).long()
        self.source[torch.arange(LONGEST, device=device) >= lengths[:, None]] = PAD

    def packed(self):
        return self.encoder(self.source)[0]

    def loop(self):
        hidden = torch.zeros(SENTENCES, HIDDEN, device=self.source.device)
        for words in self.source.unbind(1):
            hidden_after = self.cell(self.encoder.embedding(words), hidden)
            hidden = torch.where((words != PAD)[:, None], hidden_after, hidden)
        return torch.tanh(self.encoder.V(hidden))

    def step(self, vectors):
        self.encoder.zero_grad()
        self.cell.zero_grad()
        vectors().square().sum().backward()


def main():
    print(setting())
    print(
        f"{SENTENCES} sentences of {SHORTEST} to {LONGEST} words, embedding {EMBEDDING}, hidden {HIDDEN}"
    )
    race = Race()
    torch.testing.assert_close(race.packed(), race.loop(), atol=1e-5, rtol=1e-4)
    with torch.no_grad():
        compare("packed encoder", race.packed, race.loop, "above 1")
    compare(
        "its training step",
        lambda: race.step(race.packed),
        lambda: race.step(race.loop),
        "above 1",
    )


if __name__ == "__main__":
    main()
