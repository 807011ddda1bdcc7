"""Multi-head attention: several attentions in parallel, each in its own projection."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from companion._checks import (
    check_batch_first,
    check_heads_divide,
    check_independent,
    check_keywords,
    check_kind,
    check_mask,
    check_positive,
    check_projected,
)
from companion.attention.base import Attention, repeat_heads, show_settings
from companion.attention.causal import CausalAttention
from companion.attention.scores import ScaledDot
from companion.attention.types import Mask, Positions


class ManyHeads(nn.Module, ABC):
    """What all attentions of several heads have in common: a subclass says what a head gets.

    ::

        output = W_O [head_1; …; head_h],   head_i = attention(queries_i, keys_i, values_i)

    A subclass defines :meth:`project`, :meth:`for_heads` and :meth:`extend`, and has the
    modules ``attention`` and ``W_O``. A layer of a Transformer takes any of them as its
    ``attention``.
    """

    heads: int  #: the number of heads, h
    key_value_heads: int  #: the number of heads of what :meth:`project` returns, g
    attention: Any  #: what each head computes
    W_O: Any  #: the projection of all heads' contexts

    @abstractmethod
    def project(
        self, source: Float[Tensor, "*b k s"]
    ) -> tuple[Float[Tensor, "*b g k d"], Float[Tensor, "*b g k v"]]:
        """The keys and values of all heads, computed once for all queries."""

    @abstractmethod
    def for_heads(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Mask, position: Positions
    ) -> tuple[Any, ...]:
        """What the attention is given: with an axis for the heads, or broadcast to them."""

    @abstractmethod
    def extend(
        self, source: Float[Tensor, "b m s"], state: Any
    ) -> tuple[Float[Tensor, "b m s"], Any]:
        """The outputs of the next positions of a causal sequence, and the state after them.

        Args:
            source: the vectors of the next positions, which attend to themselves and to
                those before.
            state: what :meth:`start` or the last call returned.
        """

    def output(
        self, query: Float[Tensor, "*b q s"], context: Float[Tensor, "*b h q v"]
    ) -> Float[Tensor, "*b q s"]:
        """The output, from the contexts of all heads."""
        return self.W_O(join_heads(context))

    def weights(
        self,
        query: Float[Tensor, "*b q s"],
        key: Float[Tensor, "*b g k d"],
        mask: Mask = None,
        query_position: Positions = None,
    ) -> Float[Tensor, "*b h q k"]:
        """The attention weights of each head."""
        queries, key, _, *visible = self.for_heads(
            query, key, key, mask, query_position
        )
        return self.attention.weights(queries, key, *visible)

    def attend(
        self,
        query: Float[Tensor, "*b q s"],
        key: Float[Tensor, "*b g k d"],
        value: Float[Tensor, "*b g k v"],
        mask: Mask = None,
        query_position: Positions = None,
    ) -> tuple[Float[Tensor, "*b q s"], Float[Tensor, "*b h q k"]]:
        """The output, and the attention weights of each head."""
        inputs = self.for_heads(query, key, value, mask, query_position)
        context, weights = self.attention.attend(*inputs)
        return self.output(query, context), weights

    def forward(
        self,
        query: Float[Tensor, "*b q s"],
        key: Float[Tensor, "*b g k d"],
        value: Float[Tensor, "*b g k v"],
        mask: Mask = None,
        query_position: Positions = None,
        **others: Any,
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
            others: none, as of the attention.
        """
        check_keywords(self, others)
        inputs = self.for_heads(query, key, value, mask, query_position)
        return self.output(query, self.attention(*inputs))

    def start(self, source: Float[Tensor, "b n s"]) -> Any:
        """The state of causal decoding before the first position.

        Args:
            source: any vectors of the right size, of which none is used; n may be 0.
        """
        return self.attention.start(*self.project(source[:, :0]))

    def _for_all_heads(
        self, query: Tensor, key: Tensor, mask: Mask, position: Positions
    ) -> tuple[Mask, Positions]:
        """Mask and positions with an axis for the heads; keys must be what project returned."""
        check_projected(query, key, self.key_value_heads)
        if position is not None and position.ndim > 1:
            position = position.unsqueeze(-2)
        if isinstance(mask, Tensor) and mask.ndim <= query.ndim:
            check_mask(mask, (*query.shape[:-1], key.shape[-2]))
            mask = mask if mask.ndim < query.ndim else mask.unsqueeze(-3)
        return mask, position


class MultiHeadAttention(ManyHeads):
    """Several attentions in parallel, each on its own linear projections of its inputs.

    ::

        MultiHead(Q, K, V) = [head_1; …; head_h] W_O
        head_i = attention(Q W_Q,i, K W_K,i, V W_V,i)

    With fewer key–value heads than heads, several heads share the keys and values of one:
    head i those of head ⌊i g / h⌋ of g. This is *grouped-query* attention, and with g = 1
    *multi-query* attention. A KV cache is then h/g times smaller.

    The heads are one more batch axis, so all of them are one operation, and any
    :class:`~companion.attention.base.Attention` can be inside. Its parameters, if it has
    any, are the same for all heads. If it has gates, ``W_K`` makes them, with the keys.

    Args:
        d_model: features of a query and of the output.
        heads: the number of heads, h.
        attention: what each head computes; scaled dot-product attention by default.
        source_size: features of the source; ``d_model`` by default.
        d_k, d_v: features of a head's queries and keys, and of its values; each is
            ``d_model / heads`` by default.
        key_value_heads: the number of heads of keys and values, g; by default h.
        bias: whether the four projections add a bias.
        dropout: the probability that an attention weight becomes 0 in training, given to
            the attention by its :meth:`~companion.attention.base.Attention.set_dropout`;
            by default the attention's own.
        scale: that of the default attention; another one has its own.

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
        bias: bool = True,
        dropout: float | None = None,
        scale: float | None = None,
    ):
        super().__init__()
        source_size = d_model if source_size is None else source_size
        check_positive(d_model=d_model, heads=heads, source_size=source_size)
        d_k = head_size("d_k", d_k, d_model, heads)
        d_v = head_size("d_v", d_v, d_model, heads)
        groups = heads if key_value_heads is None else key_value_heads
        check_heads_divide(heads, groups)
        self.heads, self.key_value_heads = heads, groups
        self.W_Q = nn.Linear(d_model, heads * d_k, bias)
        gates = getattr(attention, "gates", 0)
        self.W_K = nn.Linear(source_size, groups * (d_k + gates), bias)
        self.W_V = nn.Linear(source_size, groups * d_v, bias)
        self.W_O = nn.Linear(heads * d_v, d_model, bias)
        if scale is not None and attention is not None:
            raise ValueError("give the scale to the attention, as ScaledDot(scale=0.1)")
        self.attention = ScaledDot(scale) if attention is None else attention
        check_kind(self, self.attention, Attention)
        if dropout is not None:
            self.attention.set_dropout(dropout)
        for linear in (self.W_Q, self.W_K, self.W_V, self.W_O):
            nn.init.xavier_uniform_(linear.weight)
            if bias:
                nn.init.zeros_(linear.bias)

    def project(
        self,
        source: Float[Tensor, "*b k s"],
        value_source: Float[Tensor, "*b k s"] | None = None,
    ) -> tuple[Float[Tensor, "*b g k d"], Float[Tensor, "*b g k v"]]:
        """The keys and values of all heads, computed once for all queries.

        Args:
            source: what the keys are made of.
            value_source: what the values are made of; by default the source.
        """
        groups = self.key_value_heads
        key, _ = self.attention.project(split_heads(self.W_K(source), groups))
        values = source if value_source is None else value_source
        return key, split_heads(self.W_V(values), groups)

    def extend(
        self, source: Float[Tensor, "b m s"], state: Any
    ) -> tuple[Float[Tensor, "b m s"], Any]:
        """As of :class:`ManyHeads`; the state is that of the attention."""
        key, value = self.project(source)
        queries = split_heads(self.W_Q(source), self.heads)
        context, state = self.attention.extend(queries, key, value, state)
        return self.output(source, context), state

    def extra_repr(self) -> str:
        """The numbers of heads, for ``print``."""
        if self.key_value_heads == self.heads:
            return show_settings(self, "heads")
        return show_settings(self, "heads", "key_value_heads")

    def for_heads(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Mask, position: Positions
    ) -> tuple[Any, ...]:
        """What the attention is given: with an axis for the heads, or broadcast to them."""
        visible = self._for_all_heads(query, key, mask, position)
        queries = split_heads(self.W_Q(query), self.heads)  # (*b, h, q, d)
        key, value = repeat_heads(queries, key), repeat_heads(queries, value)
        return queries, key, value, *visible

    @classmethod
    def from_torch(
        cls, other: nn.MultiheadAttention, attention: Attention | None = None
    ) -> Any:
        """The same attention as a PyTorch module's, with a copy of its weights.

        Ours has the batch first, and ``True`` in its masks means may attend, the opposite
        of PyTorch's.

        Args:
            other: with ``batch_first=True``. No weight depends on it, so a module built
                without it may be given ``other.batch_first = True``.
            attention: what each head computes; scaled dot-product attention by default.

        Raises:
            TypeError: it is no ``nn.MultiheadAttention``, or the attention has gates.
            ValueError: its inputs are sequence-first; its keys and values have different
                sizes, or it adds keys (``add_bias_kv``, ``add_zero_attn``).
        """
        check_batch_first(other, nn.MultiheadAttention)
        if other.kdim != other.vdim or other.bias_k is not None or other.add_zero_attn:
            raise ValueError(
                f"keys and values must have one size, not {other.kdim} and {other.vdim}, "
                f"and none may be added: add_bias_kv is {other.bias_k is not None}, "
                f"add_zero_attn is {other.add_zero_attn}"
            )
        sizes = other.embed_dim, other.num_heads, attention, other.kdim
        bias, dropout = other.in_proj_bias is not None, other.dropout or None
        ours = cls(*sizes, bias=bias, dropout=dropout).to(other.out_proj.weight)
        because = "PyTorch's weights make no gates"
        check_independent(ours, ours.attention, "gates", because=because)
        with torch.no_grad():
            for parameter, theirs in _parameter_pairs(ours, other):
                parameter.copy_(theirs)
        return ours.train(other.training)

    def to_torch(self) -> nn.MultiheadAttention:
        """PyTorch's module with a copy of these weights, batch first.

        In its boolean masks, ``True`` means masked. It masks nothing by itself: the mask of
        :class:`~companion.attention.causal.CausalAttention` must be given at each call.

        Raises:
            TypeError: the attention inside is not scaled dot-product attention.
            ValueError: the sizes of the heads are not ``d_model / heads``, heads share
                keys and values, or the scale is not 1/√d.
        """
        inside = self.attention
        if type(inside) not in (ScaledDot, CausalAttention):
            raise TypeError(f"to_torch needs ScaledDot, not {type(inside).__name__}")
        if inside.scale is not None:
            raise ValueError(f"to_torch needs the scale 1/√d, not {inside.scale}")
        d_model, source_size = self.W_O.out_features, self.W_K.in_features
        sizes = {linear.out_features for linear in (self.W_Q, self.W_K, self.W_V)}
        if sizes != {d_model}:
            raise ValueError(
                f"to_torch needs heads whose keys, and values, have {d_model} features "
                f"together, not {self.W_K.out_features} and {self.W_V.out_features}"
            )
        bias = self.W_O.bias is not None
        options: Any = {"kdim": source_size, "vdim": source_size, "batch_first": True}
        other = nn.MultiheadAttention(
            d_model, self.heads, inside.dropout, bias, **options
        ).to(self.W_O.weight)
        with torch.no_grad():
            for parameter, theirs in _parameter_pairs(self, other):
                theirs.copy_(parameter)
        return other.train(self.training)


class SelfAttention(MultiHeadAttention):
    """Multi-head attention of a sequence to itself: vectors in, vectors out.

    ::

        y = MultiHead(x, x, x)

    It is causal if the attention inside is, as
    :class:`~companion.attention.causal.CausalAttention`, and then decodes by ``start``
    and ``extend``.

    Its arguments are those of :class:`MultiHeadAttention`, whose source is the same x.

    Source: Vaswani et al. 2017, section 3.2.3.

    Example:
        >>> attention = SelfAttention(8, heads=2, attention=CausalAttention(), bias=False)
        >>> attention(torch.randn(1, 5, 8)).shape
        torch.Size([1, 5, 8])
    """

    def forward(  # type: ignore[override]
        self, x: Float[Tensor, "*b n s"], mask: Mask = None, **others: Any
    ) -> Float[Tensor, "*b n s"]:
        """The output at each position; the mask is as of :class:`MultiHeadAttention`."""
        return super().forward(x, *self.project(x), mask, **others)


def head_size(name: str, size: int | None, d_model: int, heads: int) -> int:
    """The features of one head: ``size``, or its part of ``d_model``."""
    if size is None and d_model % heads:
        raise ValueError(f"d_model = {d_model} is not divisible by {heads} heads")
    size = d_model // heads if size is None else size
    check_positive(**{name: size})
    return size


def split_heads(
    features: Float[Tensor, "*b n hd"], heads: int
) -> Float[Tensor, "*b h n d"]:
    """The features of each head: views, because a decoding step would notice einops."""
    return features.unflatten(-1, (heads, -1)).transpose(-3, -2)


def join_heads(context: Float[Tensor, "*b h n d"]) -> Float[Tensor, "*b n hd"]:
    """The features of all heads, side by side."""
    return context.transpose(-3, -2).flatten(-2)


def _parameter_pairs(
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
