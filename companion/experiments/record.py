"""What a run leaves in its folder, so that its figures can be read, compared and made again."""

import json
import math
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from companion.checkpoint import first_difference, replacing

PACKAGES = ("companion", "torch", "numpy", "accelerate", "spacy", "sacrebleu")


def write_json(path: Path, content: Any) -> None:
    """Write a JSON file, whole or not at all. Infinity, as perplexity may be, is written as ``null``.

    Raises:
        ValueError: a number is not a number.
    """
    with replacing(path) as file:
        file.write((json.dumps(_with_null(content), indent=2, allow_nan=False) + "\n").encode())


def _with_null(content: Any) -> Any:
    if isinstance(content, dict):
        return {name: _with_null(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [_with_null(value) for value in content]
    return None if isinstance(content, float) and math.isinf(content) else content


def require_same_arguments(folder: Path, arguments: dict[str, Any]) -> None:
    """Keep a run's arguments in its folder, so that none goes on from the checkpoint of another.

    Raises:
        ValueError: the folder holds a run with other arguments, or the file of arguments is damaged.
    """
    path = folder / "arguments.json"
    if not path.exists():
        write_json(path, arguments)
        return
    try:
        saved = json.loads(path.read_text())
    except ValueError as error:
        raise ValueError(f"{path} is damaged: {error}") from error
    if not isinstance(saved, dict):
        raise ValueError(f"{path} is damaged: it holds a {type(saved).__name__}")
    if difference := first_difference(arguments, saved):
        name, here, there = difference
        raise ValueError(
            f"{folder} holds a run with {name} = {there}, but now {name} = {here}: "
            "give the same arguments to go on with it, or another folder"
        )


def surroundings() -> dict[str, Any]:
    """Versions and hardware, which a run's figures depend on in their last digits."""
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    return {
        "versions": {"python": platform.python_version()} | {name: version(name) for name in PACKAGES},
        "hardware": {"machine": platform.machine(), "threads": torch.get_num_threads(), "gpu": gpu},
    }
