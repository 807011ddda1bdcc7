"""The types and settings of all parts of a training, to recognise it on resumption."""

from collections.abc import Mapping
from functools import partial
from types import FunctionType, MethodType
from typing import Any

import torch
from torch import Tensor, nn

_PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype)
_MOST_PARTS = 16


def fingerprint(
    model: nn.Module, optimizer: Any, schedule: Any, scaler: Any, loss: Any, clip: float
) -> dict[str, str]:
    """The kinds and settings of a training, from the name of each to a description.

    It must be taken before the first step, because some schedules change more than the
    learning rate. The learning rate itself is left out: the checkpoint contains it.

    Example:
        >>> model = nn.Sequential(nn.Linear(2, 3), nn.Dropout(0.1))
        >>> optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        >>> found = fingerprint(model, optimizer, None, None, loss=print, clip=1.0)
        >>> found["model.1"], found["model.1.p"], found["optimizer"], found["loss"]
        ('Dropout', '0.1', 'SGD', 'print')
    """
    kind = type(getattr(optimizer, "optimizer", optimizer))  # accelerate wraps it
    kinds = {"optimizer": kind, "schedule": type(schedule), "scaler": type(scaler)}
    return (
        _of_modules(model)
        | {"loss": describe(loss), "clip": describe(float(clip))}
        | {name: kind.__name__ for name, kind in kinds.items()}
        | _of_groups(model, optimizer)
        | _of_schedule(schedule)
    )


def describe(value: Any, depth: int = 3) -> str:
    """The kind of a value with its settings, down to a depth; the numbers of no tensor.

    Example:
        >>> from companion.attention.masks import local
        >>> describe(local(radius=3)), describe(torch.zeros(2, 3))
        ('local(radius=3)', '(2, 3) of torch.float32')
    """
    if isinstance(value, _PLAIN):
        return repr(value)
    if isinstance(value, Tensor):
        return f"{tuple(value.shape)} of {value.dtype}"
    kind = getattr(value, "__qualname__", type(value).__qualname__)
    parts = _parts(value)
    if len(parts) > _MOST_PARTS:
        return f"{kind} with {len(parts)} parts"
    if not parts or depth == 0:
        return kind
    described = (f"{name}={describe(part, depth - 1)}" for name, part in parts.items())
    return f"{kind}({', '.join(described)})"


def _parts(value: Any) -> dict[str, Any]:
    """The parts of a value: elements, arguments, closure variables or attributes."""
    match value:
        case Mapping():
            return {str(name): part for name, part in value.items()}
        case list() | tuple():
            return {str(number): part for number, part in enumerate(value)}
        case partial():
            return {"function": value.func, "arguments": value.args, **value.keywords}
        case MethodType():
            return {"self": value.__self__}
        case FunctionType():
            return _closure(value)
        case nn.Module():
            return _attributes(value) | dict(value.named_children())
        case type():
            return {}
    return _attributes(value)


def _attributes(value: Any) -> dict[str, Any]:
    """The public attributes of an object."""
    return {
        name: part
        for name, part in getattr(value, "__dict__", {}).items()
        if not name.startswith("_") and name != "training"
    }


def _closure(function: FunctionType) -> dict[str, Any]:
    """The plain variables of the scopes around a function."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    found = {}
    for name, cell in cells:
        try:
            content = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
        if isinstance(content, _PLAIN):
            found[name] = content
    return found


def _of_modules(model: nn.Module) -> dict[str, str]:
    """The class of each module, and its attributes except for weights and modules."""
    found = {}
    for name, module in model.named_modules(prefix="model"):
        found[name] = type(module).__qualname__
        for attribute, value in _attributes(module).items():
            found[f"{name}.{attribute}"] = describe(value)
    return found


def _of_groups(model: nn.Module, optimizer: Any) -> dict[str, str]:
    """The settings of each group of the optimiser, and the names of its parameters."""
    names = {parameter: name for name, parameter in model.named_parameters()}
    found = {}
    for number, group in enumerate(optimizer.param_groups):
        order = [names.get(parameter, "another") for parameter in group["params"]]
        for name, value in {**group, "parameters": order}.items():
            if name not in ("params", "lr"):
                found[f"group {number} {name}"] = str(value)
    return found


def _of_schedule(schedule: Any) -> dict[str, str]:
    """The numbers of a schedule. Those of a plain function cannot be read."""
    numbers = schedule.state_dict() if schedule is not None else {}
    return {
        f"schedule {name}": str(numbers[name]) for name in numbers if name[0] != "_"
    }
