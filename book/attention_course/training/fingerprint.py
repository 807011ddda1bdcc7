"""The types and settings of all parts of a training, to recognise it on resumption."""

import math
from collections.abc import Mapping, Set
from contextlib import suppress
from enum import Enum
from functools import partial
from hashlib import sha256
from inspect import unwrap
from numbers import Real
from types import CodeType, FunctionType, MethodType
from typing import Any

import torch
from torch import Tensor, nn

_PLAIN = (bool, complex, str, bytes, type(None), torch.dtype)
_MOST_PARTS = 16


def fingerprint(
    model: nn.Module, optimizer: Any, schedule: Any, scaler: Any, loss: Any, clip: float
) -> dict[str, str]:
    """The kinds and settings of a training, from the name of each to a description.

    It must be taken before the first step, because a schedule changes the learning
    rate, and some schedules more than that.

    Example:
        >>> model = nn.Sequential(nn.Linear(2, 3), nn.Dropout(0.1))
        >>> optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        >>> found = fingerprint(model, optimizer, None, None, loss=print, clip=1.0)
        >>> found["model.1"], found["model.1.p"], found["optimizer"], found["loss"]
        ('Dropout', '0.1', 'SGD', 'print')
    """
    kind = type(getattr(optimizer, "optimizer", optimizer))  # accelerate wraps it
    return (
        _of_modules(model)
        | {"loss": describe(loss), "clip": describe(clip)}
        | {"optimizer": kind.__name__, "scaler": type(scaler).__name__}
        | _of_schedule(schedule)
        | _of_groups(model, optimizer)
    )


def describe(value: Any, depth: int = 4) -> str:
    """The kind of a value with its settings, down to a depth; the numbers of no tensor.

    Equal numbers have one description, whatever their type. A function is described by
    a hash of its compiled code, its defaults and the variables of the scopes around it,
    but not by what it reads from global variables or by decorators that use
    ``functools.wraps``. Many parts are described by a hash.

    Example:
        >>> from companion.attention.masks import local
        >>> describe(local(radius=3)), describe(torch.zeros(2, 3))
        ('local(radius=3)', '(2, 3) of torch.float32')
    """
    match value:
        case Enum():
            return f"{type(value).__qualname__}.{value.name}"
        case CodeType():
            used = describe(value.co_names), describe(value.co_consts)
            return _digest([value.co_code.hex(), *used])
        case Tensor():
            return f"{tuple(value.shape)} of {value.dtype}"
        case Real() if not isinstance(value, bool):
            return repr(math.floor(value) if value == value // 1 else float(value))
    if isinstance(value, _PLAIN):
        return repr(value)
    kind = getattr(value, "__qualname__", type(value).__qualname__)
    parts = _parts(value) if depth else {}
    if not parts:
        return kind
    described = [f"{name}={describe(part, depth - 1)}" for name, part in parts.items()]
    if len(parts) > _MOST_PARTS:
        return f"{kind} with {len(parts)} parts, hash {_digest(described)}"
    return f"{kind}({', '.join(described)})"


def _digest(descriptions: list[str]) -> str:
    return sha256("\n".join(descriptions).encode()).hexdigest()[:12]


def _parts(value: Any) -> dict[str, Any]:
    """The parts of a value: elements, arguments, closure variables or attributes."""
    match value:
        case Mapping():
            return {str(name): part for name, part in value.items()}
        case list() | tuple():
            return {str(number): part for number, part in enumerate(value)}
        case Set():
            return _parts(sorted(value, key=describe))
        case partial():
            return {"function": value.func, "arguments": value.args, **value.keywords}
        case MethodType():
            return {"function": value.__func__, "self": value.__self__}
        case FunctionType():
            value = unwrap(value)  # a type checker wraps functions, by objects' ids
            defaults = {
                "defaults": value.__defaults__,
                "keywords": value.__kwdefaults__,
            }
            used = {name: part for name, part in defaults.items() if part}
            return {"code": value.__code__} | used | _closure(value)
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
    """The variables of the scopes around a function, if assigned already."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    found = {}
    for name, cell in cells:
        with suppress(ValueError):
            found[name] = cell.cell_contents
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
        for name, value in {**group, "params": order}.items():
            found[f"group {number} {name}"] = describe(value)
    return found


def _of_schedule(schedule: Any, name: str = "schedule") -> dict[str, str]:
    """The kind and settings of a schedule, and of those that it consists of."""
    found = {name: type(schedule).__name__}
    settings = _attributes(schedule) | {
        "milestones": getattr(schedule, "_milestones", ())  # of SequentialLR
    }
    for setting, value in settings.items():
        if setting != "optimizer":
            found[f"{name} {setting}"] = describe(value)
    for number, inner in enumerate(getattr(schedule, "_schedulers", ())):
        found |= _of_schedule(inner, f"{name} {number}")
    return found
