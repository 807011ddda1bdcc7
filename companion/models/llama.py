"""The layer of today's language models, as in Llama: what changed since 2017, put together."""

from typing import Any

from torch import nn

from companion.attention.base import Attention
from companion.attention.causal import CausalAttention
from companion.attention.multihead import ManyHeads
from companion.attention.rotary import Rotary
from companion.layers.feed_forward import SwiGLU
from companion.layers.residual import PreRMSNorm
from companion.models.transformer import CausalTransformerLayer


class LlamaLayer(CausalTransformerLayer):
    """A layer of Llama: rotary positions, grouped heads, a gated network, RMS norms before both.

    ::

        x ← x + GroupedQuery(RMSNorm(x))
        x ← x + SwiGLU(RMSNorm(x))

    For a :class:`~companion.models.language_model.LanguageModel`, whose ``position`` is
    then :class:`~companion.layers.positional_encoding.NoPositionalEncoding`.

    Args:
        d_model: features of each position.
        heads: number of heads, which divides ``d_model``.
        d_ff: features of the feed-forward network's hidden layer.
        key_value_heads: number of heads of keys and values; by default as many as heads.
        attention: what each head computes; by default causal attention with rotary
            position embeddings. Or an attention of as many heads, such as
            :class:`~companion.attention.latent.LatentAttention` or
            :class:`~companion.attention.gated.GatedAttention`.

    Source: Touvron et al. 2023a (LLaMA), section 2.2; grouped heads as in Touvron et al.
    2023b (Llama 2), section 2.2.
    Deviation: their projections have no biases; ours are initialised to zero.

    Example:
        >>> layer = LlamaLayer(d_model=8, heads=4, d_ff=20, key_value_heads=2)
        >>> layer(torch.randn(2, 5, 8)).shape
        torch.Size([2, 5, 8])
    """

    def __init__(
        self,
        d_model: int,
        heads: int,
        d_ff: int,
        key_value_heads: int | None = None,
        attention: Attention | ManyHeads | None = None,
    ):
        inner = Rotary(CausalAttention()) if attention is None else attention
        super().__init__(
            d_model,
            heads,
            dropout=0.0,
            attention=inner,
            residual=PreRMSNorm,
            key_value_heads=key_value_heads,
            feed_forward=SwiGLU(d_model, d_ff),
        )

    @classmethod
    def from_torch(cls, other: nn.Module, attention: Attention | None = None) -> Any:
        """Refused (TypeError): no layer of PyTorch's has RMS norms and a gated network."""
        raise TypeError(
            "PyTorch has no layer with the RMS norms and the gated network of LlamaLayer: "
            "use CausalTransformerLayer.from_torch"
        )
