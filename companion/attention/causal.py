"""Attention that never attends to a later position: scaled dot-product, and any other."""

from jaxtyping import Bool, Float, Int
from torch import Tensor

from companion._checks import (
    check_heads_divide,
    check_inputs,
    check_kind,
    check_mask,
    check_sequence,
    query_positions,
)
from companion.attention import masks
from companion.attention.base import Attention
from companion.attention.functional import dot_product_attention
from companion.attention.sparse import PatternAttention


class CausalAttention(PatternAttention):
    """Scaled dot-product attention in which no query attends to a later key.

    ::

        weights_ij = softmax of q_iᵀ k_j / √d over j ≤ i

    Without another mask, PyTorch's kernel masks by itself, so that n² entries are never
    stored. The queries are the last positions of the keys, or at ``query_position``.

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

    def __init__(self) -> None:
        super().__init__(masks.causal())
        self.causal = True

    def forward(
        self,
        query: Float[Tensor, "*b q d"],
        key: Float[Tensor, "*b k e"],
        value: Float[Tensor, "*b k v"],
        mask: Bool[Tensor, "..."] | None = None,
        query_position: Int[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "*b q v"]:
        """The context of each query, by the fused kernel; zero where everything is masked."""
        if mask is None and query_position is None:
            check_sequence(query, key, None, value)
            return dot_product_attention(query, key, value, causal=True)
        return super().forward(query, key, value, mask, query_position)

    def forward_grouped(
        self,
        query: Float[Tensor, "*b h q d"],
        key: Float[Tensor, "*b g k e"],
        value: Float[Tensor, "*b g k v"],
        mask: Bool[Tensor, "..."] | None = None,
        query_position: Int[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "*b h q v"]:
        """The contexts; of one new position without copying the shared keys and values.

        The h/g heads that share keys become as many queries of one head: the last
        position attends to every key, so they need no mask.
        """
        alone = mask is None and query_position is None and query.shape[-2] == 1
        fits = query.shape[:-3] == key.shape[:-3] == value.shape[:-3]
        if not alone or not fits or query.shape[-3] == key.shape[-3]:
            return super().forward_grouped(query, key, value, mask, query_position)
        check_heads_divide(query.shape[-3], key.shape[-3])
        *batch, heads, _, size = query.shape
        groups = key.shape[-3]
        rows = query.reshape(*batch, groups, heads // groups, size)
        context = dot_product_attention(rows, key, value)  # (*b, g, h/g, v)
        return context.reshape(*batch, heads, 1, value.shape[-1])


class Causal(Attention):
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
    has_own_mask = True

    def __init__(self, attention: Attention):
        super().__init__()
        check_kind(self, attention, Attention)
        self.attention = attention

    def project(
        self, source: Float[Tensor, "*b k s"]
    ) -> tuple[Float[Tensor, "*b k d"], Float[Tensor, "*b k v"]]:
        """Key and value by the attention inside."""
        return self.attention.project(source)

    def score(
        self,
        query: Float[Tensor, "*b q d"],
        key: Float[Tensor, "*b k e"],
        query_position: Int[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "*b q k"]:
        """The scores of the attention inside, which are not yet masked."""
        return self.attention.score_at(query, key, query_position)

    def weights(
        self,
        query: Float[Tensor, "*b q d"],
        key: Float[Tensor, "*b k e"],
        mask: Bool[Tensor, "..."] | None = None,
        query_position: Int[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "*b q k"]:
        """The weights under both masks."""
        visible = self._visible(query, key, mask, query_position)
        return self.attention.weights(query, key, visible, query_position)

    def forward(
        self,
        query: Float[Tensor, "*b q d"],
        key: Float[Tensor, "*b k e"],
        value: Float[Tensor, "*b k v"],
        mask: Bool[Tensor, "..."] | None = None,
        query_position: Int[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "*b q v"]:
        """The context by the attention inside, whose ``forward`` may be fused."""
        visible = self._visible(query, key, mask, query_position)
        return self.attention(query, key, value, visible, query_position)

    def _visible(
        self, query: Tensor, key: Tensor, mask: Tensor | None, position: Tensor | None
    ) -> Tensor:
        """The mask and the causal rule as one."""
        check_inputs(query, key)
        shape = (*query.shape[:-1], key.shape[-2])
        if mask is not None:
            check_mask(mask, shape)
        position = query_positions(query, shape[-1], position)
        return masks.with_mask(masks.causal(), mask, position, shape)
