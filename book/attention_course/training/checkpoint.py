"""Checkpoints: the state to resume a training from, in files that are never partial."""

import glob
import io
import json
import os
import platform
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
    """Open a file that replaces ``path`` atomically at the end of the block.

    If the block fails, the old file stays and nothing else is left. A process that is
    killed meanwhile leaves the old file, and beside it one that ends in ``.partial``,
    which :func:`remove_partial` or the next write removes. Two processes that write the
    same file at once never mix their contents; the second to end may fail, because the
    first has removed its partial file.

    Raises:
        OSError: the file cannot be written, for example because the disk is full. The
            message names the file.
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
        # an error of writing to an open file does not name it
        error.filename = error.filename or str(path)
        raise
    finally:
        partial.unlink(missing_ok=True)
    remove_partial(path)


def remove_partial(path: Path | str) -> None:
    """Remove what killed processes left of a file, or of any file in a folder."""
    path = Path(path)
    folder, name = (
        (path, "*") if path.is_dir() else (path.parent, glob.escape(path.name))
    )
    for left in folder.glob(f"{name}.????????.partial"):
        with suppress(OSError):
            left.unlink()


def random_state(model: nn.Module) -> dict[str, Any]:
    """The states of all random generators, in types that ``torch.load`` trusts.

    Included are the generators that are attributes of the model's modules.
    """
    numpy_state: Any = np.random.get_state(legacy=True)  # noqa: NPY002
    name, key, *rest = numpy_state
    return {
        "python": random.getstate(),
        "numpy": (name, key.tolist(), *rest),
        "torch": torch.get_rng_state(),
        "modules": {
            name: generator.get_state() for name, generator in _generators(model)
        },
    } | _accelerator_states()


def _accelerator_states() -> dict[str, Any]:
    """The states of the generators of all GPUs or the like, by the kind of device.

    They are no ``list[Tensor]`` here: a checker of types takes random items of a list, by
    Python's generator.
    """
    device = torch.accelerator.current_accelerator(check_available=True)
    if device is None:
        return {}
    module = torch.get_device_module(device.type)
    devices = range(torch.accelerator.device_count())
    return {device.type: [module.get_rng_state(index) for index in devices]}


def set_random_state(model: nn.Module, state: dict[str, Any]) -> None:
    """Restore :func:`random_state`; those of accelerators only if there are as many."""
    random.setstate(state["python"])
    np.random.set_state(state["numpy"])  # noqa: NPY002
    torch.set_rng_state(state["torch"])
    for kind, own in _accelerator_states().items():
        if len(own) == len(saved := state.get(kind, [])):
            for index, one in enumerate(saved):
                torch.get_device_module(kind).set_rng_state(one, index)
    states = state["modules"]
    for name, generator in _generators(model):
        generator.set_state(states[name])


def _generators(model: nn.Module) -> Iterator[tuple[str, torch.Generator]]:
    """The random generators that modules of a model hold, with their names."""
    for name, module in model.named_modules():
        for attribute, value in vars(module).items():
            if isinstance(value, torch.Generator):
                yield f"{name}.{attribute}", value


def write(path: Path | str, content: dict[str, Any]) -> None:
    """Write what :func:`read` reads, by ``torch.save``, completely or not at all."""
    # torch.save to a file would hide errors of the disk
    whole = io.BytesIO()
    torch.save(content, whole)
    with replacing(path) as file:
        file.write(whole.getbuffer())


def read(path: Path | str) -> dict[str, Any]:
    """Read what ``torch.save`` wrote and check every byte; nothing in it is executed.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is incomplete, damaged or something else.
    """
    content = Path(path).read_bytes()
    try:
        # reads all checksums, which torch.load does not
        damaged = ZipFile(io.BytesIO(content)).testzip()
        saved = (
            None
            if damaged
            else torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
        )
    except Exception as error:  # zipfile, zlib and pickle raise many kinds
        raise ValueError(f"{path} is no checkpoint, or not whole: {error!r}") from error
    if damaged is not None:
        raise ValueError(
            f"{path} is damaged: the checksum of its part {damaged} differs"
        )
    if not isinstance(saved, dict):
        raise ValueError(f"{path} is no checkpoint: it holds a {type(saved).__name__}")
    return saved


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object, as results and studies are.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is damaged or something else.
    """
    try:
        content = json.loads(path.read_text("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is damaged: {error}") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path} is damaged: it holds a {type(content).__name__}")
    return content


def versions() -> str:
    """The versions of Python and PyTorch, for the message of :func:`require_same`."""
    return f"Python {platform.python_version()} and PyTorch {torch.__version__}"


def require_same(path: Path | str, own: dict[str, Any], saved: dict[str, Any]) -> None:
    """Refuse a checkpoint of another training; its versions may be others."""
    if own.keys() != saved.keys():
        raise ValueError(
            f"{path} is no checkpoint of a training: it holds {', '.join(map(str, saved))}"
        )
    compared = {
        "model": (_kinds(own["model"]), _kinds(saved["model"])),
        "training": (own["settings"], saved["settings"]),
    }
    here, there = own["versions"], saved["versions"]
    written = "" if here == there else f"; it was written by {there}, this is {here}"
    for what, both in compared.items():
        if difference := first_difference(*both):
            name, mine, its = difference
            raise ValueError(
                f"{path} is of another {what}: its {name} is {its}, here {mine}{written}"
            )


def first_difference(
    own: dict[str, Any], saved: dict[str, Any]
) -> tuple[str, Any, Any] | None:
    """The first name with different values, with one's own value and the saved one."""
    pairs = ((name, own.get(name), saved.get(name)) for name in {**own, **saved})
    return next(
        ((name, here, there) for name, here, there in pairs if here != there), None
    )


def _kinds(parameters: dict[str, Tensor]) -> dict[str, str]:
    return {
        name: f"{tuple(tensor.shape)} of {tensor.dtype}"
        for name, tensor in parameters.items()
    }
