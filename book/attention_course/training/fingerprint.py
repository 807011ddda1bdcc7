"""The classes and settings of all parts of a training, to recognise it on resumption."""

from collections.abc import Mapping, Set
from enum import Enum
from functools import partial
from numbers import Real
from typing import Any

import torch
from torch import Tensor, nn


def fingerprint(
    model: nn.Module, optimizer: Any, schedule: Any, scaler: Any, loss: Any, clip: float
) -> dict[str, str]:
    """The class and settings of each part of a training, by its name.

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
    found = {"loss": describe(loss), "clip": describe(clip)}
    found |= {"optimizer": kind.__name__, "scaler": type(scaler).__name__}
    for name, module in model.named_modules(prefix="model"):
        found |= _of_object(module, name)
    return found | _of_schedule(schedule) | _of_groups(model, optimizer)


def describe(value: Any, depth: int = 4) -> str:
    """The class of a value with its public attributes, or the name of a function.

    Equal numbers have one description, whatever their type, and a tensor has its shape.
    A function's code is not described, so that a checkpoint outlives an edit of it and
    another version of Python; a setting that a training depends on is an attribute.

    Example:
        >>> from companion.attention.masks import local
        >>> describe(local(radius=3)), describe(torch.zeros(2, 3))
        ('local(radius=3)', '(2, 3) of torch.float32')
    """
    match value:
        case bool() | str() | None:
            return repr(value)
        case Real():
            return repr(float(value)).removesuffix(".0")
        case Tensor():
            return f"{tuple(value.shape)} of {value.dtype}"
        case Enum() | torch.dtype():
            return str(value)
    if not depth:
        return type(value).__qualname__
    match value:
        case Mapping():
            pairs = (f"{k}: {describe(v, depth - 1)}" for k, v in value.items())
            return f"{{{', '.join(pairs)}}}"
        case list() | tuple() | Set():
            parts = [describe(part, depth - 1) for part in value]
            return f"({', '.join(sorted(parts) if isinstance(value, Set) else parts)})"
        case partial():
            called = value.func, value.args, value.keywords
            return f"partial{describe(called, depth)}"
    if hasattr(value, "__qualname__"):  # a function or a class
        return str(value.__qualname__)
    settings = _attributes(value).items()
    parts = [f"{name}={describe(part, depth - 1)}" for name, part in settings]
    kind = type(value).__qualname__
    return f"{kind}({', '.join(parts)})" if parts else kind


def _attributes(value: Any) -> dict[str, Any]:
    """The public attributes of an object, without a module's parameters and modules."""
    return {
        name: part
        for name, part in getattr(value, "__dict__", {}).items()
        if not name.startswith("_") and name != "training"
    }


def _of_object(value: Any, name: str) -> dict[str, str]:
    """The class of an object, and each of its attributes."""
    attributes = _attributes(value).items()
    described = {
        f"{name}.{attribute}": describe(part) for attribute, part in attributes
    }
    return {name: type(value).__qualname__} | described


def _of_schedule(schedule: Any, name: str = "schedule") -> dict[str, str]:
    """The class and settings of a schedule, and of those that it consists of."""
    found = _of_object(schedule, name)
    found.pop(f"{name}.optimizer", None)
    if hasattr(schedule, "_milestones"):  # SequentialLR's
        found[f"{name}.milestones"] = describe(schedule._milestones)
    for number, inner in enumerate(getattr(schedule, "_schedulers", ())):
        found |= _of_schedule(inner, f"{name}.{number}")
    return found


def _of_groups(model: nn.Module, optimizer: Any) -> dict[str, str]:
    """The settings of each group of the optimiser, and the names of its parameters."""
    names = {parameter: name for name, parameter in model.named_parameters()}
    found = {}
    for number, group in enumerate(optimizer.param_groups):
        for index, parameter in enumerate(group["params"]):
            found[f"group {number} parameter {index}"] = names.get(parameter, "another")
        settings = {name: part for name, part in group.items() if name != "params"}
        for name, value in settings.items():
            found[f"group {number} {name}"] = describe(value)
    return found
