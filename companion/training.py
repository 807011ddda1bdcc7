"""Training that knows no model: any device, a progress bar, held-out figures, exact resume."""

import io
import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch
from accelerate import Accelerator
from accelerate.utils import send_to_device
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR, LRScheduler
from tqdm import tqdm

from companion.checkpoint import random_state, read, replacing, require_same, set_random_state
from companion.data.batching import Batch
from companion.data.vocabulary import PAD

Record = dict[str, int | float]


@runtime_checkable
class Steps(Protocol):
    """What training draws from: a batch for every step, the same one whenever it is asked for."""

    def __getitem__(self, step: int) -> Any: ...


class Trainer:
    """Minimise a loss of a model, step by step, on whatever device there is.

    A step descends the gradient of ``loss(model, batch)``, its norm clipped to at most ``clip``. Where a GPU
    has bfloat16 the forward pass runs in it by autocast, on older ones in float16, and elsewhere in float32.
    ``step`` counts the steps taken, and ``history`` holds what :meth:`fit` recorded.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer,
        loss: Callable[[nn.Module, Any], Tensor],
        schedule: LRScheduler | None = None,
        clip: float = 1.0,
    ):
        self.accelerator = Accelerator(mixed_precision=_precision())
        self.model, self.loss, self.schedule, self.clip = model, loss, schedule, clip
        self.prepared, self.optimizer = self.accelerator.prepare(model, optimizer)
        self.step = 0
        self.history: list[Record] = []

    def fit(
        self,
        batches: Steps,
        steps: int,
        evaluate: Callable[[nn.Module], Record] | None = None,
        every: int = 100,
        checkpoint: Path | str | None = None,
    ) -> list[Record]:
        """Train until ``steps`` steps have been taken in all, and return the history.

        After every ``every`` steps, and at the end, a record is added: the step, the mean training loss since
        the last record, and what ``evaluate(model)`` answers. Then the checkpoint is saved, if one is named.

        Raises:
            ValueError: ``steps`` or ``every`` is below 1.
            FloatingPointError: a loss or gradient is not finite; the parameters stay as they were before it.
        """
        if min(steps, every) < 1:
            raise ValueError(f"steps and every must be at least 1, but are {steps} and {every}")
        losses: list[float] = []
        self.model.train()
        with tqdm(total=steps, initial=self.step, unit="step", desc="training") as progress:
            while self.step < steps:
                losses.append(self._descend(batches[self.step]))
                self.step += 1
                progress.update()
                if self.step % every == 0 or self.step == steps:
                    figures = self._evaluate(evaluate) if evaluate else {}
                    self.history.append({"step": self.step, "loss": sum(losses) / len(losses), **figures})
                    losses.clear()
                    progress.set_postfix(self.history[-1])
                    if checkpoint is not None:
                        self.save(checkpoint)
        return self.history

    def _descend(self, batch: Any) -> float:
        self.optimizer.zero_grad()
        with self.accelerator.autocast():
            loss = self.loss(self.prepared, send_to_device(batch, self.accelerator.device))
        self._require_finite("loss", value := loss.item())
        self.accelerator.backward(loss)
        norm = self.accelerator.clip_grad_norm_(self.prepared.parameters(), self.clip)
        if self.accelerator.scaler is None:  # which skips such a step by itself, and scales less from then on
            self._require_finite("gradient's norm", float(norm))
        self.optimizer.step()
        if self.schedule is not None and not self.optimizer.step_was_skipped:
            self.schedule.step()
        return value

    def _require_finite(self, name: str, value: float) -> None:
        if not math.isfinite(value):
            raise FloatingPointError(f"the {name} of step {self.step} is {value}; no parameter changed")

    def _evaluate(self, evaluate: Callable[[nn.Module], Record]) -> Record:
        with evaluating(self.model), self.accelerator.autocast():
            return {name: float(figure) for name, figure in evaluate(self.model).items()}

    def save(self, path: Path | str) -> None:
        """Write all that training depends on into one file, which is there whole or not at all."""
        content = io.BytesIO()  # torch would turn an error of the disk into one that names neither
        torch.save(self._state(), content)
        with replacing(path) as file:
            file.write(content.getbuffer())

    def load(self, path: Path | str) -> None:
        """Go on where the checkpoint was saved, to the very same numbers.

        Raises:
            FileNotFoundError: there is no such file.
            ValueError: it is no checkpoint, is damaged, or is one of another model, optimiser or schedule.
                Then nothing has changed.
        """
        saved = read(path)
        require_same(path, self._state(), saved)
        for name, part in self._parts().items():
            if part is not None:
                part.load_state_dict(saved[name])
        self.step, self.history = saved["step"], saved["history"]
        set_random_state(saved["random"])

    def _parts(self) -> dict[str, Any]:
        scaler = self.accelerator.scaler
        return {"model": self.model, "optimizer": self.optimizer, "schedule": self.schedule, "scaler": scaler}

    def _state(self) -> dict[str, Any]:
        parts = {name: part if part is None else part.state_dict() for name, part in self._parts().items()}
        return parts | {"step": self.step, "history": self.history, "random": random_state()}


def sequence_loss(model: nn.Module, batch: Batch) -> Tensor:
    """The mean cross-entropy of the next target tokens, each given the source and the true tokens before it.

    ::

        loss = − 1/N Σ_{i,t} log p(y_{i,t} | y_{i,<t}, x_i),   N target tokens, padding not among them
    """
    logits = model(batch.source, batch.target[:, :-1])
    return cross_entropy(logits.flatten(0, 1), batch.target[:, 1:].flatten(), ignore_index=PAD)


def held_out(model: nn.Module, batches: Iterable[Batch]) -> Record:
    """The mean loss of all tokens of all batches, as in :func:`sequence_loss`, and its exponential."""
    device = next(model.parameters()).device
    total, tokens = 0.0, 0
    with evaluating(model):
        for batch in batches:
            count = int((batch.target[:, 1:] != PAD).sum())
            total += count * sequence_loss(model, send_to_device(batch, device)).item()
            tokens += count
    return {"held_out_loss": total / tokens, "perplexity": math.exp(total / tokens)}


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """In the block the model is in evaluation mode and no gradient is kept; then it is as it was before."""
    before = {module: module.training for module in model.modules()}
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, training in before.items():
            module.training = training


def warmup_cosine(optimizer: Optimizer, warmup: int, steps: int) -> LambdaLR:
    """A learning rate that rises for ``warmup`` steps, and falls along half a cosine to 0 at step ``steps``.

    ::

        rate(step) = rate · min(1, (step + 1) / warmup) · (1 + cos(π step / steps)) / 2

    Raises:
        ValueError: ``warmup`` does not lie between 1 and ``steps``.
    """
    if not 1 <= warmup <= steps:
        raise ValueError(f"the warm-up must take 1 to {steps} steps, not {warmup}")

    def share(step: int) -> float:
        return min(1, (step + 1) / warmup) * (1 + math.cos(math.pi * min(step, steps) / steps)) / 2

    return LambdaLR(optimizer, share)


def _precision() -> str:
    if not torch.cuda.is_available():
        return "no"
    return "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "fp16"
