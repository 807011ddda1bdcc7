"""The measurements of a training as curves in TensorBoard."""

from pathlib import Path

from attention_course.training.losses import Record
from companion._checks import needs_extra

with needs_extra("experiments"):
    from torch.utils.tensorboard import SummaryWriter


class TensorBoard:
    """Write a curve for each figure, for ``tensorboard --logdir FOLDER``.

    The first record replaces what an interrupted run has left of its step and of later
    steps, so each curve has one point a step. A record is on disk when the call
    returns.
    """

    def __init__(self, folder: Path | str):
        self._folder = folder
        self._writer: SummaryWriter | None = None

    def __call__(self, record: Record) -> None:
        """Add a point to each curve."""
        step = int(record["step"])
        if self._writer is None:
            self._writer = SummaryWriter(str(self._folder), purge_step=step)
        for name, figure in record.items():
            if name != "step":
                self._writer.add_scalar(name, figure, step)
        self._writer.flush()

    def close(self) -> None:
        """Close the file, if one was opened."""
        if self._writer is not None:
            self._writer.close()
