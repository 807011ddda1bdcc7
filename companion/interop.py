"""Our attentions in the code of others: PyTorch's layers, and models of ``transformers``."""

import copy
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.functional import dropout as dropped

from companion._checks import check_rows, needs_extra
from companion.attention.base import Attention, repeat_heads
from companion.attention.causal import Causal, CausalAttention
from companion.attention.multihead import MultiHeadAttention
from companion.attention.scores import ScaledDot
from companion.attention.types import Mask


class TorchMultiheadAttention(nn.Module):
    """Multi-head attention that is called as ``nn.MultiheadAttention``, with any attention inside.

    It has PyTorch's arguments, results, initialisation and masks, in which ``True`` means
    masked, and can be the ``self_attn`` of PyTorch's Transformer layers. The module
    that computes, :class:`~companion.attention.multihead.MultiHeadAttention`, is ``inner``.

    Args:
        arguments, options: those of ``nn.MultiheadAttention``.
        attention: what each head computes; scaled dot-product attention by default.

    Raises:
        ValueError: PyTorch's module would add keys, or its keys and values have different
            sizes; in a call, a mask adds numbers other than 0 and −∞, or has a shape that
            PyTorch's module refuses.

    Deviation: a query that may attend to no key gets the bias of the last projection,
    where PyTorch's output is NaN.

    Example:
        >>> from companion.attention import LocalAttention
        >>> layer = nn.TransformerEncoderLayer(8, nhead=2, batch_first=True)
        >>> layer.self_attn = TorchMultiheadAttention.from_torch(
        ...     layer.self_attn, LocalAttention(64)
        ... )
        >>> layer(torch.randn(1, 5, 8)).shape
        torch.Size([1, 5, 8])
    """

    _qkv_same_embed_dim = False  # keeps PyTorch's layers from computing without us

    def __init__(
        self, *arguments: Any, attention: Attention | None = None, **options: Any
    ):
        super().__init__()
        self._take_over(nn.MultiheadAttention(*arguments, **options), attention)

    def _take_over(
        self, other: nn.MultiheadAttention, attention: Attention | None
    ) -> Any:
        self.embed_dim, self.num_heads = other.embed_dim, other.num_heads
        self.batch_first = other.batch_first
        batched = copy.copy(other)
        batched.batch_first = True  # forward transposes
        self.inner = MultiHeadAttention.from_torch(batched, attention)
        return self.train(other.training)

    @classmethod
    def from_torch(
        cls, other: nn.MultiheadAttention, attention: Attention | None = None
    ) -> Any:
        """The same as a module of PyTorch's, with a copy of its weights."""
        ours = cls(other.embed_dim, other.num_heads, device="meta")
        return ours._take_over(other, attention)

    def forward(
        self,
        query: Float[Tensor, "*a q s"],
        key: Float[Tensor, "*b k t"],
        value: Float[Tensor, "*b k t"],
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Output and weights as PyTorch's, of a batch or, with two axes, of one sequence.

        ``is_causal`` only says that ``attn_mask`` is causal, and changes nothing.
        """
        if query.is_nested:
            raise ValueError(
                "nn.TransformerEncoder packed its batch into a nested tensor: build it with "
                "enable_nested_tensor=False, or set its use_nested_tensor to False"
            )
        if is_causal and attn_mask is None and not self.inner.attention.causal:
            raise ValueError(
                "is_causal needs the causal attn_mask, or CausalAttention()"
            )
        batched = query.ndim == 3
        if not batched:
            query, key, value = (x[None] for x in (query, key, value))
            if key_padding_mask is not None:
                key_padding_mask = key_padding_mask[None]
        elif not self.batch_first:
            query, key, value = (x.transpose(0, 1) for x in (query, key, value))
        sizes = *query.shape[:2], key.shape[1]
        mask = self._mask(key_padding_mask, attn_mask, *sizes)
        projected = self.inner.project(key, value)
        weights = None
        if need_weights:
            output, weights = self.inner.attend(query, *projected, mask)
            weights = weights.mean(1) if average_attn_weights else weights
        else:
            output = self.inner(query, *projected, mask)
        if not batched:
            return output[0], None if weights is None else weights[0]
        return output if self.batch_first else output.transpose(0, 1), weights

    def _mask(
        self, padding: Tensor | None, pairs: Tensor | None, b: int, q: int, k: int
    ) -> Mask:
        """Padding ``(b, k)`` and pairs ``(q, k)``, or of each head, as one of our masks."""
        mask = None
        if padding is not None:
            _check_shape("key_padding_mask", padding, (b, k))
            mask = _visible(padding, "key_padding_mask")[:, None, None]
        if pairs is not None:
            _check_shape("attn_mask", pairs, (q, k), (b * self.num_heads, q, k))
            heads = self.num_heads if pairs.ndim == 3 else 1
            visible = _visible(pairs, "attn_mask").view(-1, heads, q, k)
            mask = visible if mask is None else mask & visible
        return mask

    # What PyTorch's layers read of their attention

    @property
    def in_proj_bias(self) -> Tensor | None:
        """The bias of the queries; PyTorch asks only whether there is one."""
        return self.inner.W_Q.bias

    @property
    def in_proj_weight(self) -> Tensor:
        """A weight that keeps PyTorch's encoder from packing its batch into a nested tensor."""
        return self.inner.W_Q.weight.as_subclass(_Foreign)

    @property
    def out_proj(self) -> nn.Linear:
        """The last projection."""
        return self.inner.W_O


class _Foreign(Tensor):
    """A tensor by which PyTorch's fused encoder knows that it cannot compute this layer."""


def _check_shape(name: str, mask: Tensor, *shapes: tuple[int, ...]) -> None:
    """Refuse a mask of a shape that is none of PyTorch's."""
    if mask.shape not in shapes:
        wanted = " or ".join(map(str, shapes))
        raise ValueError(f"{name} needs the shape {wanted}, not {tuple(mask.shape)}")


def _visible(mask: Tensor, name: str) -> Bool[Tensor, "..."]:
    """``True`` where a mask of PyTorch's, boolean or added to the scores, masks nothing."""
    if mask.dtype == torch.bool:
        return ~mask
    if not mask.is_floating_point():
        raise TypeError(f"{name} must be boolean or floating-point, not {mask.dtype}")
    visible = mask == 0
    sound = (visible | (mask <= torch.finfo(mask.dtype).min)).flatten(1).all(1)
    check_rows(sound, name, mask.shape, "add numbers other than 0 and −∞ to the scores")
    return visible


#: Arguments by which models of ``transformers`` change the scores.
_CHANGES = ("softcap", "s_aux", "position_bias")


def register(name: str, attention: Attention) -> None:
    """Make an attention an implementation of ``transformers``, and its masks boolean ones.

    A model with ``attn_implementation=name`` then computes with it, under the model's own
    mask: causal or not, padding on either side, windows, packed texts. Where there is no
    padding and no cache, a causal mask is left to the attention, whose fast kernel then
    runs. The scale, grouped heads and dropout are the model's.

    Args:
        name: as in ``AutoModelForCausalLM.from_pretrained(…, attn_implementation=name)``.
        attention: without parameters, which would not be the model's, and without gates.

    Raises:
        ValueError: the attention has parameters or gates; in a call, the queries are not at the
            last of the keys, as with a static cache or in attention to another sequence,
            and the attention needs positions.
        NotImplementedError: in a call, the model adds something to its scores, or caps
            them.

    Example:
        >>> from companion.attention import LocalAttention
        >>> register("local64", LocalAttention(64))  # doctest: +SKIP
    """
    with needs_extra("all"):
        from transformers import AttentionInterface, AttentionMaskInterface
        from transformers.masking_utils import sdpa_mask

    if next(attention.parameters(), None) is not None:
        raise ValueError(
            f"{type(attention).__name__} has parameters, which would not be the model's"
        )
    if attention.gates:
        raise ValueError(
            f"{type(attention).__name__} has gates, which the model does not compute"
        )
    ours = _Implementation(name, attention, sdpa_mask)
    AttentionInterface.register(name, ours.attend)
    AttentionMaskInterface.register(name, ours.mask)


class _Implementation:
    """An attention in the two forms that models of ``transformers`` call.

    ``model_mask`` makes boolean masks of what a model asks for, or ``None`` where causality
    is all of it.
    """

    def __init__(self, name: str, attention: Attention, model_mask: Callable[..., Any]):
        self.name, self.attention, self.model_mask = name, attention, model_mask
        self.causal = _as_causal(attention)
        scales = [x.scale for x in attention.modules() if hasattr(x, "scale")]
        self.takes_scale = scales != [] and not any(scales)

    def mask(self, **sizes: Any) -> Any:
        """The model's mask; refused where it hides that the queries are not the last."""
        visible = self.model_mask(**sizes)
        queries, keys = (
            int(sizes.get(f"{x}_offset", 0)) + sizes[f"{x}_length"] for x in ("q", "kv")
        )
        if visible is not None:
            self._check_last(queries, keys)
        return visible

    def _check_last(self, queries: int, keys: int) -> None:
        """Refuse queries that are not at the last of the keys, if positions are needed."""
        if queries != keys and self.attention.uses_query_position:
            raise ValueError(
                f"{type(self.attention).__name__} needs queries at the last of the keys, not "
                f"at {queries} of {keys}, as with a static cache or in attention to another "
                f"sequence: use the default cache, or register ScaledDot(), for which the "
                f"model's mask is enough"
            )

    def attend(
        self,
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Tensor | None,
        scaling: float | None = None,
        dropout: float = 0.0,
        is_causal: bool | None = None,
        **others: Any,
    ) -> tuple[Tensor, None]:
        """The contexts, heads behind positions; weights are not returned."""
        for changed in _CHANGES:
            if others.get(changed) is not None:
                raise NotImplementedError(
                    f"{self.name} has no {changed}, which the model needs"
                )
        inside, length = self.attention, query.shape[-2]
        if attention_mask is not None and attention_mask.dtype != torch.bool:
            attention_mask = _visible(attention_mask, "attention_mask")
        if is_causal is None:
            is_causal = getattr(module, "is_causal", True)
        if not getattr(module, "is_causal", True):  # perhaps of another sequence
            self._check_last(length, key.shape[-2])
        if attention_mask is None and is_causal and length > 1:
            inside = self.causal  # further keys are the empty places of a static cache
            key, value = key[..., :length, :], value[..., :length, :]
        if scaling is not None and self.takes_scale:
            query = query * (scaling * query.shape[-1] ** 0.5)  # instead of 1/√d
        key, value = repeat_heads(query, key), repeat_heads(query, value)
        if dropout:
            weights = inside.weights(query, key, attention_mask)
            context = dropped(weights, dropout) @ value
        else:
            context = inside(query, key, value, attention_mask)
        return context.transpose(1, 2).contiguous(), None


def _as_causal(attention: Attention) -> Attention:
    """The attention under the causal mask, in the fastest way."""
    if attention.causal:
        return attention
    if type(attention) is ScaledDot:
        return CausalAttention(attention.scale)
    if "causal" in attention.settings:  # a pattern, which is built from its settings
        settings = {x: getattr(attention, x) for x in attention.settings}
        return type(attention)(**settings | {"causal": True})
    return Causal(attention)
