"""Attention whose queries and keys are transformed first: what rotations and norms have in common."""

from abc import ABC, abstractmethod
from typing import Any

from jaxtyping import Bool, Float, Int
from torch import Tensor

from companion._checks import check_inputs, check_kind
from companion.attention.base import Attention


class Prepared(Attention, ABC):
    """An attention to transformed queries and keys: a subclass defines :meth:`prepare`.

    ::

        attention(f(q), g(k), v)

    The attention inside stays what it is, with its rule, its fused ``forward`` and what it
    keeps while decoding.

    Args:
        attention: what is computed with the transformed queries and keys.

    Raises:
        TypeError: ``attention`` is no :class:`~companion.attention.base.Attention`.
    """

    def __init__(self, attention: Attention):
        super().__init__()
        check_kind(self, attention, Attention)
        self.attention = attention
        self.causal = attention.causal
        self.state_type = attention.state_type
        self.uses_query_position = attention.uses_query_position
        self.uses_key_position = attention.uses_key_position
        self.has_own_mask = attention.has_own_mask

    @abstractmethod
    def prepare(
        self,
        query: Float[Tensor, "*b q d"],
        key: Float[Tensor, "*c k e"],
        query_position: Int[Tensor, "..."] | None,
    ) -> tuple[Float[Tensor, "*b q d"], Float[Tensor, "*c k e"]]:
        """The query and the key that the attention inside gets."""

    def project(
        self, source: Float[Tensor, "*b k s"]
    ) -> tuple[Float[Tensor, "*b k d"], Float[Tensor, "*b k v"]]:
        """Key and value by the attention inside."""
        return self.attention.project(source)

    def score(
        self,
        query: Float[Tensor, "*b q d"],
        key: Float[Tensor, "*c k e"],
        query_position: Int[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "*b q k"]:
        """The scores of the transformed queries and keys."""
        query, key = self.prepare(query, key, query_position)
        return self.attention.score_at(query, key, query_position)

    def weights(
        self,
        query: Float[Tensor, "*b q d"],
        key: Float[Tensor, "*c k e"],
        mask: Bool[Tensor, "..."] | None = None,
        query_position: Int[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "*b q k"]:
        """The weights of the attention inside."""
        check_inputs(query, key)
        query, key = self.prepare(query, key, query_position)
        return self.attention.weights(query, key, mask, query_position)

    def forward(
        self,
        query: Float[Tensor, "*b q d"],
        key: Float[Tensor, "*c k e"],
        value: Float[Tensor, "*b k v"],
        mask: Bool[Tensor, "..."] | None = None,
        query_position: Int[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "*b q v"]:
        """The context by the attention inside, whose ``forward`` may be fused."""
        check_inputs(query, key, value)
        query, key = self.prepare(query, key, query_position)
        return self.attention(query, key, value, mask, query_position)

    def forward_grouped(
        self,
        query: Float[Tensor, "*b h q d"],
        key: Float[Tensor, "*b g k e"],
        value: Float[Tensor, "*b g k v"],
        mask: Bool[Tensor, "..."] | None = None,
        query_position: Int[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "*b h q v"]:
        """:meth:`forward` with shared key–value heads, which are transformed once."""
        query, key = self.prepare(query, key, query_position)
        return self.attention.forward_grouped(query, key, value, mask, query_position)

    def start(
        self, key: Float[Tensor, "b *g n e"], value: Float[Tensor, "b *g n v"]
    ) -> Any:
        """The state of the attention inside."""
        return self.attention.start(key, value)

    def forget(self, cache: Any) -> Any:
        """What the attention inside keeps."""
        return self.attention.forget(cache)
