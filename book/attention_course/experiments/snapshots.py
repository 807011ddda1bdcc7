"""The weights after each evaluation: the best ones are tested, or the mean of the last."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from attention_course.training.checkpoint import replacing
from attention_course.training.losses import Record
from attention_course.training.trainer import Trainer
from companion._checks import needs_extra

with needs_extra("experiments"):
    import safetensors.torch

_LOSS = "held_out_loss"  # of the validation set, in each record


class Snapshots:
    """Keep the weights of a training's records, and choose among them by validation.

    The candidates are the weights of each record and, if ``average`` is above 1, the mean
    of the last ``average`` of them. Files that can no longer be chosen are removed.

    Args:
        trainer: whose history has the loss of the validation set.
        folder: where the weights are written, one file a record.
        average: how many of the last records the mean is taken over.

    Source: Vaswani et al. 2017, section 6.1, where the mean of the last 5 checkpoints is
    tested.
    Deviation: here the validation set decides between the mean and the best record.
    """

    def __init__(self, trainer: Trainer, folder: Path, average: int = 1):
        self.trainer, self.folder, self.average = trainer, folder, average

    def keep(self) -> None:
        """Write the weights of the newest record."""
        with replacing(self._path(self._last()[-1])) as file:
            file.write(pack(self.trainer.model))
        needed = {self._path(step) for step in (self._best(), *self._last())}
        for path in set(self.folder.glob("*.safetensors")) - needed:
            path.unlink()

    def select(self, evaluate: Callable[[nn.Module], Record]) -> dict[str, Any]:
        """Give the model the weights with the lowest validation loss.

        Returns:
            The ``steps`` whose weights they are, or are the mean of, and their figures.

        Raises:
            FileNotFoundError: the weights of a record are missing.
            ValueError: the weights of a record are damaged.
        """
        self.trainer.accelerator.wait_for_everyone()
        best = self._best()
        figures = next(x for x in self.trainer.history if x["step"] == best)
        chosen: dict[str, Any] = {
            name: figures[name] for name in figures if name not in ("step", "loss")
        }
        if self.average > 1:
            self._load(self._last())
            averaged = self.trainer.evaluate(evaluate)
            if averaged[_LOSS] < chosen[_LOSS]:
                return {"steps": self._last(), **averaged}
        self._load([best])
        return {"steps": [best], **chosen}

    def _load(self, steps: Sequence[int]) -> None:
        weights = [self._read(self._path(step)) for step in steps]
        self.trainer.model.load_state_dict(mean(weights))

    def _read(self, path: Path) -> dict[str, Tensor]:
        content = path.read_bytes()
        try:
            return safetensors.torch.load(content)
        except Exception as error:  # of a class that safetensors does not export
            raise ValueError(f"{path} is damaged: {error}") from error

    def _best(self) -> int:
        return int(min(self.trainer.history, key=lambda record: record[_LOSS])["step"])

    def _last(self) -> list[int]:
        return [int(record["step"]) for record in self.trainer.history[-self.average :]]

    def _path(self, step: int) -> Path:
        return self.folder / f"{step}.safetensors"


def pack(model: nn.Module) -> bytes:
    """The weights of a model in the format of safetensors, shared ones once a name."""
    weights = model.state_dict()
    return safetensors.torch.save(
        {name: tensor.clone() for name, tensor in weights.items()}
    )


def mean(weights: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of each tensor; of one that holds no floating-point numbers, the last."""
    return {
        name: torch.stack([other[name] for other in weights]).mean(0)
        if tensor.is_floating_point()
        else tensor
        for name, tensor in weights[-1].items()
    }
