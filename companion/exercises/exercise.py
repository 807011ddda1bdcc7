"""An exercise, the mistakes it knows, and how a reader's answer is told from the right one, in words."""

import re
from collections.abc import Callable, Mapping
from itertools import permutations
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from torch import Tensor

#: A reader's function, or the right one.
Answer = Callable[..., Any]
#: What it is given, by name, which are tensors, and now and then a plain number.
Inputs = dict[str, Any]
#: The right function with a mistake planted in it, under the words that explain it.
Mistakes = Mapping[str, Answer]


class Exercise(NamedTuple):
    """What :func:`diagnose` needs: inputs by name, in order, the right function, and the mistakes to expect.

    A mistake is the right function with that mistake planted in it, under the words that explain it. The
    sizes of ``inputs`` all differ, so that no wrong axis fits by chance. Some mistakes then cannot even run,
    such as two matrices in each other's place: these, the ``confusions``, are told apart on ``alike``, where
    the sizes that they confuse are equal. ``hints`` are advice by a pattern in an exception's message.
    """

    inputs: Inputs
    solution: Answer
    mistakes: Mistakes
    alike: Inputs | None = None
    confusions: Mistakes = MappingProxyType({})
    hints: Mapping[str, str] = MappingProxyType({})


def normal(*size: int, seed: int) -> Tensor:
    """Normal numbers, always the same for one seed, with 64 bits."""
    return torch.randn(
        *size, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)
    )


def diagnose(exercise: Exercise, function: Answer) -> str:
    """What is wrong with ``function``, in words; nothing if it is right."""
    leaves = {name: _leaf(value) for name, value in exercise.inputs.items()}
    given = _copies(leaves)
    expected = exercise.solution(*_copies(leaves).values())
    try:
        result = function(*given.values())
    except (Exception, SystemExit) as error:  # whatever a reader's code may raise
        return _confused(exercise, function) or _raised(error, given, exercise.hints)
    changed = [name for name, value in given.items() if not _equal(value, leaves[name])]
    if changed:
        return f"It changes its input {' and '.join(changed)} in place: work on a copy of it."
    return (
        _no_plain_tensor(result)
        or _wrong(exercise, result.detach(), expected.detach())
        or _wrong_precision(result, expected)
        or _wrong_gradient(result, leaves)
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
    """Where values are equal, as exactly as the precision of the first allows; NaN equals NaN."""
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
    words = f"It stops with {type(error).__name__}: {error}\nIt was called, in this order, with {sizes}."
    advice = [hint for pattern, hint in hints.items() if re.search(pattern, str(error))]
    return "\n".join([words, *advice[:1]])


def _confused(exercise: Exercise, function: Answer) -> str:
    """The words of a mistake that only runs where the sizes it confuses are equal."""
    if exercise.alike is None:
        return ""
    try:
        result = function(*_copies(exercise.alike).values())
    except (
        Exception,
        SystemExit,
    ):  # then it is no confusion of sizes: the first exception is to be told
        return ""
    return (
        ""
        if _no_plain_tensor(result)
        else _planted(exercise.confusions, exercise.alike, result)
    )


def _no_plain_tensor(result: Any) -> str:
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
        _planted(exercise.mistakes, exercise.inputs, result)
        or _wrong_shape(result, expected)
        or _wrong_scale(result, expected)
        or _not_a_number(result, expected)
        or _elsewhere(result, expected)
    )


def _planted(mistakes: Mistakes, inputs: Inputs, result: Tensor) -> str:
    """The words of the mistake whose result this is, exactly or but for NaN, which may have been made 0."""
    results = {
        words: make(*_copies(inputs).values()) for words, make in mistakes.items()
    }
    exactly = [words for words, planted in results.items() if _equal(result, planted)]
    if exactly:
        return exactly[0]
    numbers, count = result.nan_to_num(), int(result.isnan().sum())
    nearly = [
        words
        for words, planted in results.items()
        if _equal(numbers, planted.nan_to_num())
    ]
    return (nearly[0] + f" There are also {count} NaN." * bool(count)) if nearly else ""


def _wrong_shape(result: Tensor, expected: Tensor) -> str:
    if result.shape == expected.shape:
        return ""
    words = (
        f"The shape is {tuple(result.shape)}, and should be {tuple(expected.shape)}."
    )
    if sorted(result.shape) != sorted(expected.shape):
        if result.squeeze().shape == expected.shape:
            return f"{words} There is an axis of size 1 too many: squeeze it."
        return words
    orders = [
        order
        for order in permutations(range(result.ndim))
        if result.permute(order).shape == expected.shape
    ]
    right = any(_equal(result.permute(order), expected) for order in orders)
    fits = "the values are right then" if right else "but the values would still differ"
    return f"{words} The axes are in another order: .permute{orders[0]} makes them fit, and {fits}."


def _wrong_scale(result: Tensor, expected: Tensor) -> str:
    """Right, up to one factor, which is not so near to 1 that it explains nothing."""
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
    words = (
        f"{count} of {result.numel()} values are NaN or infinite, the first at {first}."
    )
    if count == result.numel():
        return words
    return f"{words} The rest is {'right' if _close(result, expected)[finite].all() else 'not all right'}."


def _elsewhere(result: Tensor, expected: Tensor) -> str:
    wrong = ~_close(result, expected)
    where = tuple(wrong.nonzero()[0].tolist())
    return (
        f"The shape is right, but {int(wrong.sum())} of {result.numel()} values are not. "
        f"The first is at {where}: {result[where].item():.7g}, and should be {expected[where].item():.7g}."
    )


def _wrong_precision(result: Tensor, expected: Tensor) -> str:
    if result.dtype == expected.dtype:
        return ""
    return (
        f"The values are right, but their dtype is {result.dtype} where the inputs are {expected.dtype}: "
        "let the result take the dtype of the inputs."
    )


def _wrong_gradient(result: Tensor, leaves: Inputs) -> str:
    """Whether a model can also learn through values that are right."""
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
        return f"The values are right, but no gradient can be computed: {error}"
    for name, gradient in zip(wanted, gradients, strict=True):
        if gradient is None:
            return lost.format(name)
        if not gradient.isfinite().all():
            return f"The values are right, but the gradient with respect to {name} is not finite."
    return ""
