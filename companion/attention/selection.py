"""Attention to the blocks of keys that a query chooses, and to a window (Yuan et al. 2025)."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from companion._checks import check_positive, query_positions, score_shape
from companion.attention import masks
from companion.attention.sparse import PatternAttention
from companion.attention.types import Mask, Positions


class BlockSelectionAttention(PatternAttention):
    """Each position attends to the best blocks of keys before it, and to a window.

    ::

        e_ib = q_iᵀ k̄_b / √d,   k̄_b = the mean of the visible keys of block b
        weights_i = softmax of q_iᵀ k_j / √d over the last ``window`` positions, and over
        those in the ``top`` complete blocks with the largest e_ib

    The choice has no gradient. It is learned by what is chosen: the keys that score the
    blocks are those of the softmax. In decoding the cache has all keys, of which a query
    needs ``top · block + window``, and a mean for each block. This is the definition: it
    computes n² scores and masks them, so that it saves no time.

    Args:
        block: the number of positions in a block, counted from the first position.
        top: how many blocks are chosen.
        window: the number of last positions, the query's own included. With fewer than
            ``block``, some positions would be in no complete block and in no window.

    Source: Yuan et al. 2025 (native sparse attention), section 3.3, *token selection* and
    *sliding window*.
    Deviation: a block's key is its mean, not the output of a network, and blocks do not
    overlap; selected keys and the window share one softmax, where the paper mixes three
    softmaxes by gates, that of the blocks' keys among them; each head chooses by itself.
    Lu et al. 2025 (MoBA) choose by means, too.

    Example:
        >>> x = torch.eye(4)[[0, 0, 1, 1, 2, 2, 3, 0]][None]
        >>> (BlockSelectionAttention(block=2, top=1, window=2).weights(x, x)[0, 7] > 0).int()
        tensor([1, 1, 0, 0, 0, 0, 1, 1], dtype=torch.int32)
    """

    settings = ("block", "top", "window")

    def __init__(self, block: int, top: int, window: int):
        super().__init__(masks.causal(), causal=True)
        check_positive(block=block, top=top, window=window)
        if window < block:
            raise ValueError(
                f"a window of {window} positions leaves a gap behind blocks of {block}: "
                "give it as many positions at least"
            )
        self.block, self.top, self.window = block, top, window

    def block_scores(
        self, query: Tensor, key: Tensor, mask: Mask, position: Positions
    ) -> Float[Tensor, "*b q n_blocks"]:
        """The mean score of each block's visible keys; −∞ of one that is not complete or has none."""
        scores = self.score(query, key)
        visible = super().visible(query, key, mask, position)
        assert visible is not None
        rest = -key.shape[-2] % self.block
        visible = pad(visible.expand(scores.shape), (0, rest))
        visible = visible.unflatten(-1, (-1, self.block))
        scores = pad(scores, (0, rest)).unflatten(-1, (-1, self.block))
        count = visible.sum(-1)
        mean = scores.masked_fill(~visible, 0).sum(-1) / count.clamp(min=1)
        ends = self.block * torch.arange(1, count.shape[-1] + 1, device=key.device)
        own = query_positions(query, key.shape[-2], position)[..., None]
        return mean.masked_fill((ends > own + 1) | (count == 0), -torch.inf)

    def visible(
        self, query: Tensor, key: Tensor, mask: Mask, position: Positions
    ) -> Mask:
        """Which keys each query attends to: those of its blocks, its window, and the mask."""
        if 0 in score_shape(query, key):
            return mask
        scores = self.block_scores(query.detach(), key.detach(), mask, position)
        best = scores.topk(min(self.top, scores.shape[-1]), -1)
        chosen = torch.zeros_like(scores, dtype=torch.bool)
        chosen = chosen.scatter(-1, best.indices, best.values > -torch.inf)
        keys = chosen.repeat_interleave(self.block, -1)[..., : key.shape[-2]]
        near: Any = masks.for_scores(
            masks.sliding_window(self.window), query, key, None, position
        )
        return keys | near if mask is None else (keys | near) & mask
