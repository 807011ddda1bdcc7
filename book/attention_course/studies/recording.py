"""Recorded studies: what many small trainings measured, in one JSON file a study.

A study is a module of this folder with three names: ``TITLE``, what it is about;
``settings()``, a list with the keyword arguments of every run; and ``measure(**setting)``,
which trains one model and returns what it measured. The command ::

    python -m attention_course.studies NAME NAME.json

makes the runs of a study and writes its file. :func:`recorded` reads the files that the
package has, one of each study.
"""

import json
import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import torch

from attention_course.training.checkpoint import read_json, replacing

FOLDER = Path(__file__).parent  #: of the studies that the package has
_Run = dict[str, dict[str, Any]]  # its "setting", and what was "measured"


def names() -> list[str]:
    """The names of the studies that the package can make.

    Example:
        >>> "copying" in names()
        True
    """
    modules = {path.stem for path in FOLDER.glob("[!_]*.py")}
    return sorted(modules - {"recording"})


def grid(**values: Any) -> list[dict[str, Any]]:
    """Every combination of some settings; the last name varies fastest.

    Args:
        values: for each name a list, tuple or range of values, or the one value.

    Example:
        >>> grid(model="soft", rate=[0.1, 0.2], seed=range(2))[1:3]
        [{'model': 'soft', 'rate': 0.1, 'seed': 1}, {'model': 'soft', 'rate': 0.2, 'seed': 0}]
    """
    choices = [
        list(x) if isinstance(x, list | tuple | range) else [x] for x in values.values()
    ]
    return [dict(zip(values, chosen, strict=True)) for chosen in product(*choices)]


def check_choice(name: str, value: object, choices: Iterable[object]) -> None:
    """Refuse a setting that is none of the choices, and list them (ValueError)."""
    possible = list(choices)
    if value not in possible:
        listed = ", ".join(map(repr, possible))
        raise ValueError(f"{name} must be one of {listed}, not {value!r}")


def recorded(name: str, **settings: Any) -> list[dict[str, Any]]:
    """The runs of a study: each has its settings, and what it measured.

    Args:
        name: of the study.
        settings: only runs with these values are returned.

    Raises:
        ValueError: no such study is recorded, or none of its runs has these settings.

    Example:
        >>> recorded("copying", pattern="dense", seed=2)[0]["steps"]
        150
    """
    files = sorted(path.stem for path in FOLDER.glob("*.json"))
    if name not in files:
        raise ValueError(f"no study {name} is recorded, only {', '.join(files)}")
    found = json.loads((FOLDER / f"{name}.json").read_text("utf-8"))["runs"]
    runs = [
        {**run["setting"], **run["measured"]}
        for run in found
        if settings.items() <= run["setting"].items()
    ]
    if not runs:
        raise ValueError(f"none of the {len(found)} runs of {name} has {settings}")
    return runs


def record(
    path: Path | str,
    title: str,
    settings: Sequence[Mapping[str, Any]],
    measure: Callable[..., Mapping[str, Any]],
) -> None:
    """Make the runs that a study's file lacks, and write the file after each of them.

    So a study can be interrupted, continued, extended and renamed. The file has one line a run, in
    the order of the settings, with numbers rounded to four digits after the point. A run
    whose setting the study no longer has is dropped.

    Args:
        path: the study's file.
        title: what the study is about.
        settings: of each run, by name.
        measure: is called with the setting of a run, by name, and returns what it
            measured, by name.

    Raises:
        ValueError: a setting occurs twice, something measured has the name of a setting,
            the file is damaged, other versions of Python or PyTorch began it, or all its
            runs are of another study.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     path = Path(folder) / "squares.json"
        ...     record(path, "Squares", [{"x": 3}], lambda x: {"square": x * x})
        ...     json.loads(path.read_text("utf-8"))["runs"]
        [{'setting': {'x': 3}, 'measured': {'square': 9}}]
    """
    path = Path(path)
    wanted = [dict(setting) for setting in settings]
    for number, setting in enumerate(wanted):
        if setting in wanted[:number]:
            raise ValueError(f"the setting {setting} occurs twice")
    about = {
        "title": title,
        "python": platform.python_version(),
        "torch": torch.__version__,
    }
    runs = _begun(path, about, wanted)
    _write(path, about, runs)
    for setting in wanted:
        if not any(run["setting"] == setting for run in runs):
            measured = _rounded(dict(measure(**setting)))
            if both := sorted(setting.keys() & measured.keys()):
                raise ValueError(f"set and measured at once: {', '.join(both)}")
            runs.append({"setting": setting, "measured": measured})
            _write(path, about, [r for s in wanted for r in runs if r["setting"] == s])


def _begun(
    path: Path, about: Mapping[str, str], wanted: Sequence[Mapping[str, Any]]
) -> list[_Run]:
    """The wanted runs of a file, which has to be of this study and of the same versions.

    Its title may be another.
    """
    if not path.exists():
        return []
    found = read_json(path)
    runs = found.get("runs")
    if not (isinstance(runs, list) and all(map(_is_run, runs))):
        raise ValueError(f"{path} is no study: it holds no runs")
    made, now = ({x: y.get(x) for x in ("python", "torch")} for y in (found, about))
    if made != now:
        raise ValueError(f"{path} is of {made}, not of {now}: name another file")
    kept = [run for run in runs if run["setting"] in wanted]
    if runs and not kept:
        raise ValueError(
            f"none of the {len(runs)} runs of {path} is of this study: name another file"
        )
    return kept


def _is_run(value: Any) -> bool:
    return isinstance(value, dict) and all(
        isinstance(value.get(part), dict) for part in ("setting", "measured")
    )


def _rounded(value: Any) -> Any:
    """The same with every float rounded, at any depth."""
    if isinstance(value, float):
        return round(value, 4)
    if isinstance(value, dict):
        return {name: _rounded(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(one) for one in value]
    return value


def _write(path: Path, about: Mapping[str, str], runs: Sequence[_Run]) -> None:
    """A study as JSON, with one line for each run."""
    head = "".join(f"  {json.dumps(x)}: {json.dumps(y)},\n" for x, y in about.items())
    rows = ",\n".join(f"    {json.dumps(run)}" for run in runs)
    with replacing(path) as file:
        file.write(f'{{\n{head}  "runs": [\n{rows}\n  ]\n}}\n'.encode())
