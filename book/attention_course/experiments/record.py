"""The files of a run: its arguments and its result."""

import json
import math
import platform
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from attention_course.training.checkpoint import first_difference, read_json, replacing

VERSION = 3  #: of the format of a result
#: The names in a result, and the types of their values.
RESULT: dict[str, type] = {
    "experiment": str,
    "model": str,
    "test": dict,
    "history": list,
    "selected": dict,
    "seconds": dict,
    "sentences": list,
    "parameters": int,
    "vocabularies": dict,
    "arguments": dict,
    "command": str,
    "data": dict,
    "versions": dict,
    "hardware": dict,
}
_PACKAGES = (
    "attention-companion",
    "torch",
    "numpy",
    "accelerate",
    "spacy",
    "sacrebleu",
)


def write_json(path: Path, content: Any) -> None:
    """Write a JSON file atomically; infinity, as a perplexity may be, becomes ``null``."""
    with replacing(path) as file:
        file.write(
            (json.dumps(_with_null(content), indent=2, allow_nan=False) + "\n").encode()
        )


def _with_null(content: Any) -> Any:
    if isinstance(content, dict):
        return {name: _with_null(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [_with_null(value) for value in content]
    return None if isinstance(content, float) and math.isinf(content) else content


def read_result(path: Path | str) -> dict[str, Any]:
    """Read a ``result.json``: what :data:`RESULT` names, and the version.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is of another version, damaged, or something else.
    """
    result = read_json(Path(path))
    if (version := result.get("version")) != VERSION:
        raise ValueError(
            f"{path} is a result of version {version}, but version {VERSION} is read here"
        )
    if wrong := [
        name for name, kind in RESULT.items() if not isinstance(result.get(name), kind)
    ]:
        raise ValueError(
            f"{path} is no result of an experiment: see its {', '.join(wrong)}"
        )
    return result


def require_same_arguments(folder: Path, arguments: dict[str, Any]) -> None:
    """Refuse to resume the run of a folder with other arguments.

    Raises:
        ValueError: the folder holds a run with other arguments, or the file of
            arguments is damaged.
    """
    path = folder / "arguments.json"
    if not path.exists():
        return
    if difference := first_difference(arguments, read_json(path)):
        name, here, there = difference
        raise ValueError(
            f"{folder} holds a run with {name} = {there}, but now {name} = {here}: "
            "give the same arguments to resume it, or another folder"
        )


def surroundings(processes: int) -> dict[str, Any]:
    """Versions and hardware, on which the last digits of the figures depend."""
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    return {
        "versions": {"python": platform.python_version()} | _versions(),
        "hardware": {
            "machine": platform.machine(),
            "threads": torch.get_num_threads(),
            "gpu": gpu,
            "processes": processes,
        },
    }


def _versions() -> dict[str, str]:
    """The versions of the packages that are installed."""
    found = {}
    for name in _PACKAGES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found
