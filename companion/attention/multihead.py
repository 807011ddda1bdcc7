"""Multi-head attention: several attentions in parallel, each in its own projection."""

from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from companion._checks import (
    check_heads_divide,
    check_kind,
    check_mask,
    check_positive,
    check_projected,
)
from companion.attention.base import Attention, repeat_heads, show_settings
from companion.attention.causal import CausalAttention
from companion.attention.scores import ScaledDot
from companion.attention.types import Mask, Positions


class MultiHeadAttention(nn.Module):
    """Several attentions in parallel, each on its own linear projections of its inputs.

    ::

        MultiHead(Q, K, V) = [head_1; …; head_h] W_O
        head_i = attention(Q W_Q,i, K W_K,i, V W_V,i)

    With fewer key–value heads than heads, several heads share the keys and values of one:
    head i those of head ⌊i g / h⌋ of g. This is *grouped-query* attention, and with g = 1
    *multi-query* attention. A KV cache is then h/g times smaller.

    The heads are one more batch axis, so all of them are one operation, and any
    :class:`~companion.attention.base.Attention` can be inside. Its parameters, if it has
    any, are the same for all heads.

    Args:
        d_model: features of a query and of the output.
        heads: the number of heads, h.
        attention: what each head computes; scaled dot-product attention by default.
        source_size: features of the source; ``d_model`` by default.
        d_k, d_v: features of a head's queries and keys, and of its values; each is
            ``d_model / heads`` by default.
        key_value_heads: the number of heads of keys and values, g; by default h.

    Source: Vaswani et al. 2017, section 3.2.2; ``W_Q``, ``W_K`` and ``W_V`` contain the
    matrices of all heads side by side. Shazeer 2019 (g = 1) and Ainslie et al. 2023,
    section 2.2.
    Deviation: the paper has no biases; ours are initialised to zero, as those of PyTorch's
    ``nn.MultiheadAttention``, so that the two can exchange their weights.

    Example:
        >>> attention = MultiHeadAttention(d_model=8, heads=2)
        >>> x, source = torch.randn(1, 3, 8), torch.randn(1, 5, 8)
        >>> key, value = attention.project(source)
        >>> key.shape, attention(x, key, value).shape
        (torch.Size([1, 2, 5, 4]), torch.Size([1, 3, 8]))
    """

    def __init__(
        self,
        d_model: int,
        heads: int,
        attention: Attention | None = None,
        source_size: int | None = None,
        d_k: int | None = None,
        d_v: int | None = None,
        key_value_heads: int | None = None,
    ):
        super().__init__()
        source_size = d_model if source_size is None else source_size
        check_positive(d_model=d_model, heads=heads, source_size=source_size)
        d_k = _head_size("d_k", d_k, d_model, heads)
        d_v = _head_size("d_v", d_v, d_model, heads)
        groups = heads if key_value_heads is None else key_value_heads
        check_heads_divide(heads, groups)
        self.heads, self.key_value_heads = heads, groups
        self.W_Q = nn.Linear(d_model, heads * d_k)
        self.W_K = nn.Linear(source_size, groups * d_k)
        self.W_V = nn.Linear(source_size, groups * d_v)
        self.W_O = nn.Linear(heads * d_v, d_model)
        self.attention = ScaledDot() if attention is None else attention
        check_kind(self, self.attention, Attention)
        for linear in (self.W_Q, self.W_K, self.W_V, self.W_O):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)

    def project(
        self, source: Float[Tensor, "*b k s"]
    ) -> tuple[Float[Tensor, "*b g k d"], Float[Tensor, "*b g k v"]]:
        """The keys and values of all heads, computed once for all queries."""
        groups = self.key_value_heads
        key, _ = self.attention.project(split_heads(self.W_K(source), groups))
        return key, split_heads(self.W_V(source), groups)

    def weights(
        self,
        query: Float[Tensor, "*b q s"],
        key: Float[Tensor, "*b g k d"],
        mask: Mask = None,
        query_position: Positions = None,
    ) -> Float[Tensor, "*b h q k"]:
        """The attention weights of each head."""
        others = self._for_heads(query, key, mask, query_position)
        queries = split_heads(self.W_Q(query), self.heads)
        return self.attention.weights(queries, repeat_heads(queries, key), *others)

    def forward(
        self,
        query: Float[Tensor, "*b q s"],
        key: Float[Tensor, "*b g k d"],
        value: Float[Tensor, "*b g k v"],
        mask: Mask = None,
        query_position: Positions = None,
    ) -> Float[Tensor, "*b q s"]:
        """The output of all heads together, for each query.

        Where every key is masked, the heads return zeros, and the bias of ``W_O`` is left.

        Args:
            query: not yet projected.
            key, value: what :meth:`project` returned.
            mask: boolean, ``True`` = may attend; ``(*b, q, k)`` or ``(q, k)`` for all
                heads, or ``(*b, h, q, k)`` for each. Write a ``(q, k)`` mask for a batch
                as ``mask[None]``: with b = q, it is refused as ambiguous.
            query_position: the positions of the queries among the keys, ``(q,)`` or
                ``(*b, q)``.
        """
        others = self._for_heads(query, key, mask, query_position)
        queries = split_heads(self.W_Q(query), self.heads)  # (*b, h, q, d)
        key, value = repeat_heads(queries, key), repeat_heads(queries, value)
        return self.W_O(join_heads(self.attention(queries, key, value, *others)))

    def start(self, source: Float[Tensor, "b n s"]) -> Any:
        """The state of causal decoding before the first position.

        Args:
            source: any vectors of the right size, of which none is used; n may be 0.
        """
        return self.attention.start(*self.project(source[:, :0]))

    def extend(
        self, source: Float[Tensor, "b m s"], state: Any
    ) -> tuple[Float[Tensor, "b m s"], Any]:
        """The outputs of the next positions of a causal sequence, and the state after them.

        Args:
            source: the vectors of the next positions, which attend to themselves and to
                those before.
            state: what :meth:`start` or the last call returned.
        """
        key, value = self.project(source)
        queries = split_heads(self.W_Q(source), self.heads)
        context, state = self.attention.extend(queries, key, value, state)
        return self.W_O(join_heads(context)), state

    def extra_repr(self) -> str:
        """The numbers of heads, for ``print``."""
        if self.key_value_heads == self.heads:
            return show_settings(self, "heads")
        return show_settings(self, "heads", "key_value_heads")

    def _for_heads(
        self, query: Tensor, key: Tensor, mask: Mask, query_position: Positions
    ) -> tuple[Mask, Positions]:
        """Mask and positions with an axis for the heads, unless they broadcast or have one."""
        check_projected(query, key, self.key_value_heads)
        if query_position is not None and query_position.ndim > 1:
            query_position = query_position.unsqueeze(-2)
        if isinstance(mask, Tensor) and mask.ndim <= query.ndim:
            check_mask(mask, (*query.shape[:-1], key.shape[-2]))
            mask = mask if mask.ndim < query.ndim else mask.unsqueeze(-3)
        return mask, query_position

    @classmethod
    def from_torch(cls, other: nn.MultiheadAttention) -> "MultiHeadAttention":
        """The same attention as a PyTorch module's, with a copy of its weights.

        Its dropout is not copied. In PyTorch's boolean masks, ``True`` means masked, the
        opposite of ours.

        Raises:
            ValueError: its keys and values have different sizes, or it adds keys
                (``add_bias_kv``, ``add_zero_attn``).
        """
        if other.kdim != other.vdim or other.bias_k is not None or other.add_zero_attn:
            raise ValueError(
                f"keys and values must have one size, not {other.kdim} and {other.vdim}, "
                f"and none may be added: add_bias_kv is {other.bias_k is not None}, "
                f"add_zero_attn is {other.add_zero_attn}"
            )
        ours = cls(other.embed_dim, other.num_heads, source_size=other.kdim)
        ours.to(other.out_proj.weight)
        with torch.no_grad():
            for parameter, theirs in _pairs(ours, other):
                parameter.copy_(theirs)
        return ours

    def to_torch(self) -> nn.MultiheadAttention:
        """PyTorch's module with a copy of these weights, batch first.

        In its boolean masks, ``True`` means masked. It masks nothing by itself: the mask of
        :class:`~companion.attention.causal.CausalAttention` must be given at each call.

        Raises:
            TypeError: the attention inside is not scaled dot-product attention.
            ValueError: the sizes of the heads are not ``d_model / heads``, or heads share
                keys and values.
        """
        if type(self.attention) not in (ScaledDot, CausalAttention):
            raise TypeError(
                f"to_torch needs ScaledDot, not {type(self.attention).__name__}"
            )
        d_model, source_size = self.W_O.out_features, self.W_K.in_features
        sizes = {linear.out_features for linear in (self.W_Q, self.W_K, self.W_V)}
        if sizes != {d_model}:
            raise ValueError(
                f"to_torch needs heads whose keys, and values, have {d_model} features "
                f"together, not {self.W_K.out_features} and {self.W_V.out_features}"
            )
        other = nn.MultiheadAttention(
            d_model, self.heads, kdim=source_size, vdim=source_size, batch_first=True
        )
        other.to(self.W_O.weight)
        with torch.no_grad():
            for parameter, theirs in _pairs(self, other):
                theirs.copy_(parameter)
        return other


def _head_size(name: str, size: int | None, d_model: int, heads: int) -> int:
    """The features of one head: ``size``, or its part of ``d_model``."""
    if size is not None:
        check_positive(**{name: size})
        return size
    if d_model % heads:
        raise ValueError(f"d_model = {d_model} is not divisible by {heads} heads")
    return d_model // heads


def split_heads(
    features: Float[Tensor, "*b n hd"], heads: int
) -> Float[Tensor, "*b h n d"]:
    """The features of each head: views, because a decoding step would notice einops."""
    return features.unflatten(-1, (heads, -1)).transpose(-3, -2)


def join_heads(context: Float[Tensor, "*b h n d"]) -> Float[Tensor, "*b n hd"]:
    """The features of all heads, side by side."""
    return context.transpose(-3, -2).flatten(-2)


def _pairs(
    ours: MultiHeadAttention, other: nn.MultiheadAttention
) -> Iterator[tuple[Tensor, Tensor]]:
    """Each parameter of ours beside PyTorch's, which may pack three matrices into one."""
    linears = (ours.W_Q, ours.W_K, ours.W_V)
    if other.in_proj_weight is None:
        matrices: Any = (other.q_proj_weight, other.k_proj_weight, other.v_proj_weight)
    else:
        matrices = other.in_proj_weight.chunk(3)
    yield from zip((linear.weight for linear in linears), matrices, strict=True)
    yield ours.W_O.weight, other.out_proj.weight
    if other.in_proj_bias is not None:
        biases = other.in_proj_bias.chunk(3)
        yield from zip((linear.bias for linear in linears), biases, strict=True)
        yield ours.W_O.bias, other.out_proj.bias
