"""One attention for each head of multi-head attention."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from companion._checks import (
    check_head_axis,
    check_independent,
    check_kind,
    check_positive,
)
from companion.attention.base import Attention
from companion.attention.types import Mask, Positions


class PerHead(Attention):
    """An attention of its own for each head, such as one pattern of positions a head.

    ::

        head_i = attention_i(q_i, k_i, v_i)

    Heads are the axis before the positions, as in
    :class:`~companion.attention.multihead.MultiHeadAttention`, whose inner attention it
    is made for. Each head needs keys and values of its own, of the same sizes as those of
    the others, so it cannot be in grouped-query attention.

    Args:
        attentions: one for each head, in their order. One attention may be used twice.

    Source: Child et al. 2019, section 4.2: several heads, each with a pattern.

    Example:
        >>> from companion.attention import PatternAttention, masks
        >>> patterns = [masks.strided_local(2), masks.strided_atrous(2)]
        >>> attention = PerHead(*(PatternAttention(rule, causal=True) for rule in patterns))
        >>> x = torch.randn(1, 2, 5, 4)
        >>> (attention.weights(x, x)[0, :, 4] > 0).int()
        tensor([[0, 0, 1, 1, 1],
                [1, 0, 1, 0, 1]], dtype=torch.int32)
    """

    def __init__(self, *attentions: Attention):
        super().__init__()
        check_positive(heads=len(attentions))
        for attention in attentions:
            check_kind(self, attention, Attention)
            because = "it passes on keys without gates"
            check_independent(self, attention, "gates", because=because)
        self.attentions: Any = nn.ModuleList(attentions)
        self.causal = all(x.causal for x in attentions)
        self.uses_query_position = any(x.uses_query_position for x in attentions)

    def project(
        self, source: Float[Tensor, "*b h k s"]
    ) -> tuple[Float[Tensor, "*b h k d"], Float[Tensor, "*b h k v"]]:
        """Key and value of each head, by its own attention."""
        check_head_axis(source, len(self.attentions), "source")
        heads = self._heads(source, None)
        pairs = [attention.project(x) for attention, (x, _) in heads]
        sizes = [(key.shape[-1], value.shape[-1]) for key, value in pairs]
        if len(set(sizes)) > 1:
            raise ValueError(
                f"all heads need keys and values of the same sizes, not {sizes}"
            )
        keys, values = zip(*pairs, strict=True)
        return torch.cat(keys, -3), torch.cat(values, -3)

    def score(
        self,
        query: Float[Tensor, "*b h q d"],
        key: Float[Tensor, "*b h k e"],
        query_position: Positions = None,
    ) -> Float[Tensor, "*b h q k"]:
        """The scores of each head."""
        heads = self._heads(query, key, query_position)
        return torch.cat([head.score_at(*inputs) for head, inputs in heads], -3)

    def compute_weights(
        self, query: Tensor, key: Tensor, mask: Mask, position: Positions
    ) -> Tensor:
        """Those of each head, by its own attention."""
        heads = self._heads(query, key, mask, position)
        return torch.cat([head.weights(*inputs) for head, inputs in heads], -3)

    def compute_context(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Mask, position: Positions
    ) -> Tensor:
        """That of each head, by its own attention."""
        heads = self._heads(query, key, value, mask, position)
        return torch.cat([head(*inputs) for head, inputs in heads], -3)

    def _heads(
        self, query: Tensor, *others: Tensor | None
    ) -> Iterator[tuple[Attention, tuple[Any, ...]]]:
        """Each attention with the inputs of its head, of which the last are query positions."""
        number = len(self.attentions)
        check_head_axis(query, number)
        *tensors, position = query, *others
        columns = [_split(x, number, -3) for x in tensors]
        rows = zip(*columns, _split(position, number, -2), strict=True)
        return zip(self.attentions, rows, strict=True)


def _split(x: Tensor | None, heads: int, axis: int) -> Sequence[Tensor | None]:
    """A tensor's slice for each head, or the whole for all where it has no heads."""
    if x is None or x.ndim < -axis or x.shape[axis] == 1:
        return heads * (x,)
    return x.split(1, axis)
