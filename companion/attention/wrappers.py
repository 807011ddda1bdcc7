"""Attention modules that wrap another one: what rotations, norms, windows and noise have in common."""

from abc import ABC, abstractmethod
from typing import Any

from jaxtyping import Float
from torch import Tensor

from companion._checks import check_independent, check_kind
from companion.attention.base import Attention
from companion.attention.types import Mask, Positions


class Wrapper(Attention, ABC):
    """An attention that uses another one: by default its keys, its values and its scores."""

    def __init__(self, attention: Attention):
        super().__init__()
        check_kind(self, attention, Attention)
        self.attention = attention
        self.gates = attention.gates
        self.causal |= attention.causal
        self.uses_query_position |= attention.uses_query_position

    def project(
        self, source: Float[Tensor, "*b k s"]
    ) -> tuple[Float[Tensor, "*b k d"], Float[Tensor, "*b k v"]]:
        """Key and value by the attention inside."""
        return self.attention.project(source)

    def score(
        self,
        query: Float[Tensor, "*b q d"],
        key: Float[Tensor, "*c k e"],
        query_position: Positions = None,
    ) -> Float[Tensor, "*b q k"]:
        """The scores of the attention inside."""
        return self.attention.score_at(query, key, query_position)


class Prepared(Wrapper, ABC):
    """An attention to transformed queries and keys: a subclass defines :meth:`prepare`.

    ::

        attention(f(q), g(k), v)

    The attention inside stays what it is, with its rule, its fused ``forward`` and what it
    keeps while decoding.
    """

    def __init__(self, attention: Attention):
        super().__init__(attention)
        because = "it would transform the gates too"
        check_independent(self, attention, "gates", because=because)
        self.state_type = attention.state_type

    def set_dropout(self, probability: float) -> None:
        """Drop weights of the attention inside."""
        self.attention.set_dropout(probability)

    @abstractmethod
    def prepare(
        self,
        query: Float[Tensor, "*b q d"],
        key: Float[Tensor, "*c k e"],
        query_position: Positions,
    ) -> tuple[Float[Tensor, "*b q d"], Float[Tensor, "*c k e"]]:
        """The query and the key that the attention inside gets."""

    def score(
        self,
        query: Float[Tensor, "*b q d"],
        key: Float[Tensor, "*c k e"],
        query_position: Positions = None,
    ) -> Float[Tensor, "*b q k"]:
        """The scores of the transformed queries and keys."""
        prepared = self.prepare(query, key, query_position)
        return super().score(*prepared, query_position)

    def compute_weights(
        self, query: Tensor, key: Tensor, mask: Mask, position: Positions
    ) -> Tensor:
        """Those of the attention inside, for transformed queries and keys."""
        query, key = self.prepare(query, key, position)
        return self.attention.weights(query, key, mask, position)

    def compute_context(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Mask, position: Positions
    ) -> Tensor:
        """That of the attention inside, for transformed queries and keys."""
        query, key = self.prepare(query, key, position)
        return self.attention(query, key, value, mask, position)

    def start(
        self, key: Float[Tensor, "b *g n e"], value: Float[Tensor, "b *g n v"]
    ) -> Any:
        """The state of the attention inside."""
        return self.attention.start(key, value)

    def forget(self, cache: Any) -> Any:
        """What the attention inside keeps."""
        return self.attention.forget(cache)
