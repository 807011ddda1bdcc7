"""Files that are there whole or not at all, and what it takes to go on exactly where a run stopped."""

import glob
import io
import os
import random
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any
from zipfile import ZipFile

import numpy as np
import torch
from torch import Tensor, nn


@contextmanager
def replacing(path: Path | str) -> Iterator[IO[bytes]]:
    """A file to write into, which takes the place of ``path`` at the end of the block, in one instant.

    Whoever is killed in between leaves the old file as it was, and beside it one that ends in ``.partial``,
    which the next to write clears away. If the block fails, nothing is left behind. When two write the same
    file at once, theirs are never mixed: the second to end may find its own cleared away, and then fails.

    Raises:
        OSError: the file cannot be written, for instance because the disk is full; the message names it.
    """
    path = Path(path)
    partial = path.with_name(f"{path.name}.{secrets.token_hex(4)}.partial")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with partial.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        error.filename = error.filename or str(
            path
        )  # writing to a file that is open does not name it
        raise
    finally:
        partial.unlink(missing_ok=True)
    for left in path.parent.glob(f"{glob.escape(path.name)}.????????.partial"):
        with suppress(OSError):
            left.unlink()


def random_state() -> dict[str, Any]:
    """The states of all random generators, in plain types that ``torch.load(weights_only=True)`` reads."""
    numpy_state: Any = np.random.get_state(legacy=True)  # noqa: NPY002 - what others may draw from
    name, key, *rest = numpy_state
    return {
        "python": random.getstate(),
        "numpy": (name, key.tolist(), *rest),
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }


def set_random_state(state: dict[str, Any]) -> None:
    """Put all random generators back to :func:`random_state`; those of GPUs only where there are as many."""
    random.setstate(state["python"])
    np.random.set_state(state["numpy"])  # noqa: NPY002
    torch.set_rng_state(state["torch"])
    if torch.cuda.device_count() == len(state["cuda"]):
        torch.cuda.set_rng_state_all(state["cuda"])


def write(path: Path | str, content: dict[str, Any]) -> None:
    """What :func:`read` reads, by ``torch.save``, whole or not at all."""
    whole = (
        io.BytesIO()
    )  # torch would turn an error of the disk into one that names neither
    torch.save(content, whole)
    with replacing(path) as file:
        file.write(whole.getbuffer())


def read(path: Path | str) -> dict[str, Any]:
    """What ``torch.save`` wrote, every byte of it checked; nothing that the file holds is executed.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is not whole, is damaged, or is something else.
    """
    content = Path(path).read_bytes()
    try:
        damaged = ZipFile(
            io.BytesIO(content)
        ).testzip()  # reads all checksums, which torch.load does not
        saved = (
            None
            if damaged
            else torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
        )
    except (
        Exception
    ) as error:  # there is no end to the kinds that zipfile, zlib and pickle raise
        raise ValueError(f"{path} is no checkpoint, or not whole: {error!r}") from error
    if damaged is not None:
        raise ValueError(
            f"{path} is damaged: the checksum of its part {damaged} differs"
        )
    if not isinstance(saved, dict):
        raise ValueError(f"{path} is no checkpoint: it holds a {type(saved).__name__}")
    return saved


def settings(
    model: nn.Module, optimizer: Any, schedule: Any, scaler: Any
) -> dict[str, str]:
    """What sets a training apart, beside its model: the kinds of its other parts, and the settings of these.

    To be taken before the first step, for some schedules change more than the learning rate, which alone is
    left out. A plain function of a schedule cannot be read; an object with numbers can.
    """
    names = {parameter: name for name, parameter in model.named_parameters()}
    kind = type(getattr(optimizer, "optimizer", optimizer))  # accelerate wraps it
    kinds = {"optimizer": kind, "schedule": type(schedule), "scaler": type(scaler)}
    described = {name: kind.__name__ for name, kind in kinds.items()}
    for number, group in enumerate(optimizer.param_groups):
        order = [names.get(parameter, "another") for parameter in group["params"]]
        for name, value in {**group, "parameters": order}.items():
            if name not in ("params", "lr"):
                described[f"group {number} {name}"] = str(value)
    numbers = schedule.state_dict() if schedule is not None else {}
    return described | {
        f"schedule {name}": str(numbers[name]) for name in numbers if name[0] != "_"
    }


def require_same(path: Path | str, own: dict[str, Any], saved: dict[str, Any]) -> None:
    """Refuse a checkpoint that was not saved from a training like one's own.

    Raises:
        ValueError: it differs in a parameter's name, shape or type, or in one of the :func:`settings`. The
            first is named.
    """
    if own.keys() != saved.keys():
        raise ValueError(
            f"{path} is no checkpoint of a training: it holds {', '.join(map(str, saved))}"
        )
    _require_equal(
        f"{path} is of another model", _kinds(own["model"]), _kinds(saved["model"])
    )
    _require_equal(f"{path} is of another training", own["settings"], saved["settings"])


def first_difference(
    own: dict[str, Any], saved: dict[str, Any]
) -> tuple[str, Any, Any] | None:
    """The first name with different values: the name, one's own value, and the saved one; else ``None``."""
    pairs = ((name, own.get(name), saved.get(name)) for name in {**own, **saved})
    return next(
        ((name, here, there) for name, here, there in pairs if here != there), None
    )


def _require_equal(problem: str, own: dict[str, str], saved: dict[str, str]) -> None:
    if difference := first_difference(own, saved):
        name, here, there = difference
        raise ValueError(f"{problem}: its {name} is {there}, here {here}")


def _kinds(parameters: dict[str, Tensor]) -> dict[str, str]:
    return {
        name: f"{tuple(tensor.shape)} of {tensor.dtype}"
        for name, tensor in parameters.items()
    }
