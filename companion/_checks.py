"""Checks of arguments, kept out of the classes that call them: each error names the argument and its numbers."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn


def check_states(name: str, states: Tensor, mask: Tensor) -> None:
    if mask.dtype != torch.bool:
        raise TypeError(
            f"the mask of the {name} must be boolean (True = a state to keep), not {mask.dtype}"
        )
    if mask.shape != states.shape[:-1]:
        raise ValueError(
            f"the {name} of shape {tuple(states.shape)} needs a mask of {tuple(states.shape[:-1])}, "
            f"not {tuple(mask.shape)}"
        )
    if mask.shape[-1] == 0:
        raise ValueError(f"the {name} of shape {tuple(states.shape)} is empty")


def check_padding(mask: Bool[Tensor, "b k"], name: str) -> None:
    """Raise a ``ValueError`` if a row of ``name`` has no word, or padding before one; not when compiled."""
    lengths = mask.sum(1)
    from_the_left = torch.arange(mask.shape[1], device=mask.device) < lengths[:, None]
    sound = (mask == from_the_left).all(1) & (lengths > 0)
    if not torch.compiler.is_compiling() and not sound.all():
        rows = (~sound).nonzero().flatten().tolist()
        raise ValueError(
            f"in {name} of {tuple(mask.shape)} the rows {rows} are empty, or have padding before a word"
        )


def check_even(**sizes: int) -> None:
    """Raise a ``ValueError`` unless every size is at least 1 and can be halved."""
    check_positive(**sizes)
    for name, size in sizes.items():
        if size % 2:
            raise ValueError(f"{name} must be even, to be halved, but is {size}")


def check_target(target: Int[Tensor, "b t"], hidden: Float[Tensor, "s ..."]) -> None:
    """Raise a ``ValueError`` unless a target has words, and as many sentences as the state has."""
    if target.shape[1] == 0 or len(target) != len(hidden):
        raise ValueError(
            f"a target of shape {tuple(target.shape)} does not fit {len(hidden)} source sentences"
        )


def check_layers(
    lstm: nn.LSTM,
    hidden: Float[Tensor, "b layers h"],
    cell: Float[Tensor, "b layers h"],
) -> None:
    """Raise a ``ValueError`` unless a decoder's LSTM can begin from these states of an encoder's."""
    announced = (lstm.num_layers, lstm.hidden_size)
    if not hidden.shape[1:] == cell.shape[1:] == announced:
        raise ValueError(
            f"the encoder's states {tuple(hidden.shape)} and {tuple(cell.shape)} are not of "
            f"{announced[0]} layers with {announced[1]} features, as the decoder's"
        )


def stack_size(layers: Sequence[Any]) -> int:
    """The size of the layers of a stack, which all have the same.

    Raises:
        ValueError: there is no layer, or the layers have different sizes.
    """
    sizes = [layer.size for layer in layers]
    if len(set(sizes)) != 1:
        raise ValueError(
            f"a stack needs layers of one size, but there are {len(sizes)}, of sizes {sizes}"
        )
    return sizes[0]


_POLARITY = "True = may attend, the opposite of nn.MultiheadAttention's"


def check_mask(mask: Tensor, shape: torch.Size) -> None:
    """Raise a ``TypeError`` unless the mask is boolean, a ``ValueError`` unless it fits the scores' shape."""
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        kind = (
            f"its dtype is {mask.dtype}"
            if isinstance(mask, Tensor)
            else f"it is a {type(mask).__name__}"
        )
        raise TypeError(f"the mask must be a boolean tensor ({_POLARITY}), but {kind}")
    padded = (1,) * (len(shape) - mask.ndim) + tuple(mask.shape)
    if len(padded) != len(shape) or any(
        m not in (1, s) for m, s in zip(padded, shape, strict=True)
    ):
        raise ValueError(
            f"a mask of shape {tuple(mask.shape)} does not broadcast to scores of {tuple(shape)} "
            f"({_POLARITY})"
        )


def check_size(name: str, tensor: Tensor, size: int) -> None:
    """Raise a ``ValueError`` unless the last axis of ``tensor`` has the size that a module was built for."""
    if tensor.shape[-1] != size:
        raise ValueError(
            f"the {name} has {tensor.shape[-1]} features, but {size} were announced"
        )


def check_positive(**sizes: int) -> None:
    """Raise a ``ValueError`` unless every size is at least 1."""
    for name, size in sizes.items():
        if size < 1:
            raise ValueError(f"{name} must be at least 1, not {size}")


def check_places(queries: int, keys: int) -> None:
    """Raise a ``ValueError`` if there are more queries than keys, whose last positions they are."""
    if queries > keys > 0:
        raise ValueError(
            f"{queries} queries cannot be among the positions of {keys} keys"
        )


def check_kind(owner: nn.Module, attention: nn.Module, kind: type) -> None:
    """Raise a ``TypeError`` unless the attention is of the kind that its owner needs."""
    if not isinstance(attention, kind):
        raise TypeError(
            f"{type(owner).__name__} needs {kind.__name__}, not {type(attention).__name__}"
        )


def check_unplaced(owner: nn.Module, attention: nn.Module) -> None:
    """Raise a ``TypeError`` if the attention, or one inside it, goes by the place of a query."""
    for part in attention.modules():
        if getattr(part, "placed", False):
            asker, placed = type(owner).__name__, type(part).__name__
            raise TypeError(
                f"{asker} asks one query at a time, but {placed} goes by its place"
            )


def check_hides_nothing(owner: nn.Module, attention: "Attention") -> None:
    """Raise a ``TypeError`` if the attention hides keys by a rule, of which its scores say nothing."""
    if attention.hides:
        asker, inside = type(owner).__name__, type(attention).__name__
        raise TypeError(
            f"{asker} uses scores alone, and would show what {inside} hides: give it a mask"
        )


def check_weight(name: str, weight: float) -> None:
    """Raise a ``ValueError`` unless the weight of a part of a loss is finite and at least 0."""
    if not 0 <= weight < math.inf:
        raise ValueError(
            f"the weight of the {name} must be a finite number of at least 0, not {weight}"
        )


def check_sequence(query: Tensor, key: Tensor, mask: Tensor | None) -> torch.Size:
    """The shape of the scores, if the queries are positions among the keys, and the mask fits.

    Raises:
        ValueError: query and key differ in more than their length, there are more queries than keys, or the
            mask does not fit.
        TypeError: the mask is not boolean.
    """
    shape = torch.Size((*query.shape[:-1], key.shape[-2]))
    if query.shape[:-2] != key.shape[:-2] or query.shape[-1] != key.shape[-1]:
        axes = f"leading axes {tuple(query.shape[:-2])} and {tuple(key.shape[:-2])}"
        sizes = f"{query.shape[-1]} and {key.shape[-1]} features"
        raise ValueError(
            f"query and key may differ in their length alone, but have {sizes}, {axes}"
        )
    check_places(*shape[-2:])
    if mask is not None:
        check_mask(mask, shape)
    return shape
