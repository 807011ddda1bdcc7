"""Training steps on a GPU: in bfloat16 against float32, and compiled against not.

bfloat16 is by autocast, as the trainer uses it. float32 is exact, not TF32. All ways
begin with the same weights; before anything is timed, their logits are compared.
"""

import copy

import torch
from measure import in_turn, report, setting
from torch import nn

from attention_course.data.batching import Batch
from attention_course.training import sequence_loss
from companion.models import ConvS2S, Transformer

WORDS, SENTENCES, LENGTH, ROUNDS = 8000, 64, 128, 15
MODELS = {
    "Transformer, the paper's base": lambda: Transformer(
        WORDS, WORDS, 512, 8, 2048, layers=6, dropout=0.0, pad=0
    ),
    "ConvS2S, 6 layers of 512": lambda: ConvS2S(
        WORDS, WORDS, 512, 512, layers=6, dropout=0.0, max_length=LENGTH, pad=0
    ),
}


class Training:
    """Steps of Adam on one batch, by one copy of a model."""

    def __init__(self, model: nn.Module, batch: Batch, bfloat16: bool, compiled: bool):
        self.model, self.batch, self.bfloat16 = copy.deepcopy(model), batch, bfloat16
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-5)
        if compiled:
            self.model.compile(fullgraph=True)

    def autocast(self) -> torch.autocast:
        return torch.autocast("cuda", torch.bfloat16, enabled=self.bfloat16)

    def logits(self) -> torch.Tensor:
        with self.autocast():
            logits = self.model(self.batch.source, self.batch.target[:, :-1])
        return logits.detach().float()

    def __call__(self) -> None:
        self.optimizer.zero_grad()
        with self.autocast():
            loss = sequence_loss(self.model, self.batch)
        (loss.total / loss.count).backward()
        self.optimizer.step()


def race(name: str, model: nn.Module) -> None:
    source, target = torch.randint(4, WORDS, (2, SENTENCES, LENGTH), device="cuda")
    batch = Batch(source, target)
    ways = {
        "float32": Training(model, batch, bfloat16=False, compiled=False),
        "bfloat16": Training(model, batch, bfloat16=True, compiled=False),
        "compiled": Training(model, batch, bfloat16=True, compiled=True),
    }
    exact = ways["float32"].logits()
    for training in ways.values():
        assert (training.logits() - exact).norm() < 0.1 * exact.norm()
    times = in_turn(ways, ROUNDS)
    for ours, other in [("bfloat16", "float32"), ("compiled", "bfloat16")]:
        title = f"a training step, {name}, {ours} against {other}"
        report(title, times[ours], times[other], "s", "none")


def main() -> None:
    if not torch.cuda.is_available():
        print("needs an NVIDIA GPU")
        return
    torch.manual_seed(0)
    print(setting())
    print(f"{SENTENCES} sentences of {LENGTH} words on both sides")
    for name, build in MODELS.items():
        race(name, build().cuda())


if __name__ == "__main__":
    main()
