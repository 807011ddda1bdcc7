"""Recorded studies: what many small trainings of a chapter measured, one JSON file each.

A study is a list of settings and a function that trains and measures one of them.
:func:`record` writes its file, and :func:`recorded` reads the files that the package has.
"""

import json
import platform
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from companion.training.checkpoint import replacing

FOLDER = Path(__file__).parent  #: of the studies that the package has


def recorded(name: str) -> list[dict[str, Any]]:
    """The runs of a study: each has its settings, and what it measured.

    Args:
        name: that of the study's file, without ``.json``.

    Raises:
        ValueError: no such study is recorded.

    Example:
        >>> recorded("copying")[0]["pattern"]
        'dense'
    """
    names = sorted(path.stem for path in FOLDER.glob("*.json"))
    if name not in names:
        raise ValueError(f"no study {name} is recorded, only {', '.join(names)}")
    return json.loads((FOLDER / f"{name}.json").read_text("utf-8"))["runs"]


def record(
    path: Path | str,
    title: str,
    settings: Sequence[Mapping[str, Any]],
    measure: Callable[..., Mapping[str, Any]],
) -> None:
    """Make the runs that a study's file lacks, and write the file after each of them.

    So a study can be interrupted, continued and extended. The file has one line a run,
    in the order of the settings; a run whose settings the study no longer has is dropped.

    Args:
        path: the study's file.
        title: what the study is about.
        settings: of each run, by name.
        measure: is called with the settings of a run, by name, and returns what it
            measured, by name.

    Raises:
        ValueError: other versions of Python or PyTorch began the file.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     path = Path(folder) / "squares.json"
        ...     record(path, "Squares", [{"x": 3}], lambda x: {"square": x * x})
        ...     json.loads(path.read_text("utf-8"))["runs"]
        [{'x': 3, 'square': 9}]
    """
    path = Path(path)
    about = {
        "title": title,
        "python": platform.python_version(),
        "torch": torch.__version__,
    }
    found: dict[str, Any] = (
        json.loads(path.read_text("utf-8")) if path.exists() else {**about}
    )
    runs = found.pop("runs", [])
    if found != about:
        raise ValueError(f"{path} is of {found}, not of {about}: name another file")
    for setting in settings:
        if not any(setting.items() <= run.items() for run in runs):
            runs.append({**setting, **measure(**setting)})
            runs = [x for s in settings for x in runs if s.items() <= x.items()]
            with replacing(path) as file:
                file.write(_lines(about, runs).encode())


def _lines(about: Mapping[str, str], runs: Sequence[Mapping[str, Any]]) -> str:
    """A study as JSON, with one line for each run."""
    head = "".join(f"  {json.dumps(x)}: {json.dumps(y)},\n" for x, y in about.items())
    rows = ",\n".join(f"    {json.dumps(run)}" for run in runs)
    return f'{{\n{head}  "runs": [\n{rows}\n  ]\n}}\n'
