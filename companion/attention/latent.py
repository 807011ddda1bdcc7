"""Multi-head latent attention (DeepSeek-V2): the cache has one small vector for all keys and values."""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from companion._checks import (
    check_continues,
    check_even,
    check_positive,
    query_positions,
)
from companion.attention.base import show_settings
from companion.attention.cache import KVCache
from companion.attention.causal import CausalAttention
from companion.attention.multihead import ManyHeads, head_size, split_heads
from companion.attention.rotary import as_numbers, next_positions, rotate
from companion.attention.types import Mask, Positions


class LatentAttention(ManyHeads):
    """Causal attention whose keys and values are computed from one latent vector a position.

    ::

        c_j = W_DKV x_j,   r_j = R_j W_KR x_j                 (what is cached)
        k_j,a = [W_UK,a c_j; r_j],   v_j,a = W_UV,a c_j       (head a)
        q_i,a = [W_UQ,a x_i; R_i W_QR,a x_i]
        e_ij,a = q_i,aᵀ k_j,a / √(d_k + d_R)

    R_j rotates by position, see :func:`~companion.attention.rotary.rotate`. All heads
    share the rotated key r_j. :meth:`project` returns one head of keys, [c; r], and of
    values, c, so the attention is *multi-query attention* with larger heads. A step of
    decoding computes it like that, and writes no keys or values of single heads:

    ::

        e_ij,a ∝ [W_UK,aᵀ W_UQ,a x_i; R_i W_QR,a x_i]ᵀ [c_j; r_j],   head_a = W_UV,a Σ_j α_ij c_j

    Several positions at once are computed with the keys and values of each head, which
    takes fewer multiplications for them.

    Args:
        d_model: features of a position and of the output.
        heads: the number of heads, h.
        latent_size: features of c.
        rotary_size: features of a rotated key, d_R; an even number.
        d_k, d_v: features of the other part of a head's keys, and of its values; each is
            ``d_model / heads`` by default.
        query_latent_size: queries are computed from a latent vector W_DQ x of this size;
            by default from x.
        base, frequencies: of the rotation, as of
            :class:`~companion.attention.rotary.Rotary`.
        scale: what the dot products are multiplied by, instead of 1/√(d_k + d_R).

    Source: DeepSeek-AI 2024 (DeepSeek-V2), section 2.1, equations (9) to (19).
    Deviation: the code of the model also normalises c and the latent vector of the
    queries; here, as in the equations, nothing is.

    Example:
        >>> attention = LatentAttention(d_model=8, heads=2, latent_size=3, rotary_size=2)
        >>> x = torch.randn(1, 5, 8)
        >>> output, cache = attention.extend(x, attention.start(x))
        >>> output.shape, sum(x.numel() for x in cache)
        (torch.Size([1, 5, 8]), 25)
    """

    key_value_heads = 1

    def __init__(
        self,
        d_model: int,
        heads: int,
        latent_size: int,
        rotary_size: int,
        d_k: int | None = None,
        d_v: int | None = None,
        query_latent_size: int | None = None,
        base: float = 10000.0,
        frequencies: Sequence[float] | Float[Tensor, " t"] | None = None,
        scale: float | None = None,
    ):
        super().__init__()
        check_positive(d_model=d_model, heads=heads, latent_size=latent_size)
        check_even(rotary_size=rotary_size)
        d_k = head_size("d_k", d_k, d_model, heads)
        d_v = head_size("d_v", d_v, d_model, heads)
        self.heads, self.latent_size, self.rotary_size = heads, latent_size, rotary_size
        self.base, self.frequencies = base, as_numbers(frequencies)
        from_size = d_model if query_latent_size is None else query_latent_size
        self.W_DQ: nn.Module = nn.Identity()
        if query_latent_size is not None:
            self.W_DQ = _linear(d_model, query_latent_size)
        self.W_UQ = _linear(from_size, heads * d_k)
        self.W_QR = _linear(from_size, heads * rotary_size)
        self.W_DKV = _linear(d_model, latent_size)
        self.W_KR = _linear(d_model, rotary_size)
        self.W_UK = _linear(latent_size, heads * d_k)
        self.W_UV = _linear(latent_size, heads * d_v)
        self.W_O = _linear(heads * d_v, d_model)
        scale = (d_k + rotary_size) ** -0.5 if scale is None else scale
        self.attention = CausalAttention(scale)

    def project(
        self, source: Float[Tensor, "*b k s"]
    ) -> tuple[Float[Tensor, "*b 1 k d"], Float[Tensor, "*b 1 k c"]]:
        """What is cached, [c; r], as keys of one head, and c, a part of it, as values."""
        position = torch.arange(source.shape[-2], device=source.device)
        key = self._cached(source, position)
        return key, key[..., : self.latent_size]

    def start(self, source: Float[Tensor, "b n s"]) -> KVCache:
        """A KV cache of one head, whose keys are [c; r] and whose values have no features."""
        key, _ = self.project(source[:, :0])
        return KVCache(key, key[..., :0])

    def extend(
        self, source: Float[Tensor, "b m s"], state: KVCache
    ) -> tuple[Float[Tensor, "b m s"], KVCache]:
        """As of :class:`~companion.attention.multihead.ManyHeads`."""
        position = next_positions(source, getattr(state, "seen", 0))
        new = self._cached(source, position)
        check_continues(self.attention, state, new, new, new[..., :0])
        state = state.extended(new, new[..., :0])
        content, rotated = self._queries(source, position)
        if source.shape[1] == 1 and _is_plain(self.W_UK) and _is_plain(self.W_UV):
            return self.output(source, self._absorbed(content, rotated, state)), state
        key, value = self._keys_and_values(state.key, state.key)
        queries = torch.cat([content, rotated], -1)
        return self.output(source, self.attention(queries, key, value)), state

    def for_heads(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Mask, position: Positions
    ) -> tuple[Any, ...]:
        """Queries, and the keys and values of each head, computed from the latent vectors."""
        visible = self._for_all_heads(query, key, mask, position)
        at = query_positions(query, key.shape[-2], position)
        at = at if at.ndim == 1 else at.unsqueeze(-2)  # (*b, 1, q)
        content, rotated = self._queries(query, at)
        keys, values = self._keys_and_values(key, value)
        return torch.cat([content, rotated], -1), keys, values, *visible

    def extra_repr(self) -> str:
        """The sizes, for ``print``."""
        return show_settings(self, "heads", "latent_size", "rotary_size")

    def _cached(
        self, source: Tensor, position: Int[Tensor, "..."]
    ) -> Float[Tensor, "*b 1 k d"]:
        """[c; r] of the vectors at these positions."""
        rotated = rotate(self.W_KR(source), position, self.base, self.frequencies)
        return torch.cat([self.W_DKV(source), rotated], -1).unsqueeze(-3)

    def _queries(
        self, query: Tensor, position: Int[Tensor, "..."]
    ) -> tuple[Float[Tensor, "*b h q d"], Float[Tensor, "*b h q r"]]:
        """The two parts of the queries of all heads."""
        latent = self.W_DQ(query)
        rotated = split_heads(self.W_QR(latent), self.heads)
        return (
            split_heads(self.W_UQ(latent), self.heads),
            rotate(rotated, position, self.base, self.frequencies),
        )

    def _keys_and_values(
        self, key: Tensor, value: Tensor
    ) -> tuple[Float[Tensor, "*b h k d"], Float[Tensor, "*b h k v"]]:
        """Those of all heads."""
        latent, rotated = key.split([self.latent_size, self.rotary_size], -1)
        keys = split_heads(self.W_UK(latent.squeeze(-3)), self.heads)
        latent = value[..., : self.latent_size].squeeze(-3)
        return (
            torch.cat([keys, rotated.expand(*keys.shape[:-1], -1)], -1),
            split_heads(self.W_UV(latent), self.heads),
        )

    def _absorbed(
        self, content: Tensor, rotated: Tensor, state: KVCache
    ) -> Float[Tensor, "b h 1 v"]:
        """The contexts of one position, from queries that were multiplied by W_UKᵀ."""
        W_UK, W_UV = (  # (h, d, c)
            matrix.weight.unflatten(0, (self.heads, -1))
            for matrix in (self.W_UK, self.W_UV)
        )
        queries = torch.cat([content @ W_UK, rotated], -1)  # (b, h, 1, c + r)
        latent = self.attention.last_contexts(
            queries, state.key, state.key[..., : self.latent_size]
        )
        return latent @ W_UV.mT


def _linear(inputs: int, outputs: int) -> nn.Linear:
    """A projection without bias, initialised as those of multi-head attention."""
    linear = nn.Linear(inputs, outputs, bias=False)
    nn.init.xavier_uniform_(linear.weight)
    return linear


def _is_plain(linear: nn.Module) -> bool:
    """Whether a module is no more than its matrix: no adapter, no 8 bits, no hook."""
    hooks = linear._forward_hooks or linear._forward_pre_hooks
    return type(linear) is nn.Linear and linear.bias is None and not hooks
