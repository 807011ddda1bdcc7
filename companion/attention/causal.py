"""Attention that never attends to a later position: scaled dot-product, and any other."""

from torch import Tensor

from companion.attention import masks
from companion.attention.functional import fused_attention
from companion.attention.sparse import PatternAttention
from companion.attention.types import Mask, Positions
from companion.attention.wrappers import Wrapper


class CausalAttention(PatternAttention):
    """Scaled dot-product attention in which no query attends to a later key.

    ::

        weights_ij = softmax of q_iᵀ k_j / √d over j ≤ i

    Without another mask, PyTorch's kernel masks by itself, so that n² entries are never
    stored. The queries are the last positions of the keys, or at ``query_position``.

    Args:
        scale, dropout: as of :class:`~companion.attention.scores.ScaledDot`.

    Source: Vaswani et al. 2017, section 3.2.3, the decoder's self-attention.

    Example:
        >>> x = torch.randn(1, 4, 8)
        >>> (CausalAttention().weights(x, x)[0] > 0).int()
        tensor([[1, 0, 0, 0],
                [1, 1, 0, 0],
                [1, 1, 1, 0],
                [1, 1, 1, 1]], dtype=torch.int32)
    """

    settings = ()
    fuses_dropout = True

    def __init__(self, scale: float | None = None, dropout: float = 0.0):
        super().__init__(masks.causal())
        self.causal = True
        self.scale = scale
        self.set_dropout(dropout)

    def compute_context(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Mask, position: Positions
    ) -> Tensor:
        """By PyTorch's kernel, which masks by itself."""
        if mask is None and position is None:
            dropped = self.dropout if self.training else 0.0
            return fused_attention(query, key, value, None, self.scale, True, dropped)
        return super().compute_context(query, key, value, mask, position)

    def attends_to_all(self, keys: int) -> bool:
        """The last position attends to every key."""
        return True


class Causal(Wrapper):
    """Any attention under the causal mask, such as a synthesizer for a decoder.

    ::

        weights_ij = weights of the attention, normalised over j ≤ i

    The mask has an entry for each query and key, and masked scores are computed
    nevertheless. :class:`CausalAttention` and patterns with ``causal=True`` save that.

    Args:
        attention: what is computed under the mask.

    Example:
        >>> from companion.attention import RandomSynthesizer
        >>> attention, x = Causal(RandomSynthesizer(9)), torch.randn(1, 3, 8)
        >>> (attention.weights(x, x)[0] > 0).int()
        tensor([[1, 0, 0],
                [1, 1, 0],
                [1, 1, 1]], dtype=torch.int32)
    """

    causal = True
    uses_query_position = True
    has_own_weights = True

    def compute_weights(
        self, query: Tensor, key: Tensor, mask: Mask, position: Positions
    ) -> Tensor:
        """Those of the attention inside, under the mask and the rule."""
        visible = masks.for_scores(masks.causal(), query, key, mask, position)
        return self.attention.weights(query, key, visible, position)

    def compute_context(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Mask, position: Positions
    ) -> Tensor:
        """That of the attention inside, under the mask and the rule."""
        visible = masks.for_scores(masks.causal(), query, key, mask, position)
        return self.attention(query, key, value, visible, position)
