"""Which blocks of scores a rule needs: FlexAttention's block mask, found without n² memory."""

from functools import lru_cache
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int32
from torch import Tensor
from torch.nn import functional
from torch.nn.attention.flex_attention import BlockMask

from companion.attention.masks import RuleFunction

BLOCK = 128  #: queries and keys of a block, which a kernel computes or skips


class Reordered(torch.autograd.Function):
    """A permuted sequence, whose gradient is permuted back instead of being added up."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Float[Tensor, "*b n d"],
        order: Int32[Tensor, " n"],
        inverse: Int32[Tensor, " n"],
    ) -> Float[Tensor, "*b n d"]:
        """Position i of the result is position ``order_i`` of ``x``."""
        ctx.save_for_backward(inverse)
        return x.index_select(-2, order)

    @staticmethod
    def backward(
        ctx: Any, gradient: Float[Tensor, "*b n d"]
    ) -> tuple[Float[Tensor, "*b n d"], None, None]:
        """The gradient by the inverse permutation."""
        (inverse,) = ctx.saved_tensors
        return gradient.index_select(-2, inverse), None, None


class Order(NamedTuple):
    """A sequence sorted by position mod a rate: the permutation and its inverse."""

    sorted: Int32[Tensor, " n"]
    inverse: Int32[Tensor, " n"]

    def sort(self, x: Float[Tensor, "*b n d"]) -> Float[Tensor, "*b n d"]:
        """The sequence in this order."""
        return Reordered.apply(x, self.sorted, self.inverse)

    def restore(self, x: Float[Tensor, "*b n d"]) -> Float[Tensor, "*b n d"]:
        """The sequence that :meth:`sort` was given."""
        return Reordered.apply(x, self.inverse, self.sorted)


@lru_cache(maxsize=64)
@torch.inference_mode(False)  # tensors made in inference mode could not be trained with
def find_blocks(
    rule: RuleFunction, rate: int, queries: int, keys: int, device: torch.device
) -> tuple[Order, Order, BlockMask]:
    """The orders of queries and keys, and the blocks of the sorted scores that the rule needs.

    The rule is evaluated for one row of blocks at a time. The queries are the last
    positions of the keys.
    """
    position = torch.arange(keys, dtype=torch.int32, device=device)
    rows, columns = _sort(position[keys - queries :], rate), _sort(position, rate)
    i, j = position[keys - queries :][rows.sorted], position[columns.sorted]
    found = []
    for block in i.split(BLOCK):
        visible = rule(block[:, None], j).expand(len(block), keys)
        padding = (0, -keys % BLOCK, 0, BLOCK - len(block))
        visible = functional.pad(visible, padding).unflatten(1, (-1, BLOCK))
        found.append(torch.stack([visible.any(-1).any(0), visible.all(-1).all(0)]))
    some, every = torch.stack(found, 1)
    listed = *_list(some & ~every), *_list(every)
    mask_mod = lambda b, h, row, column: rule(i[row], j[column])  # noqa: E731
    return (
        rows,
        columns,
        BlockMask.from_kv_blocks(*listed, BLOCK, mask_mod, (queries, keys)),
    )


def _sort(positions: Int32[Tensor, " n"], rate: int) -> Order:
    order = (positions % rate).argsort(stable=True)
    return Order(order.int(), order.argsort().int())


def _list(
    blocks: Bool[Tensor, "r c"],
) -> tuple[Int32[Tensor, "1 1 r"], Int32[Tensor, "1 1 r c"]]:
    """For each row of blocks their number, and their indices before all others."""
    order = blocks.int().argsort(dim=-1, descending=True, stable=True)
    return blocks.sum(-1, dtype=torch.int32)[None, None], order.int()[None, None]
