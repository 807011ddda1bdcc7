"""Find the first numbers that are not finite, once a training step has failed."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor, nn

from attention_course.training.losses import evaluating


def not_finite_output(model: nn.Module, compute: Callable[[], Any]) -> str:
    """Name the first parameter, or else module output, that is not finite.

    Infinity and NaN are told apart, because infinity may also come from a mask. The
    model is in evaluation mode meanwhile, so that no buffer changes.

    Example:
        >>> model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
        >>> not_finite_output(model, lambda: model(torch.full((1, 2), torch.nan)))
        'the first output with NaN is that of 0 (Linear)'
    """
    for name, parameter in model.named_parameters():
        if not parameter.isfinite().all():
            return f"the parameter {name} is not finite"
    first: dict[str, str] = {}

    def watch(name: str) -> Callable[[nn.Module, Any, Any], None]:
        def hook(module: nn.Module, inputs: Any, output: Any) -> None:
            for kind in _not_finite(output):
                first.setdefault(kind, f"{name or 'model'} ({type(module).__name__})")

        return hook

    handles = [
        module.register_forward_hook(watch(name))
        for name, module in model.named_modules()
    ]
    try:
        # a loss may itself fail on NaN
        with evaluating(model), suppress(Exception):
            compute()
    finally:
        for handle in handles:
            handle.remove()
    if first:
        return "; ".join(
            f"the first output with {kind} is that of {where}"
            for kind, where in first.items()
        )
    return "in evaluation mode the outputs of all modules are finite"


def _not_finite(output: Any) -> set[str]:
    """Whether there is NaN or infinity among the tensors of an output."""
    if isinstance(output, Tensor):
        kinds = {"infinity": torch.isinf, "NaN": torch.isnan}
        return {kind for kind, test in kinds.items() if test(output).any()}
    if isinstance(output, tuple | list):
        return set().union(*map(_not_finite, output))
    return set()


def not_finite_gradient(model: nn.Module) -> str:
    """Which parameters have a gradient that is not finite: the first, and how many."""
    names = [
        name
        for name, parameter in model.named_parameters()
        if parameter.grad is not None and not parameter.grad.isfinite().all()
    ]
    if not names:
        return "each gradient is finite, but not their norm"
    more = f" and of {len(names) - 1} more parameters" if len(names) > 1 else ""
    return f"not finite is the gradient of {names[0]}{more}"
