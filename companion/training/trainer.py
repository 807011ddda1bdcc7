"""Training that knows no model: any devices, a progress bar, held-out figures, exact resume."""

import copy
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch
from accelerate import Accelerator, PartialState
from accelerate.utils import (
    find_batch_size,
    gather_object,
    recursively_apply,
    send_to_device,
)
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler
from tqdm import tqdm

from companion.training.checkpoint import (
    random_state,
    read,
    require_same,
    set_random_state,
    settings,
    write,
)
from companion.training.losses import Loss, Record, evaluating


@runtime_checkable
class Steps(Protocol):
    """What training draws from: a batch for every step, the same one whenever it is asked for."""

    def __getitem__(self, step: int) -> Any: ...


class Trainer:
    """Minimise a loss of a model, step by step, on whatever devices there are.

    A step descends the gradient of the mean ``total / count`` of ``loss(model, batch)``, its norm clipped to
    at most ``clip``. Where a GPU has bfloat16 the forward pass runs in it by autocast, on older ones in
    float16, and elsewhere in float32. ``step`` counts the steps taken, and ``history`` holds what :meth:`fit`
    recorded.

    Several processes, as ``accelerate launch`` starts them, share each batch: every tensor in it has the rows
    on its first axis, and of n processes number i takes the rows i, i + n, i + 2n … The gradient is that of
    the mean over all of them, so that, apart from what is drawn at random, training is the same on any number
    of processes up to rounding. The loss must use the model by calling it, with all parameters taking
    part in the result. All processes call the methods; the main one alone shows progress and writes.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer,
        loss: Callable[[nn.Module, Any], Loss],
        schedule: LRScheduler | None = None,
        clip: float = 1.0,
    ):
        device = PartialState(cpu=not torch.accelerator.is_available()).device
        self.accelerator = Accelerator(mixed_precision=_precision(device))
        model.to(device)
        alone = self.accelerator.num_processes == 1
        self._shared = (
            model if alone else DistributedDataParallel(model)
        )  # which averages the gradients
        self.model, self.loss, self.schedule, self.clip = model, loss, schedule, clip
        self.optimizer = self.accelerator.prepare(optimizer)
        self.step, self._losses = 0, list[float]()  # the losses since the last record
        self.history: list[Record] = []
        self._settings = settings(**self._parts()) | {
            "processes": str(self.accelerator.num_processes)
        }

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
        the last record, and what ``evaluate(model)`` answers, in each process anew. ``log`` is given the
        record, in the main process alone, and then the checkpoint is saved, if they are named.

        Raises:
            ValueError: ``steps`` or ``every`` is below 1.
            FloatingPointError: a loss or gradient is not finite; the parameters stay as they were before it.
        """
        if min(steps, every) < 1:
            raise ValueError(
                f"steps and every must be at least 1, but are {steps} and {every}"
            )
        self.model.train()
        main = self.accelerator.is_main_process
        with tqdm(
            total=steps,
            initial=self.step,
            unit="step",
            desc="training",
            disable=not main,
        ) as progress:
            while self.step < steps:
                self._losses.append(self._descend(batches[self.step]))
                self.step += 1
                progress.update()
                if self.step % every == 0 or self.step == steps:
                    self._record(evaluate)
                    progress.set_postfix(self.history[-1])
                    if log is not None and main:
                        log(dict(self.history[-1]))
                    if checkpoint is not None:
                        self.save(checkpoint)
        return copy.deepcopy(self.history)

    def _descend(self, batch: Any) -> float:
        self.optimizer.zero_grad()
        rows, weight = shard_batch(
            batch, self.accelerator.process_index, self.accelerator.num_processes
        )
        with self.accelerator.autocast():
            loss = self.loss(
                self._shared, send_to_device(rows, self.accelerator.device)
            )
        sums = self.accelerator.reduce(
            weight * torch.stack([loss.total.detach(), loss.count.to(loss.total)]),
            "sum",
        )
        self.accelerator.backward(
            weight * self.accelerator.num_processes * loss.total / sums[1]
        )
        norm = self.accelerator.clip_grad_norm_(self.model.parameters(), self.clip)
        value, size = torch.stack(
            [sums[0] / sums[1], norm]
        ).tolist()  # a GPU waits for this, so only once
        self._require_finite("loss", value)
        if (
            self.accelerator.scaler is None
        ):  # which skips such a step by itself, and scales less from then on
            self._require_finite("gradient's norm", size)
        self.optimizer.step()
        if self.schedule is not None and not self.optimizer.step_was_skipped:
            self.schedule.step()
        return value

    def _require_finite(self, name: str, value: float) -> None:
        if not math.isfinite(value):
            raise FloatingPointError(
                f"the {name} of step {self.step} is {value}; no parameter changed"
            )

    def _record(self, evaluate: Callable[[nn.Module], Record] | None) -> None:
        record: Record = {
            "step": self.step,
            "loss": sum(self._losses) / len(self._losses),
        }
        if evaluate is not None:
            with evaluating(self.model), self.accelerator.autocast():
                record |= {
                    name: float(figure) for name, figure in evaluate(self.model).items()
                }
        self.history.append(record)
        self._losses.clear()

    def save(self, path: Path | str) -> None:
        """Write all that training depends on into one file, which is there whole or not at all."""
        state = self._state()
        if self.accelerator.is_main_process:
            write(path, state)
        self.accelerator.wait_for_everyone()

    def load(self, path: Path | str) -> None:
        """Go on where the checkpoint was saved, to the very same numbers.

        Raises:
            FileNotFoundError: there is no such file.
            ValueError: it is damaged, or of another model, optimiser, schedule or number of processes;
                nothing has changed.
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
        set_random_state(state["random"][self.accelerator.process_index])
        self.step, self.history, self._losses = (
            state["step"],
            state["history"],
            state["losses"],
        )

    def _parts(self) -> dict[str, Any]:
        scaler = self.accelerator.scaler
        return {
            "model": self.model,
            "optimizer": self.optimizer,
            "schedule": self.schedule,
            "scaler": scaler,
        }

    def _state(self) -> dict[str, Any]:
        parts = {
            name: part if part is None else part.state_dict()
            for name, part in self._parts().items()
        }
        progress = {"step": self.step, "history": self.history, "losses": self._losses}
        return (
            parts
            | progress
            | {"settings": self._settings, "random": gather_object([random_state()])}
        )


def shard_batch(batch: Any, process: int, processes: int) -> tuple[Any, float]:
    """The rows of a batch that one of several processes takes, and their weight in the sums: 1.

    Where no row is left for it, it takes the first with weight 0, for it must take part in the step.

    Raises:
        TypeError: there are several processes, and the batch holds something that is no tensor, nor a tuple,
            list or dictionary of them: nothing says which part of it belongs to which rows.
    """
    if processes == 1:
        return batch, 1.0
    enough = process < find_batch_size(batch)
    rows = slice(process, None, processes) if enough else slice(1)
    part = recursively_apply(
        lambda tensor: tensor[rows], batch, error_on_other_type=True
    )
    return part, float(enough)


def _precision(device: torch.device) -> str:
    if device.type != "cuda":
        return "no"
    return "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "fp16"
