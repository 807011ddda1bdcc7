"""PyTorch's FlexAttention, whose kernel is compiled from a position rule: for a GPU.

On CUDA the patterns of :mod:`companion.attention.sparse` are computed by it. The classes
here use it on every device, and for any rule. On a CPU the kernel has no gradient, and
tiles, which have one, are faster.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.attention.flex_attention import AuxRequest, flex_attention

from companion._checks import score_shape
from companion.attention.kernels.block_masks import BLOCK, Order, find_blocks
from companion.attention.masks import RuleFunction
from companion.attention.sparse import (
    AtrousAttention,
    KernelAttention,
    SparseAttention,
)
from companion.attention.types import Mask

_KERNELS = 128  # compiled kernels, after which PyTorch raises an error
_LOWEST = -1e30  # in place of −∞: the difference of two infinities is NaN
#: PyTorch's kernel, without a fallback because an uncompiled one holds n² scores. From
#: the second length on it is compiled for all of them; on a CPU, where PyTorch 2.13 would
#: then write invalid C++, for each.
kernel: Callable[..., Any] = torch.compile(flex_attention, fullgraph=True)


class FlexAttention(KernelAttention):
    """Attention under any rule, by a kernel that skips blocks of 128 × 128 scores without a visible one.

    ::

        weights_ij = softmax of q_iᵀ k_j / √d over the j that rule(i, j) and the mask allow

    A rule that spreads the keys evenly, as :func:`~companion.attention.masks.atrous`
    does, leaves no block empty and saves nothing, unless the positions are sorted, as in
    :class:`~companion.attention.sparse.AtrousAttention`. The blocks of a rule are found
    once for the same lengths, without n² memory. A mask is read for each score, so what
    it hides is computed nevertheless.

    The kernel takes seconds to compile, at the first call and again for another kind of
    rule, shape or mask; after 128 kernels PyTorch raises an error. A compiled model
    around it gets a graph break. There is no float64, and no second derivative; on a GPU,
    at least 16 features are needed. On a CPU the definition is used for fewer than 128
    keys, where the kernel of PyTorch 2.13 reads past the end of a sequence on processors
    with AVX2.

    Args:
        rule, causal: as in :class:`~companion.attention.sparse.PatternAttention`.

    Raises:
        NotImplementedError: a gradient is needed on a CPU.

    Source: Dong et al. 2024 (Flex Attention).

    Example:
        >>> from companion.attention import masks
        >>> attention = FlexAttention(masks.local(1), causal=True)
        >>> x = torch.zeros(4, 16)
        >>> attention.weights(x, x)
        tensor([[1.0000, 0.0000, 0.0000, 0.0000],
                [0.5000, 0.5000, 0.0000, 0.0000],
                [0.0000, 0.5000, 0.5000, 0.0000],
                [0.0000, 0.0000, 0.5000, 0.5000]])
    """

    def compute_by_kernel(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Mask
    ) -> Tensor:
        """By FlexAttention, on every device."""
        if query.device.type == "cpu":
            query, key, value = _without_gradient(query, key, value)
            if key.shape[-2] < BLOCK:
                return self.compute_both(query, key, value, mask, None)[0]
        parts = self.parts()
        if len(parts) > 1 and not returns_lse(query.device):
            parts = [(self.rule, 1)]
        return flex_contexts(parts, query, key, value, mask)


class FlexAtrous(FlexAttention, AtrousAttention):
    """:class:`~companion.attention.sparse.AtrousAttention`, by FlexAttention on every device.

    Args:
        rate, causal: as there.

    Example:
        >>> x = torch.zeros(4, 16)
        >>> FlexAtrous(rate=2).weights(x, x)[0]
        tensor([0.5000, 0.0000, 0.5000, 0.0000])
    """


class FlexSparse(FlexAttention, SparseAttention):
    """:class:`~companion.attention.sparse.SparseAttention`, by FlexAttention on every device.

    On a CPU, where the kernel does not return the log-sum-exp that merges two calls, one
    call computes all blocks.

    Args:
        radius, rate, causal: as there.

    Example:
        >>> x = torch.zeros(6, 16)
        >>> FlexSparse(radius=1, rate=2).weights(x, x)[0]
        tensor([0.2500, 0.2500, 0.2500, 0.0000, 0.2500, 0.0000])
    """


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


def _without_gradient(*inputs: Tensor) -> Iterator[Tensor]:
    """The same tensors, detached, if no gradient is needed."""
    if torch.is_grad_enabled() and any(x.requires_grad for x in inputs):
        raise NotImplementedError(
            "FlexAttention has no gradient on a CPU, but LocalAttention, AtrousAttention and "
            "SparseAttention have"
        )
    return (x.detach() for x in inputs)
