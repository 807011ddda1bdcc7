"""Patterns for PyTorch's FlexAttention, whose kernel is compiled from the rule.

Made for a GPU. On a CPU the kernel has no gradient; :mod:`companion.attention.sparse` has one, and is faster there.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.attention.flex_attention import AuxRequest, flex_attention

from companion._checks import check_inputs, check_last_positions, check_sequence
from companion.attention import masks
from companion.attention.kernels.block_masks import Order, find_blocks
from companion.attention.masks import RuleFunction
from companion.attention.sparse import PatternAttention

_KERNELS = 128  # compiled ones, after which PyTorch raises an error
_LOWEST = -1e30  # in place of −∞, as the difference of two is no number
#: PyTorch's kernel, compiled for fixed lengths, as PyTorch 2.13 writes C++ that does not compile if they
#: vary; and in full or not at all: where it is not compiled, it holds n² scores.
kernel: Callable[..., Any] = torch.compile(
    flex_attention, dynamic=False, fullgraph=True
)


class FlexAttention(PatternAttention):
    """Attention by any rule, which skips each block of 128 × 128 scores in which the rule allows none.

    ::

        weights_ij = softmax of q_iᵀ k_j / √d among the j that rule(i, j) and the mask allow

    A rule that spreads the keys evenly, as :func:`~companion.attention.masks.atrous`, leaves no block out and saves
    nothing: see :class:`FlexAtrous`. The blocks of a rule are found once for the same lengths, without n²
    memory. A mask is looked up for each score: what it hides is computed.

    Source: Dong et al. 2024 (Flex Attention). The kernel takes seconds to compile, when first called and
    again for another kind of rule, shape or mask; after 128 of them PyTorch raises an error. A model that is
    compiled around it gets a graph break. No float64; on a GPU, no fewer than 16 features.

    Raises:
        NotImplementedError: a gradient is wanted on a CPU.
        ValueError: as :class:`~companion.attention.sparse.PatternAttention`.
    """

    rate = (
        1  #: the kernel gets the sequence sorted by position mod this, with 1 as it is
    )

    def forward(
        self,
        query: Float[Tensor, "*b q d"],
        key: Float[Tensor, "*b k e"],
        value: Float[Tensor, "*b k v"],
        mask: Bool[Tensor, "..."] | None = None,
        query_position: Int[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "*b q v"]:
        """The context of each query; zero where it sees nothing. Blocks that the rule hides are left out."""
        check_inputs(query, key, value)
        if not query.numel() or not key.shape[-2] or query_position is not None:
            return super().forward(query, key, value, mask, query_position)
        *batch, queries, keys = check_sequence(query, key, mask)
        check_last_positions(queries, keys)
        if query.device.type == "cpu":
            query, key, value = _without_gradient(query, key, value)
        query, key, value = (_batch_and_heads(x, batch) for x in (query, key, value))
        mask = None if mask is None else _batch_and_heads(torch.atleast_2d(mask), batch)
        return self._attend(query, key, value, mask).reshape(
            *batch, queries, value.shape[-1]
        )

    def _attend(
        self,
        query: Float[Tensor, "b h q d"],
        key: Float[Tensor, "b h k d"],
        value: Float[Tensor, "b h k v"],
        mask: Bool[Tensor, "b h _ _"] | None,
    ) -> Float[Tensor, "b h q v"]:
        """The context by one call of the kernel."""
        return flex_kernel(self.rule, self.rate, query, key, value, mask)[0]


class FlexAtrous(FlexAttention):
    """Each position looks at every ``rate``-th one, in a sequence sorted by position mod ``rate``.

    ::

        (i − j) mod rate = 0

    Sorted, positions that see each other stand together, in blocks on the diagonal; all others are skipped.

    Raises:
        ValueError: the rate is below 1; or as :class:`FlexAttention`.
        NotImplementedError: as :class:`FlexAttention`.
    """

    def __init__(self, rate: int, causal: bool = False):
        super().__init__(masks.atrous(rate), causal)
        self.rate = rate


class FlexSparse(FlexAttention):
    """Each position looks at its neighbours and at every ``rate``-th one: local or atrous, in one softmax.

    ::

        |i − j| ≤ radius or (i − j) mod rate = 0

    One call of the kernel is for the neighbours, one, sorted, for the others, so that each key counts once. A
    log-sum-exp each joins them; on a CPU the kernel keeps it to itself, and one call computes all blocks.

    Raises:
        ValueError: the radius or the rate is below 1; or as :class:`FlexAttention`.
        NotImplementedError: as :class:`FlexAttention`.
    """

    def __init__(self, radius: int, rate: int, causal: bool = False):
        near = masks.local(radius)
        far = masks.difference(masks.atrous(rate), near)
        super().__init__(masks.union(near, far), causal)
        self.radius = radius
        self.rate = rate
        self.near, self.far = (
            PatternAttention(rule, causal).rule for rule in (near, far)
        )

    def _attend(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None
    ) -> Tensor:
        """The context by two calls of the kernel, or on a CPU by one."""
        if not gives_lse(query.device):
            return super()._attend(query, key, value, mask)
        near = flex_kernel(self.near, 1, query, key, value, mask)
        far = flex_kernel(self.far, self.rate, query, key, value, mask)
        return merge(*near, *far)


def gives_lse(device: torch.device) -> bool:
    """Whether the kernel gives away the log-sum-exp of each query's scores."""
    return device.type != "cpu"


@torch.compiler.disable
@torch._dynamo.config.patch(recompile_limit=_KERNELS)
def flex_kernel(
    rule: RuleFunction,
    rate: int,
    query: Float[Tensor, "b h q d"],
    key: Float[Tensor, "b h k d"],
    value: Float[Tensor, "b h k v"],
    mask: Bool[Tensor, "b h _ _"] | None,
) -> tuple[Float[Tensor, "b h q _"], ...]:
    """The kernel on a sequence sorted by position mod ``rate``: the contexts and, unless on a CPU, ``lse``.

    ::

        lse_i = log Σ_j exp(q_iᵀ k_j / √d),   −∞ where no key is seen
    """
    rows, columns, blocks = find_blocks(
        rule, rate, query.shape[-2], key.shape[-2], query.device
    )
    hide = (
        None
        if mask is None
        else _mask_scores(mask.expand(*query.shape[:-1], key.shape[-2]), rows, columns)
    )
    if rate > 1:
        query, key, value = rows.sort(query), columns.sort(key), columns.sort(value)
    wanted = AuxRequest(lse=gives_lse(query.device))
    context, (lse, _) = kernel(query, key, value, hide, blocks, return_aux=wanted)
    found = (context,) if lse is None else (context, lse.unsqueeze(-1))
    return tuple(rows.restore(x) for x in found) if rate > 1 else found


def merge(
    context: Float[Tensor, "*b q v"],
    lse: Float[Tensor, "*b q 1"],
    other: Float[Tensor, "*b q v"],
    other_lse: Float[Tensor, "*b q 1"],
) -> Float[Tensor, "*b q v"]:
    """One softmax over the keys of both: their shares are as exp lse and exp other_lse."""
    share = (other_lse.clamp(min=_LOWEST) - lse.clamp(min=_LOWEST)).sigmoid()
    return context.lerp(other, share.to(context.dtype))


def _mask_scores(
    mask: Bool[Tensor, "b h q k"], rows: Order, columns: Order
) -> Callable[..., Tensor]:
    """What the kernel calls for each score."""
    i, j = rows.sorted, columns.sorted
    return lambda score, b, h, row, column: torch.where(
        mask[b, h, i[row], j[column]], score, -torch.inf
    )


def _batch_and_heads(x: Tensor, batch: Sequence[int]) -> Tensor:
    """A query, key, value or mask with two leading axes, as the kernel wants it."""
    heads = batch[-1] if len(batch) > 1 else 1
    return x.expand(*batch, *x.shape[-2:]).reshape(-1, heads, *x.shape[-2:])


def _without_gradient(*inputs: Tensor) -> Iterator[Tensor]:
    """The same on a CPU, if no gradient is wanted."""
    if torch.is_grad_enabled() and any(x.requires_grad for x in inputs):
        raise NotImplementedError(
            "FlexAttention has no gradient on a CPU: LocalAttention, AtrousAttention and SparseAttention have"
        )
    return (x.detach() for x in inputs)
