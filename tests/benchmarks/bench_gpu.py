"""Everything that needs a GPU, in at most eight minutes: the benches, then the CUDA tests.

First training steps: bfloat16, by autocast as the trainer uses it, against float32, which
is exact and not TF32, and compiled against not. All ways begin with the same weights;
before anything is timed, their logits are compared. Then the scripts of SCRIPTS, and the
tests marked ``cuda``, each in a process of its own that is ended after an equal share of the
time that is left.
"""

import copy
import subprocess
import sys
import time
from pathlib import Path

import torch
from measure import in_turn, report, setting
from torch import nn

from attention_course.data.batching import Batch
from attention_course.training import sequence_loss
from companion.models import ConvS2S, Transformer

WORDS, SENTENCES, LENGTH, ROUNDS = 8000, 64, 128, 15
SECONDS = 480  # for everything
#: Also where the libraries of some other tests are missing.
TESTS = ["-m", "pytest", "-q", "-m", "cuda", "tests", "--ignore", "tests/book"]
TESTS.append("--continue-on-collection-errors")
#: Patterns against flash; decoding against transformers; Bahdanau's greedy; local-p.
SCRIPTS = ["bench_sparse", "bench_generate", "bench_bahdanau", "bench_local"]
HERE = Path(__file__).resolve().parent
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


def commands() -> dict[str, list[str]]:
    """What runs in processes of its own, by name."""
    # Unbuffered, so that what was printed is kept when the time is over.
    python = [sys.executable, "-u"]
    scripts = {name: [*python, str(HERE / f"{name}.py")] for name in SCRIPTS}
    return scripts | {"the CUDA tests": [*python, *TESTS]}


def run(name: str, command: list[str], seconds: float) -> None:
    """Run a command, for so many seconds at most."""
    print(f"== {name}", flush=True)
    try:
        done = subprocess.run(command, cwd=HERE.parents[1], timeout=max(seconds, 0.0))
    except subprocess.TimeoutExpired:
        print(f"{name}: out of time")
    else:
        print(f"{name}: exit status {done.returncode}")


def main() -> None:
    if not torch.cuda.is_available():
        print("needs an NVIDIA GPU; it would run, beside training steps:")
        print(*(" ".join(command) for command in commands().values()), sep="\n")
        return
    end = time.monotonic() + SECONDS
    torch.manual_seed(0)
    print(setting())
    print(f"{SENTENCES} sentences of {LENGTH} words on both sides")
    for name, build in MODELS.items():
        race(name, build().cuda())
    left = commands()
    while left:
        share = (end - time.monotonic()) / len(left)
        name = next(iter(left))
        run(name, left.pop(name), share)


if __name__ == "__main__":
    main()
