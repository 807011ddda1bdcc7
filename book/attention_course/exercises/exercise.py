"""An exercise with its known mistakes, and feedback on a reader's answer."""

import re
from collections.abc import Callable, Mapping
from itertools import permutations
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from torch import Tensor

#: A reader's function, or the solution.
Answer = Callable[..., Any]
#: Its arguments by name, tensors and sometimes numbers.
Inputs = dict[str, Any]
#: Solutions with one mistake each, by the text that explains it.
Mistakes = Mapping[str, Answer]


class Exercise(NamedTuple):
    """The inputs, the solution and the expected mistakes of an exercise.

    The sizes of ``inputs`` are different primes, so that no wrong axis fits by chance.
    Some mistakes, such as two swapped matrices, then raise an exception: these, the
    ``confusions``, are recognised on ``alike``, where the confused sizes are equal.

    Args:
        inputs: the arguments by name, in order.
        solution: the right function.
        mistakes: the solution with one mistake each, by the text that explains it.
        alike: inputs for the confusions.
        confusions: mistakes that run on ``alike`` only.
        hints: advice by a pattern in the message of an exception.
    """

    inputs: Inputs
    solution: Answer
    mistakes: Mistakes
    alike: Inputs | None = None
    confusions: Mistakes = MappingProxyType({})
    hints: Mapping[str, str] = MappingProxyType({})


def normal(*size: int, seed: int) -> Tensor:
    """Normally distributed numbers of 64 bits, the same for each seed."""
    return torch.randn(
        *size, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)
    )


def diagnose(exercise: Exercise, function: Answer) -> str:
    """What is wrong with ``function``; an empty text if it is right."""
    leaves = {name: _leaf(value) for name, value in exercise.inputs.items()}
    given = _copies(leaves)
    expected = exercise.solution(*_copies(leaves).values())
    try:
        result = function(*given.values())
    except (Exception, SystemExit) as error:  # a reader's code may raise anything
        return _confused(exercise, function) or _raised(error, given, exercise.hints)
    changed = [name for name, value in given.items() if not _equal(value, leaves[name])]
    if changed:
        return f"It changes its input {' and '.join(changed)} in place: work on a copy of it."
    return (
        _not_dense(result)
        or _wrong(exercise, result.detach(), expected.detach())
        or _wrong_precision(result, expected)
        or _wrong_gradient(result, leaves, exercise.hints)
    )


def _leaf(value: Any) -> Any:
    if not isinstance(value, Tensor):
        return value
    return value.detach().clone().requires_grad_(value.is_floating_point())


def _copies(inputs: Inputs) -> Inputs:
    return {
        name: x.clone() if isinstance(x, Tensor) else x for name, x in inputs.items()
    }


def _equal(one: Any, other: Any) -> bool:
    if not isinstance(one, Tensor):
        return bool(one == other)
    return one.shape == other.shape and bool(_close(one, other).all())


def _close(one: Tensor, other: Tensor) -> Tensor:
    """Where values are equal, up to the precision of the first; NaN equals NaN."""
    tolerance = (
        1e-3 if one.dtype in (torch.float32, torch.float16, torch.bfloat16) else 1e-6
    )
    one, other = one.detach().double(), other.detach().double()
    return torch.isclose(one, other, tolerance, tolerance / 100, equal_nan=True)


def _raised(
    error: Exception | SystemExit, given: Inputs, hints: Mapping[str, str]
) -> str:
    shapes = {
        name: tuple(x.shape) if isinstance(x, Tensor) else x
        for name, x in given.items()
    }
    sizes = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
    message = f"It stops with {type(error).__name__}: {error}\nIt was called, in this order, with {sizes}."
    return message + _advice(error, hints)


def _advice(error: BaseException, hints: Mapping[str, str]) -> str:
    """The first hint whose pattern is in the message of an exception, on a new line."""
    found = (hint for pattern, hint in hints.items() if re.search(pattern, str(error)))
    return "".join(f"\n{hint}" for hint in list(found)[:1])


def _confused(exercise: Exercise, function: Answer) -> str:
    """The text of a mistake that runs only where the confused sizes are equal."""
    if exercise.alike is None:
        return ""
    try:
        result = function(*_copies(exercise.alike).values())
    except (Exception, SystemExit):  # no confusion of sizes: report the first exception
        return ""
    return (
        ""
        if _not_dense(result)
        else _known_mistake(exercise.confusions, exercise.alike, result)
    )


def _not_dense(result: Any) -> str:
    if result is None:
        return "It returns nothing (None): is the last line a `return`?"
    if not isinstance(result, Tensor):
        return f"It returns a {type(result).__name__}, not a tensor."
    if (
        result.layout == torch.strided
        and result.device.type == "cpu"
        and not result.is_complex()
    ):
        return ""
    return (
        f"It returns a tensor of {result.dtype} and layout {result.layout} on device {result.device}, "
        "not a dense one of real numbers on the CPU."
    )


def _wrong(exercise: Exercise, result: Tensor, expected: Tensor) -> str:
    if _equal(result, expected):
        return ""
    return (
        _known_mistake(exercise.mistakes, exercise.inputs, result)
        or _wrong_shape(result, expected)
        or _wrong_scale(result, expected)
        or _not_a_number(result, expected)
        or _elsewhere(result, expected)
    )


def _known_mistake(mistakes: Mistakes, inputs: Inputs, result: Tensor) -> str:
    """The text of the mistake with this result, exactly or up to NaN replaced by 0."""
    results = {
        text: mistake(*_copies(inputs).values()) for text, mistake in mistakes.items()
    }
    exactly = [text for text, known in results.items() if _equal(result, known)]
    if exactly:
        return exactly[0]
    numbers, count = result.nan_to_num(), int(result.isnan().sum())
    nearly = [
        text for text, known in results.items() if _equal(numbers, known.nan_to_num())
    ]
    return (nearly[0] + f" There are also {count} NaN." * bool(count)) if nearly else ""


def _wrong_shape(result: Tensor, expected: Tensor) -> str:
    if result.shape == expected.shape:
        return ""
    message = (
        f"The shape is {tuple(result.shape)}, but should be {tuple(expected.shape)}."
    )
    if sorted(result.shape) != sorted(expected.shape):
        if result.squeeze().shape == expected.shape:
            return f"{message} There is an extra axis of size 1: squeeze it."
        return message
    orders = [
        order
        for order in permutations(range(result.ndim))
        if result.permute(order).shape == expected.shape
    ]
    right = any(_equal(result.permute(order), expected) for order in orders)
    then = "the values are right" if right else "some values are still wrong"
    return f"{message} The axes are in a different order: after .permute{orders[0]} {then}."


def _wrong_scale(result: Tensor, expected: Tensor) -> str:
    """Right up to a constant factor that is not too close to 1 to explain anything."""
    result, expected = result.double(), expected.double()
    factor = (result * expected).sum() / expected.square().sum()
    if not factor.isfinite() or factor.abs() < 1e-9 or (factor - 1).abs() < 1e-3:
        return ""
    if not _equal(result, factor * expected):
        return ""
    return f"It is right up to a constant factor: every value is {factor.item():.4g} times what it should be."


def _not_a_number(result: Tensor, expected: Tensor) -> str:
    finite = result.isfinite() | (result.isinf() & expected.isinf().any())
    count = int((~finite).sum())
    if not count:
        return ""
    first = tuple((~finite).nonzero()[0].tolist())
    message = (
        f"{count} of {result.numel()} values are NaN or infinite, the first at {first}."
    )
    if count == result.numel():
        return message
    others = "right" if _close(result, expected)[finite].all() else "not all right"
    return f"{message} The others are {others}."


def _elsewhere(result: Tensor, expected: Tensor) -> str:
    wrong = ~_close(result, expected)
    where = tuple(wrong.nonzero()[0].tolist())
    return (
        f"The shape is right, but {int(wrong.sum())} of {result.numel()} values are wrong. "
        f"The first is at {where}: {result[where].item():.7g}, but should be {expected[where].item():.7g}."
    )


def _wrong_precision(result: Tensor, expected: Tensor) -> str:
    if result.dtype == expected.dtype:
        return ""
    return (
        f"The values are right, but their dtype is {result.dtype} where the inputs are {expected.dtype}: "
        "let the result take the dtype of the inputs."
    )


def _wrong_gradient(result: Tensor, leaves: Inputs, hints: Mapping[str, str]) -> str:
    """Whether the gradient flows through right values."""
    wanted = {
        name: leaf
        for name, leaf in leaves.items()
        if getattr(leaf, "requires_grad", False)
    }
    if not wanted:
        return ""
    lost = "The values are right, but no gradient reaches {}: is there a detach() or torch.tensor(…)?"
    if not result.requires_grad:
        return lost.format(" or ".join(wanted))
    try:
        total = result[result.isfinite()].square().sum()
        gradients = torch.autograd.grad(total, list(wanted.values()), allow_unused=True)
    except RuntimeError as error:
        message = f"The values are right, but no gradient can be computed: {error}"
        return message + _advice(error, hints)
    for name, gradient in zip(wanted, gradients, strict=True):
        if gradient is None:
            return lost.format(name)
        if not gradient.isfinite().all():
            return f"The values are right, but the gradient with respect to {name} is not finite."
    return ""
