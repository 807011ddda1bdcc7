"""Training that knows no model: any device, a progress bar, held-out figures, exact resume."""

import copy
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
from torch.optim.lr_scheduler import LRScheduler
from tqdm import tqdm

from companion.checkpoint import random_state, read, require_same, set_random_state, settings, write
from companion.data.batching import Batch
from companion.data.vocabulary import PAD
from companion.schedule import warmup_cosine as warmup_cosine

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
        model.to(self.accelerator.device)
        self.model, self.loss, self.schedule, self.clip = model, loss, schedule, clip
        self.optimizer = self.accelerator.prepare(optimizer)
        self.step, self._losses = 0, list[float]()  # the losses since the last record
        self.history: list[Record] = []
        self._settings = settings(**self._parts()) | {"processes": "1"}

    def fit(
        self,
        batches: Steps,
        steps: int,
        evaluate: Callable[[nn.Module], Record] | None = None,
        every: int = 100,
        checkpoint: Path | str | None = None,
        log: Callable[[Record], None] | None = None,
    ) -> list[Record]:
        """Train until ``steps`` steps have been taken in all, and return the history.

        After every ``every`` steps, and at the end, a record is added: the step, the mean training loss since
        the last record, and what ``evaluate(model)`` answers. ``log`` is given the record, and then the
        checkpoint is saved, if they are named.

        Raises:
            ValueError: ``steps`` or ``every`` is below 1.
            FloatingPointError: a loss or gradient is not finite; the parameters stay as they were before it.
        """
        if min(steps, every) < 1:
            raise ValueError(f"steps and every must be at least 1, but are {steps} and {every}")
        self.model.train()
        with tqdm(total=steps, initial=self.step, unit="step", desc="training") as progress:
            while self.step < steps:
                self._losses.append(self._descend(batches[self.step]))
                self.step += 1
                progress.update()
                if self.step % every == 0 or self.step == steps:
                    self._record(evaluate)
                    progress.set_postfix(self.history[-1])
                    if log is not None:
                        log(dict(self.history[-1]))
                    if checkpoint is not None:
                        self.save(checkpoint)
        return copy.deepcopy(self.history)

    def _descend(self, batch: Any) -> float:
        self.optimizer.zero_grad()
        with self.accelerator.autocast():
            loss = self.loss(self.model, send_to_device(batch, self.accelerator.device))
        self.accelerator.backward(loss)
        norm = self.accelerator.clip_grad_norm_(self.model.parameters(), self.clip)
        value, size = torch.stack([loss.detach(), norm]).tolist()  # a GPU waits for this, so only once
        self._require_finite("loss", value)
        if self.accelerator.scaler is None:  # which skips such a step by itself, and scales less from then on
            self._require_finite("gradient's norm", size)
        self.optimizer.step()
        if self.schedule is not None and not self.optimizer.step_was_skipped:
            self.schedule.step()
        return value

    def _require_finite(self, name: str, value: float) -> None:
        if not math.isfinite(value):
            raise FloatingPointError(f"the {name} of step {self.step} is {value}; no parameter changed")

    def _record(self, evaluate: Callable[[nn.Module], Record] | None) -> None:
        record: Record = {"step": self.step, "loss": sum(self._losses) / len(self._losses)}
        if evaluate is not None:
            with evaluating(self.model), self.accelerator.autocast():
                record |= {name: float(figure) for name, figure in evaluate(self.model).items()}
        self.history.append(record)
        self._losses.clear()

    def save(self, path: Path | str) -> None:
        """Write all that training depends on into one file, which is there whole or not at all."""
        write(path, self._state())

    def load(self, path: Path | str) -> None:
        """Go on where the checkpoint was saved, to the very same numbers.

        Raises:
            FileNotFoundError: there is no such file.
            ValueError: it is damaged, or of another model, optimiser or schedule; nothing has changed.
        """
        saved = read(path)
        before = copy.deepcopy(self._state())
        require_same(path, before, saved)
        try:
            self._restore(saved)
        except Exception as error:
            self._restore(before)
            raise ValueError(f"{path} is damaged: {error!r}") from error

    def _restore(self, state: dict[str, Any]) -> None:
        for name, part in self._parts().items():
            if part is not None:
                part.load_state_dict(state[name])
        set_random_state(state["random"][0])
        self.step, self.history, self._losses = state["step"], state["history"], state["losses"]

    def _parts(self) -> dict[str, Any]:
        scaler = self.accelerator.scaler
        return {"model": self.model, "optimizer": self.optimizer, "schedule": self.schedule, "scaler": scaler}

    def _state(self) -> dict[str, Any]:
        parts = {name: part if part is None else part.state_dict() for name, part in self._parts().items()}
        progress = {"step": self.step, "history": self.history, "losses": self._losses}
        return parts | progress | {"settings": self._settings, "random": [random_state()]}


def sequence_loss(model: nn.Module, batch: Batch) -> Tensor:
    """The mean cross-entropy of the next target tokens, each given the source and the true tokens before it.

    ::

        loss = − 1/N Σ_{i,t} log p(y_{i,t} | y_{i,<t}, x_i),   N target tokens, padding not among them
    """
    logits = model(batch.source, batch.target[:, :-1])
    return cross_entropy(logits.flatten(0, 1), batch.target[:, 1:].flatten(), ignore_index=PAD)


def held_out(model: nn.Module, batches: Iterable[Batch]) -> Record:
    """The mean loss of all tokens of all batches, as in :func:`sequence_loss`, and its exponential.

    Raises:
        ValueError: no batch has a target token.
    """
    device = next(model.parameters()).device
    total, tokens = 0.0, 0
    with evaluating(model):
        for batch in batches:
            count = int((batch.target[:, 1:] != PAD).sum())
            total += count * sequence_loss(model, send_to_device(batch, device)).item()
            tokens += count
    if not tokens:
        raise ValueError("there is no target token to measure the loss of")
    mean = total / tokens
    return {"held_out_loss": mean, "perplexity": math.exp(mean) if mean < 709 else math.inf}


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


def _precision() -> str:
    half = "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "fp16"
    return half if torch.cuda.is_available() else "no"
