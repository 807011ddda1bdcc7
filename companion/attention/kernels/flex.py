"""PyTorch's FlexAttention under a position rule, in one call or in several that are merged."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.attention.flex_attention import AuxRequest, flex_attention

from companion._checks import score_shape
from companion.attention.kernels.block_masks import Order, find_blocks
from companion.attention.masks import RuleFunction
from companion.attention.types import Mask

_KERNELS = 128  # compiled kernels, after which PyTorch raises an error
_LOWEST = -1e30  # in place of −∞: the difference of two infinities is NaN
#: PyTorch's kernel, without a fallback because an uncompiled one holds n² scores. From
#: the second length on it is compiled for all of them; on a CPU, where PyTorch 2.13 would
#: then write invalid C++, for each.
kernel: Callable[..., Any] = torch.compile(flex_attention, fullgraph=True)


def flex_contexts(
    parts: Sequence[tuple[RuleFunction, int]],
    query: Float[Tensor, "*b q d"],
    key: Float[Tensor, "*b k d"],
    value: Float[Tensor, "*b k v"],
    mask: Mask,
) -> Float[Tensor, "*b q v"]:
    """One softmax over the keys that one or two rules allow, each by a call of the kernel.

    One call computes neighbours, for example, and another, sorted, the other positions.
    """
    *batch, queries, _ = score_shape(query, key, value)
    query, key, value = (_batch_and_heads(x, batch) for x in (query, key, value))
    mask = None if mask is None else _batch_and_heads(torch.atleast_2d(mask), batch)
    found = [flex_kernel(*part, query, key, value, mask) for part in parts]
    context = found[0][0] if len(found) == 1 else merge(*found[0], *found[1])
    return context.reshape(*batch, queries, value.shape[-1])


def returns_lse(device: torch.device) -> bool:
    """Whether the kernel returns the log-sum-exp of each query's scores."""
    return device.type != "cpu"


@torch.compiler.disable  # type: ignore[untyped-decorator]
def flex_kernel(
    rule: RuleFunction,
    rate: int,
    query: Float[Tensor, "b h q d"],
    key: Float[Tensor, "b h k d"],
    value: Float[Tensor, "b h k v"],
    mask: Bool[Tensor, "b h _ _"] | None,
) -> tuple[Float[Tensor, "b h q _"], ...]:
    """The kernel on a sequence sorted by position mod ``rate``: contexts and, unless on a CPU, ``lse``.

    ::

        lse_i = log Σ_j exp(q_iᵀ k_j / √d),   −∞ where every key is masked
    """
    lengths = query.shape[-2], key.shape[-2]
    rows, columns, blocks = find_blocks(rule, rate, *lengths, query.device)
    score_mod = None
    if mask is not None:
        mask = mask.expand(*query.shape[:-1], key.shape[-2])
        score_mod = _masked_score(mask, rows, columns)
    if rate > 1:
        query, key, value = rows.sort(query), columns.sort(key), columns.sort(value)
    wanted = AuxRequest(lse=returns_lse(query.device))
    with _compiler_settings(query.device):
        context, (lse, _) = kernel(
            query, key, value, score_mod, blocks, return_aux=wanted
        )
    found = (context,) if lse is None else (context, lse.unsqueeze(-1))
    return tuple(rows.restore(x) for x in found) if rate > 1 else found


def merge(
    context: Float[Tensor, "*b q v"],
    lse: Float[Tensor, "*b q 1"],
    other: Float[Tensor, "*b q v"],
    other_lse: Float[Tensor, "*b q 1"],
) -> Float[Tensor, "*b q v"]:
    """One softmax over the keys of both, weighted in proportion to exp lse and exp other_lse."""
    weight = (other_lse.clamp(min=_LOWEST) - lse.clamp(min=_LOWEST)).sigmoid()
    return context.lerp(other, weight.to(context.dtype))


def _compiler_settings(device: torch.device) -> AbstractContextManager[Any]:
    """More compiled kernels than PyTorch's default of 8, and fixed lengths on a CPU."""
    config: Any = getattr(torch._dynamo, "config", None)
    if not hasattr(config, "recompile_limit"):
        return nullcontext()
    varying = device.type != "cpu"
    return config.patch(recompile_limit=_KERNELS, automatic_dynamic_shapes=varying)


def _masked_score(
    mask: Bool[Tensor, "b h q k"], rows: Order, columns: Order
) -> Callable[..., Tensor]:
    """What the kernel calls for each score."""
    i, j = rows.sorted, columns.sorted
    return lambda score, b, h, row, column: torch.where(
        mask[b, h, i[row], j[column]], score, -torch.inf
    )


def _batch_and_heads(x: Tensor, batch: Sequence[int]) -> Tensor:
    """A query, key, value or mask with two leading axes, as the kernel needs it."""
    heads = batch[-1] if len(batch) > 1 else 1
    return x.expand(*batch, *x.shape[-2:]).reshape(-1, heads, *x.shape[-2:])
