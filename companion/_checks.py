"""Checks of arguments, kept out of the classes that call them.

Each raises an error that names the argument and its numbers.
"""

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


def stack_size(sizes: Sequence[int]) -> int:
    """The one size that all layers of a stack have.

    Raises:
        ValueError: there is no layer, or the layers have different sizes.
    """
    if len(set(sizes)) != 1:
        raise ValueError(
            f"a stack needs layers of one size, but there are {len(sizes)}, of sizes {sizes}"
        )
    return sizes[0]


_POLARITY = "True = may attend, the opposite of nn.MultiheadAttention's"


def check_mask(mask: Tensor, shape: torch.Size | tuple[int, ...]) -> None:
    """Refuse a mask that is not boolean (TypeError) or does not fit the scores (ValueError).

    A mask has the scores' axes, each of their size or 1, or is one ``(q, k)`` or ``(k,)``
    for all. A ``(b, k)`` mask of a batch with b = q would be taken for ``(q, k)``.
    """
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        is_tensor = isinstance(mask, Tensor)
        kind = (
            f"its dtype is {mask.dtype}"
            if is_tensor
            else f"it is a {type(mask).__name__}"
        )
        raise TypeError(f"the mask must be a boolean tensor ({_POLARITY}), but {kind}")
    axes, rank = mask.ndim, len(shape)
    if (
        axes not in (1, 2, rank)
        or axes > rank
        or not _fits(mask.shape, shape[rank - axes :])
    ):
        raise ValueError(
            f"a mask of shape {tuple(mask.shape)} does not fit scores of {tuple(shape)}: it "
            f"needs as many axes, or is one (q, k) for all; a source mask (b, k) is "
            f"mask[:, None] ({_POLARITY})"
        )
    if axes == 2 < rank and 1 < mask.shape[0] == shape[0]:
        raise ValueError(
            f"a mask of shape {tuple(mask.shape)} is ambiguous for scores of {tuple(shape)}: "
            f"write mask[:, None] if its rows are those of the batch, mask[None] if they are "
            f"the queries"
        )


def _fits(shape: Sequence[int], full: Sequence[int]) -> bool:
    return all(m in (1, s) for m, s in zip(shape, full, strict=True))


def check_inputs(query: Tensor, key: Tensor, value: Tensor | None = None) -> None:
    """Refuse queries, keys and values whose shapes do not fit each other (ValueError)."""
    inputs = {"query": query, "key": key} | ({} if value is None else {"value": value})
    for name, x in inputs.items():
        if x.ndim < 2 or x.shape[-1] == 0:
            raise ValueError(
                f"the {name} needs a shape (*batch, length, features), with at least one "
                f"feature, not {tuple(x.shape)}"
            )
    if value is not None and key.shape[-2] != value.shape[-2]:
        raise ValueError(
            f"{key.shape[-2]} keys but {value.shape[-2]} values: each key needs one value"
        )
    batch = query.shape[:-2]
    for name, x in inputs.items():
        other = x.shape[:-2]
        if other != batch and any(
            1 not in (a, b) and a != b
            for a, b in zip(reversed(batch), reversed(other), strict=False)
        ):
            raise ValueError(
                f"query and {name} have batches that do not fit each other: their shapes are "
                f"{tuple(query.shape)} and {tuple(x.shape)}"
            )


def check_same_features(query: Tensor, key: Tensor) -> None:
    """Refuse queries and keys of different numbers of features."""
    if query.shape[-1] != key.shape[-1]:
        raise ValueError(
            f"query and key must have the same number of features, not {query.shape[-1]} "
            f"and {key.shape[-1]}"
        )


def check_size(name: str, tensor: Tensor, size: int) -> None:
    """Refuse a tensor whose last axis is not of the size that a module was built for."""
    if tensor.shape[-1] != size:
        raise ValueError(
            f"the {name} has {tensor.shape[-1]} features, but {size} were announced"
        )


def check_positive(**sizes: int) -> None:
    """Refuse sizes that are not integers (TypeError) or are below 1 (ValueError)."""
    for name, size in sizes.items():
        if isinstance(size, bool) or not isinstance(size, int | torch.SymInt):
            raise TypeError(f"{name} must be an integer, not {size!r}")
        if size < 1:
            raise ValueError(f"{name} must be at least 1, not {size}")


def check_last_positions(queries: int, keys: int) -> None:
    """Refuse more queries than keys, whose last positions they are by default."""
    if queries > keys > 0:
        raise ValueError(
            f"{queries} queries cannot be the last positions of {keys} keys: give their "
            f"query_position"
        )


def query_positions(
    query: Tensor, keys: int, position: Tensor | None
) -> Int[Tensor, "*b q"]:
    """The position of each query among the keys; by default the last ones.

    Raises:
        TypeError: the positions are not integers.
        ValueError: they do not fit the queries; or none are given, and there are more
            queries than keys.
    """
    if position is None:
        check_last_positions(query.shape[-2], keys)
        return torch.arange(keys - query.shape[-2], keys, device=query.device)
    if position.dtype in (torch.bool,) or position.is_floating_point():
        raise TypeError(f"query_position must hold integers, not {position.dtype}")
    full = query.shape[:-1]
    axes = position.ndim
    if not 1 <= axes <= len(full) or not _fits(
        position.shape, full[len(full) - axes :]
    ):
        raise ValueError(
            f"query_position of shape {tuple(position.shape)} does not fit queries of "
            f"shape {tuple(query.shape)}: it is (q,) or (b, q)"
        )
    return position


def check_kind(owner: nn.Module, attention: nn.Module, kind: type) -> None:
    """Refuse an attention that is not of the type its owner needs (TypeError)."""
    if not isinstance(attention, kind):
        raise TypeError(
            f"{type(owner).__name__} needs {kind.__name__}, not {type(attention).__name__}"
        )


#: What an attention may depend on, by the flag of the contract that says so.
_DEPENDS = {
    "uses_query_position": "depends on the query's position",
    "uses_key_position": "depends on the keys' positions",
    "has_own_mask": "masks keys by a rule of its own",
}


def check_independent(
    owner: nn.Module, attention: nn.Module, *flags: str, because: str
) -> None:
    """Refuse an attention that depends, itself or inside, on what its owner cannot give.

    ``flags`` are attributes of :class:`~companion.attention.base.Attention`.
    """
    for part in attention.modules():
        for flag in flags:
            if getattr(part, flag, False):
                raise TypeError(
                    f"{type(owner).__name__} cannot use {type(part).__name__}, which "
                    f"{_DEPENDS[flag]}: {because}"
                )


def check_weight(name: str, weight: float) -> None:
    """Refuse a weight of a part of a loss that is not finite or below 0."""
    if not 0 <= weight < math.inf:
        raise ValueError(
            f"the weight of the {name} must be a finite number of at least 0, not {weight}"
        )


def check_sequence(query: Tensor, key: Tensor, mask: Tensor | None) -> torch.Size:
    """The shape of a sequence's scores for itself; queries and keys differ in length alone.

    Raises:
        ValueError: they differ in more than their length, or the mask does not fit.
        TypeError: the mask is not boolean.
    """
    shape = torch.Size((*query.shape[:-1], key.shape[-2]))
    if query.shape[:-2] != key.shape[:-2] or query.shape[-1] != key.shape[-1]:
        raise ValueError(
            f"query and key may differ in their length alone, but have shapes "
            f"{tuple(query.shape)} and {tuple(key.shape)}"
        )
    if mask is not None:
        check_mask(mask, shape)
    return shape
