"""Training of any model, on any devices, with validation and exact resumption."""

import copy
import math
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from attention_course.training.checkpoint import (
    random_state,
    read,
    remove_partial,
    require_same,
    set_random_state,
    versions,
    write,
)
from attention_course.training.diagnosis import not_finite_gradient, not_finite_output
from attention_course.training.fingerprint import fingerprint
from attention_course.training.losses import Record, evaluating, to_device
from companion._checks import needs_extra
from companion.losses.tokens import Loss

with needs_extra("book"), warnings.catch_warnings():
    # accelerate imports bars that notebooks can show only with ipywidgets; ours are text
    warnings.filterwarnings("ignore", "IProgress not found")
    from accelerate import Accelerator, PartialState
    from accelerate.utils import find_batch_size, gather_object, recursively_apply
    from tqdm import tqdm


@runtime_checkable
class Steps(Protocol):
    """The batches of a training; ``batches[step]`` is always the same for a step."""

    def __getitem__(self, step: int) -> Any: ...


class Trainer:
    """Minimise a loss of a model step by step, on the devices that there are.

    A step descends the gradient of the mean loss of a batch, ``total / count``. On a
    GPU with bfloat16 the forward pass runs in it by autocast, on older GPUs in float16,
    and elsewhere in float32.

    If several processes run, as started by ``accelerate launch``, each batch is divided
    among them: every tensor in it has the examples on its first axis, and of n
    processes number i takes the rows i, i + n, i + 2n … The gradient is that of the
    mean over all rows. So, except for random numbers, training gives the same result
    with any number of processes, up to rounding. The loss must call the model, and all
    parameters must take part in its result. All processes call the methods; only the
    main one writes files and shows progress.

    Args:
        model: is moved to the device.
        optimizer: of the model's parameters.
        loss: from the model and a batch to a :class:`~attention_course.training.losses.Loss`.
        schedule: of the learning rate; its step is called after each training step.
        clip: the largest norm of the gradient; ``math.inf`` leaves it as it is.

    Attributes:
        step: the number of steps taken.
        history: the records of :meth:`fit`.
        settings: what a checkpoint must have in common with this training to be loaded:
            the classes and settings of its parts. More can be added before the first
            step.
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
        # averages the gradients of the processes
        self._parallel = model if alone else DistributedDataParallel(model)
        self.model, self.loss, self.schedule, self.clip = model, loss, schedule, clip
        self.optimizer = self.accelerator.prepare(optimizer)
        self.step, self._losses = 0, list[float]()  # the losses since the last record
        self.history: list[Record] = []
        self.settings = fingerprint(**self._parts(), loss=loss, clip=clip) | {
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
        """Train until ``steps`` steps have been taken in total.

        Every ``every`` steps, and at the end, a record is added to the history: the
        step, the mean training loss since the last record, and the figures of
        ``evaluate``.

        Args:
            batches: ``batches[step]`` is the batch of a step.
            evaluate: from the model, in evaluation mode, to figures such as the loss of
                a validation set; called in every process.
            every: the steps between two records.
            checkpoint: where the training is saved after each record.
            log: is called with each record, in the main process.

        Returns:
            A copy of the history.

        Raises:
            FloatingPointError: a loss or gradient is not finite. The message names the
                step and where the first such number arises. No parameter has changed.
        """
        self.model.train()
        main = self.accelerator.is_main_process
        if checkpoint is not None and main:
            remove_partial(checkpoint)
        with tqdm(
            total=steps,
            initial=self.step,
            unit="step",
            desc="training",
            disable=not (main and _is_watched()),
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
        rows = to_device(rows, self.accelerator.device)
        with self.accelerator.autocast():
            loss = self.loss(self._parallel, rows)
        sums = self.accelerator.reduce(
            weight * torch.stack([loss.total.detach(), loss.count.to(loss.total)]),
            "sum",
        )
        self.accelerator.backward(
            weight * self.accelerator.num_processes * loss.total / sums[1]
        )
        norm = self.accelerator.clip_grad_norm_(self.model.parameters(), self.clip)
        # one transfer, because a GPU is synchronised by each
        value, size = torch.stack([sums[0] / sums[1], norm]).tolist()
        self._require_finite(value, size, rows)
        self.optimizer.step()
        if self.schedule is not None and not self.optimizer.step_was_skipped:
            self.schedule.step()
        return value

    def _require_finite(self, loss: float, norm: float, rows: Any) -> None:
        """Refuse a loss or a gradient that is not finite, and say where it arises."""
        if not math.isfinite(loss):
            with self.accelerator.autocast():
                reason = not_finite_output(
                    self.model, lambda: self.loss(self.model, rows)
                )
            name, value = "loss", loss
        # a scaler skips the step by itself, and lowers the scale
        elif self.accelerator.scaler is None and not math.isfinite(norm):
            name, value, reason = (
                "gradient's norm",
                norm,
                not_finite_gradient(self.model),
            )
        else:
            return
        raise FloatingPointError(
            f"the {name} of step {self.step} is {value}; no parameter changed; {reason}"
        )

    def _record(self, evaluate: Callable[[nn.Module], Record] | None) -> None:
        record: Record = {
            "step": self.step,
            "loss": sum(self._losses) / len(self._losses),
        }
        if evaluate is not None:
            record |= self.evaluate(evaluate)
        self.history.append(record)
        self._losses.clear()

    def evaluate(self, evaluate: Callable[[nn.Module], Record]) -> Record:
        """The figures of the model as it is, in evaluation mode and by autocast as in training."""
        with evaluating(self.model), self.accelerator.autocast():
            return {
                name: float(figure) for name, figure in evaluate(self.model).items()
            }

    def save(self, path: Path | str) -> None:
        """Write everything that the training depends on into one file, atomically."""
        state = self._state()
        if self.accelerator.is_main_process:
            write(path, state)
        self.accelerator.wait_for_everyone()

    def load(self, path: Path | str) -> None:
        """Resume from a checkpoint; the numbers that follow are exactly the same.

        Random numbers must come from the global generators, or from attributes of the
        model's modules that are a ``torch.Generator``.

        Raises:
            FileNotFoundError: there is no such file.
            ValueError: it is damaged, or of another training, by its parameters or its
                :attr:`settings`. The message names the first difference, and nothing
                has changed.
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
        set_random_state(self.model, state["random"][self.accelerator.process_index])
        self.step, self.history, self._losses = (
            state["step"],
            state["history"],
            state["losses"],
        )

    def _parts(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "optimizer": self.optimizer,
            "schedule": self.schedule,
            "scaler": self.accelerator.scaler,
        }

    def _state(self) -> dict[str, Any]:
        parts = {
            name: part if part is None else part.state_dict()
            for name, part in self._parts().items()
        }
        return parts | {
            "step": self.step,
            "history": self.history,
            "losses": self._losses,
            "settings": self.settings,
            "versions": versions(),
            "random": gather_object([random_state(self.model)]),
        }


def shard_batch(batch: Any, process: int, processes: int) -> tuple[Any, float]:
    """The rows of a batch that one of several processes takes, and their weight, 1.

    A process without rows takes the first row with weight 0, because it must take part
    in the step.

    Args:
        batch: tensors ``(b, …)``, or tuples, lists or dictionaries of them.
        process: the index of the process, from 0.
        processes: how many processes there are.

    Raises:
        TypeError: there are several processes, and the batch contains something other
            than tensors in tuples, lists or dictionaries, which cannot be divided.
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


def _is_watched() -> bool:
    """Whether a person may see a progress bar: not where a program executes a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    # what a kernel was sent: only a person can answer input()
    request: dict[str, Any] = getattr(shell, "get_parent", dict)()
    return request.get("content", {}).get("allow_stdin", True)
