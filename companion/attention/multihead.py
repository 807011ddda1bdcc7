"""Multi-head attention: several small attentions beside each other, each with its own view of the words."""

from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from companion._checks import check_kind, check_mask, check_positive, check_size
from companion.attention.base import Attention
from companion.attention.scores import ScaledDot


class MultiHeadAttention(nn.Module):
    """Let h attentions look at once, each at a projection of its own, and join what they see.

    ::

        MultiHead(Q, K, V) = [head_1; …; head_h] W_O
        head_i = attention(Q W_Q,i, K W_K,i, V W_V,i),   each with d_model / heads features

    The heads are one more batch axis, so any :class:`~companion.attention.base.Attention` can be the one inside,
    and all heads are computed in one operation. It is used as an attention is::

        context = attend(query, *attend.project(source), mask)

    What the attention inside learns, all heads share; ScaledDot, the default, learns nothing.

    Source: Vaswani et al. 2017, section 3.2.2; W_Q, W_K and W_V hold the matrices of
    all heads side by side. Deviation: biases, zero at first, as in PyTorch's ``nn.MultiheadAttention``.

    Raises:
        ValueError: a size is below 1, or ``d_model`` cannot be divided among the heads.
        TypeError: the attention is no :class:`~companion.attention.base.Attention`.
    """

    def __init__(
        self,
        d_model: int,
        heads: int,
        attention: Attention | None = None,
        source_size: int | None = None,
    ):
        super().__init__()
        source_size = d_model if source_size is None else source_size
        check_positive(d_model=d_model, heads=heads, source_size=source_size)
        if d_model % heads:
            raise ValueError(f"{d_model} features cannot be divided among {heads} heads")
        self.heads = heads
        self.W_Q = nn.Linear(d_model, d_model)
        self.W_K = nn.Linear(source_size, d_model)
        self.W_V = nn.Linear(source_size, d_model)
        self.W_O = nn.Linear(d_model, d_model)
        self.attention = ScaledDot() if attention is None else attention
        check_kind(self, self.attention, Attention)
        for linear in (self.W_Q, self.W_K, self.W_V, self.W_O):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)

    def project(
        self, source: Float[Tensor, "*b k s"]
    ) -> tuple[Float[Tensor, "*b h k d"], Float[Tensor, "*b h k v"]]:
        """Each head's keys and values of a source, computed once however many queries follow."""
        check_size("source", source, self.W_K.in_features)
        key, _ = self.attention.project(self._split(self.W_K(source)))
        return key, self._split(self.W_V(source))

    def weights(
        self,
        query: Float[Tensor, "*b q s"],
        key: Float[Tensor, "*b h k d"],
        mask: Bool[Tensor, "..."] | None = None,
        query_position: Int[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "*b h q k"]:
        """The weights of each head; ``key`` is projected."""
        self._check_heads(query, key)
        return self.attention.weights(
            self._queries(query),
            key,
            self._for_heads(mask, query, key),
            _positions_for_heads(query_position),
        )

    def forward(
        self,
        query: Float[Tensor, "*b q s"],
        key: Float[Tensor, "*b h k d"],
        value: Float[Tensor, "*b h k v"],
        mask: Bool[Tensor, "..."] | None = None,
        query_position: Int[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "*b q s"]:
        """The joined contexts of each query; ``key`` and ``value`` are projected. All heads have one mask.

        A query that may attend to nothing finds zeros in every head, so that W_O leaves its bias alone.

        Raises:
            ValueError: sizes do not fit, the source is empty, or the mask does not fit ``(*b, q, k)``.
            TypeError: the mask is not boolean.
        """
        self._check_heads(query, key)
        context = self.attention(
            self._queries(query),
            key,
            value,
            self._for_heads(mask, query, key),
            _positions_for_heads(query_position),
        )
        return self.W_O(context.transpose(-3, -2).flatten(-2))

    def _queries(self, query: Float[Tensor, "*b q s"]) -> Float[Tensor, "*b h q d"]:
        check_size("query", query, self.W_Q.in_features)
        return self._split(self.W_Q(query))

    def _split(self, features: Float[Tensor, "*b n s"]) -> Float[Tensor, "*b h n d"]:
        return features.unflatten(-1, (self.heads, -1)).transpose(-3, -2)

    def _check_heads(self, query: Tensor, key: Tensor) -> None:
        if key.ndim != query.ndim + 1 or key.shape[-3] != self.heads:
            raise ValueError(
                f"keys of shape {tuple(key.shape)} do not fit {self.heads} heads and a query "
                f"of shape {tuple(query.shape)}: key and value are what project returned"
            )

    def _for_heads(
        self, mask: Tensor | None, query: Tensor, key: Tensor
    ) -> Tensor | None:
        """A mask for all heads with an axis for them; one a head, or for all, as it is."""
        if mask is None or mask.ndim > query.ndim:
            return mask  # what is wrong with it, the attention inside says
        check_mask(mask, (*query.shape[:-1], key.shape[-2]))
        return mask if mask.ndim < 3 else mask.unsqueeze(-3)

    @classmethod
    def from_torch(cls, other: nn.MultiheadAttention) -> "MultiHeadAttention":
        """The same attention as PyTorch's, with a copy of its weights; its dropout is left behind.

        PyTorch's masks say ``True`` where one may *not* attend; ours say the opposite.

        Raises:
            ValueError: its keys and values have different sizes, or it adds keys of its own (``add_bias_kv``,
                ``add_zero_attn``).
        """
        if other.kdim != other.vdim or other.bias_k is not None or other.add_zero_attn:
            raise ValueError(
                f"keys and values must have one size, not {other.kdim} and {other.vdim}, and none be added: "
                f"add_bias_kv is {other.bias_k is not None}, add_zero_attn is {other.add_zero_attn}"
            )
        ours = cls(other.embed_dim, other.num_heads, source_size=other.kdim).to(
            other.out_proj.weight
        )
        with torch.no_grad():
            for parameter, theirs in _pairs(ours, other):
                parameter.copy_(theirs)
        return ours

    def to_torch(self) -> nn.MultiheadAttention:
        """PyTorch's module with a copy of these weights, batch first. Its masks are the opposite of ours.

        Raises:
            TypeError: the attention inside is not scaled dot-product, which is all that PyTorch's computes.
        """
        if (
            type(self.attention) is not ScaledDot
        ):  # a pattern is a ScaledDot too, one that sees less
            raise TypeError(
                f"to_torch needs ScaledDot, not {type(self.attention).__name__}"
            )
        size, sources = self.W_O.in_features, self.W_K.in_features
        other = nn.MultiheadAttention(
            size, self.heads, kdim=sources, vdim=sources, batch_first=True
        )
        other.to(self.W_O.weight)
        with torch.no_grad():
            for parameter, theirs in _pairs(self, other):
                theirs.copy_(parameter)
        return other


def _positions_for_heads(position: Tensor | None) -> Tensor | None:
    return position if position is None or position.ndim < 2 else position.unsqueeze(-2)


def _pairs(
    ours: MultiHeadAttention, other: nn.MultiheadAttention
) -> Iterator[tuple[Tensor, Tensor]]:
    """Each parameter of ours beside PyTorch's, which packs three matrices of one size into one."""
    linears = (ours.W_Q, ours.W_K, ours.W_V)
    if other.in_proj_weight is None:
        matrices: Any = (other.q_proj_weight, other.k_proj_weight, other.v_proj_weight)
    else:
        matrices = other.in_proj_weight.chunk(3)
    yield from zip((linear.weight for linear in linears), matrices, strict=True)
    yield ours.W_O.weight, other.out_proj.weight
    if other.in_proj_bias is not None:
        yield from zip(
            (linear.bias for linear in linears),
            other.in_proj_bias.chunk(3),
            strict=True,
        )
        yield ours.W_O.bias, other.out_proj.bias
