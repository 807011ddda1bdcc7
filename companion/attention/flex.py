"""Position patterns for PyTorch's FlexAttention, whose kernel is compiled from the rule.

It is meant for a GPU. On a CPU the kernel has no gradient, and the attentions of
:mod:`companion.attention.sparse`, which have one, are faster.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.attention.flex_attention import AuxRequest, flex_attention

from companion._checks import check_last_positions, score_shape
from companion.attention import masks
from companion.attention.kernels.block_masks import BLOCK, Order, find_blocks
from companion.attention.masks import RuleFunction
from companion.attention.sparse import PatternAttention, needs_definition
from companion.attention.types import Mask, Positions

_KERNELS = 128  # compiled kernels, after which PyTorch raises an error
_LOWEST = -1e30  # in place of −∞: the difference of two infinities is NaN
#: PyTorch's kernel, compiled for fixed lengths because PyTorch 2.13 writes invalid C++ if
#: they vary, and without a fallback because an uncompiled one holds n² scores.
kernel: Callable[..., Any] = torch.compile(
    flex_attention, dynamic=False, fullgraph=True
)


class FlexAttention(PatternAttention):
    """Attention under any rule, by a kernel that skips blocks of 128 × 128 scores without a visible one.

    ::

        weights_ij = softmax of q_iᵀ k_j / √d over the j that rule(i, j) and the mask allow

    A rule that spreads the keys evenly, as :func:`~companion.attention.masks.atrous`
    does, leaves no block empty and saves nothing: see :class:`FlexAtrous`. The blocks of
    a rule are found once for the same lengths, without n² memory. A mask is read for each
    score, so what it hides is computed nevertheless.

    The kernel takes seconds to compile, at the first call and again for another kind of
    rule, shape or mask; after 128 kernels PyTorch raises an error. A compiled model
    around it gets a graph break. There is no float64; on a GPU, at least 16 features are
    needed. As in :class:`~companion.attention.sparse.TiledAttention`, the definition is
    used with a ``query_position``, under ``torch.func`` and in ``torch.export``; on a CPU
    also for fewer than 128 keys, where the kernel of PyTorch 2.13 reads past the end of a
    sequence on processors with AVX2.

    Args:
        rule, causal: as in :class:`~companion.attention.sparse.PatternAttention`.

    Raises:
        NotImplementedError: a gradient is needed on a CPU.

    Source: Dong et al. 2024 (Flex Attention).

    Example:
        >>> attention = FlexAttention(masks.local(1), causal=True)
        >>> x = torch.zeros(4, 16)
        >>> attention.weights(x, x)
        tensor([[1.0000, 0.0000, 0.0000, 0.0000],
                [0.5000, 0.5000, 0.0000, 0.0000],
                [0.0000, 0.5000, 0.5000, 0.0000],
                [0.0000, 0.0000, 0.5000, 0.5000]])
    """

    rate = 1  #: the kernel gets the sequence sorted by position mod this number

    def compute_context(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Mask, position: Positions
    ) -> Tensor:
        """By FlexAttention's kernel, compiled from the rule."""
        *batch, queries, keys = score_shape(query, key, value)
        if not query.numel() or position is not None or needs_definition():
            return self.compute_both(query, key, value, mask, position)[0]
        check_last_positions(queries, keys)
        if query.device.type == "cpu":
            query, key, value = _without_gradient(query, key, value)
            if keys < BLOCK:
                return self.compute_both(query, key, value, mask, None)[0]
        query, key, value = (_batch_and_heads(x, batch) for x in (query, key, value))
        mask = None if mask is None else _batch_and_heads(torch.atleast_2d(mask), batch)
        context = self._by_kernel(query, key, value, mask)
        return context.reshape(*batch, queries, value.shape[-1])

    def _by_kernel(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Mask
    ) -> Float[Tensor, "b h q v"]:
        return flex_kernel(self.rule, self.rate, query, key, value, mask)[0]


class FlexAtrous(FlexAttention):
    """Each position attends to every ``rate``-th one, in a sequence sorted by position mod ``rate``.

    ::

        (i − j) mod rate = 0

    After sorting, positions that attend to each other are neighbours and form blocks on
    the diagonal; all other blocks are skipped.

    Args:
        rate: the distance between neighbouring positions of a class.
        causal: whether to mask later keys as well.

    Example:
        >>> x = torch.zeros(4, 16)
        >>> FlexAtrous(rate=2).weights(x, x)[0]
        tensor([0.5000, 0.0000, 0.5000, 0.0000])
    """

    settings = ("rate", "causal")

    def __init__(self, rate: int, causal: bool = False):
        super().__init__(masks.atrous(rate), causal)
        self.rate = rate


class FlexSparse(FlexAttention):
    """Each position attends to its neighbours and to every ``rate``-th position, in one softmax.

    ::

        |i − j| ≤ radius or (i − j) mod rate = 0

    One call of the kernel computes the neighbours, another, sorted, the other positions;
    each key counts once, and a log-sum-exp merges the two. On a CPU the kernel does not
    return it, and one call computes all blocks.

    Args:
        radius: how far a neighbour may be.
        rate: the distance between the other positions.
        causal: whether to mask later keys as well.

    Example:
        >>> x = torch.zeros(6, 16)
        >>> FlexSparse(radius=1, rate=2).weights(x, x)[0]
        tensor([0.2500, 0.2500, 0.2500, 0.0000, 0.2500, 0.0000])
    """

    settings = ("radius", "rate", "causal")

    def __init__(self, radius: int, rate: int, causal: bool = False):
        near = masks.local(radius)
        far = masks.difference(masks.atrous(rate), near)
        super().__init__(masks.union(near, far), causal)
        self.radius = radius
        self.rate = rate
        self.near, self.far = (
            PatternAttention(rule, causal).rule for rule in (near, far)
        )

    def _by_kernel(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Mask
    ) -> Float[Tensor, "b h q v"]:
        if not returns_lse(query.device):
            return super()._by_kernel(query, key, value, mask)
        near = flex_kernel(self.near, 1, query, key, value, mask)
        far = flex_kernel(self.far, self.rate, query, key, value, mask)
        return merge(*near, *far)


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
    with _room_for_kernels():
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


def _room_for_kernels() -> AbstractContextManager[Any]:
    """More compiled kernels than PyTorch's default of 8, where its private setting exists."""
    config: Any = getattr(torch._dynamo, "config", None)
    if not hasattr(config, "recompile_limit"):
        return nullcontext()
    return config.patch(recompile_limit=_KERNELS)


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
