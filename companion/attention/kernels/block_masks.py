"""Which blocks of scores a rule needs: FlexAttention's block mask, without ever holding n² entries."""

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
    """A sequence in another order. Its gradient is put back, with nothing to add up as in PyTorch's own."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Float[Tensor, "*b n d"],
        order: Int32[Tensor, " n"],
        back: Int32[Tensor, " n"],
    ) -> Float[Tensor, "*b n d"]:
        """What is at ``order_i`` in ``x`` comes to i."""
        ctx.save_for_backward(back)
        return x.index_select(-2, order)

    @staticmethod
    def backward(
        ctx: Any, gradient: Float[Tensor, "*b n d"]
    ) -> tuple[Float[Tensor, "*b n d"], None, None]:
        """And back."""
        (back,) = ctx.saved_tensors
        return gradient.index_select(-2, back), None, None


class Order(NamedTuple):
    """A sequence sorted by position mod a rate: who stands at each place, and the place of each."""

    sorted: Int32[Tensor, " n"]
    back: Int32[Tensor, " n"]

    def sort(self, x: Float[Tensor, "*b n d"]) -> Float[Tensor, "*b n d"]:
        """The sequence in this order."""
        return Reordered.apply(x, self.sorted, self.back)

    def restore(self, x: Float[Tensor, "*b n d"]) -> Float[Tensor, "*b n d"]:
        """What :meth:`sort` got."""
        return Reordered.apply(x, self.back, self.sorted)


@lru_cache(maxsize=64)
@torch.inference_mode(
    False
)  # or else, if they are found in inference mode, no training could follow
def find_blocks(
    rule: RuleFunction, rate: int, queries: int, keys: int, device: torch.device
) -> tuple[Order, Order, BlockMask]:
    """The orders of queries and keys, and the blocks in which, so sorted, the rule allows some or all.

    The rule is asked for one row of blocks at a time. The queries are the last positions of the keys.
    """
    position = torch.arange(keys, dtype=torch.int32, device=device)
    rows, columns = _sort(position[keys - queries :], rate), _sort(position, rate)
    i, j = position[keys - queries :][rows.sorted], position[columns.sorted]
    found = []
    for some in i.split(BLOCK):
        seen = rule(some[:, None], j).expand(len(some), keys)
        seen = functional.pad(seen, (0, -keys % BLOCK, 0, BLOCK - len(some))).unflatten(
            1, (-1, BLOCK)
        )
        found.append(torch.stack([seen.any(-1).any(0), seen.all(-1).all(0)]))
    any_seen, all_seen = torch.stack(found, 1)
    listed = *_list(any_seen & ~all_seen), *_list(all_seen)
    mask_mod = lambda b, h, row, column: rule(i[row], j[column])  # noqa: E731
    return (
        rows,
        columns,
        BlockMask.from_kv_blocks(*listed, BLOCK, mask_mod, (queries, keys)),
    )


def _sort(positions: Int32[Tensor, " n"], rate: int) -> Order:
    places = (positions % rate).argsort(stable=True)
    return Order(places.int(), places.argsort().int())


def _list(
    blocks: Bool[Tensor, "r c"],
) -> tuple[Int32[Tensor, "1 1 r"], Int32[Tensor, "1 1 r c"]]:
    """For each row of blocks how many there are, and which come first."""
    order = blocks.int().argsort(dim=-1, descending=True, stable=True)
    return blocks.sum(-1, dtype=torch.int32)[None, None], order.int()[None, None]
