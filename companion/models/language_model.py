"""A language model: the next token, from those before it, by layers that never look ahead."""

from collections.abc import Sequence
from typing import Any

from jaxtyping import Float, Int
from torch import Tensor, nn

from companion._checks import stack_size
from companion.layers.embedding import ScaledEmbedding
from companion.layers.positional_encoding import SinusoidalPositionalEncoding
from companion.models.transformer import TransformerEncoderLayer


class LanguageModel(nn.Module):
    """The Transformer's layers over one text, each of whose tokens is to be told from those before it.

    ::

        x = position(embedding(tokens)),   x ← layer(x) for each layer
        logits = W x + b: at each place the scores of the token that follows

    Every layer's attention must be one that never looks ahead by itself, such as
    ``SparseAttention(radius, rate, causal=True)``: there is no mask. Positions are
    :class:`~companion.layers.positional_encoding.SinusoidalPositionalEncoding`. Source: the decoder of Vaswani et al. 2017 without the look at a
    source, as in Child et al. 2019.

    Raises:
        ValueError: there is no layer, the layers have different sizes, or an attention looks ahead.
    """

    def __init__(self, vocabulary_size: int, layers: Sequence[TransformerEncoderLayer]):
        super().__init__()
        size = stack_size([layer.d_model for layer in layers])
        for number, layer in enumerate(layers):
            attention = layer.attention.attention
            if not attention.causal:
                name = f"{type(attention).__name__} of layer {number}"
                raise ValueError(
                    f"the {name} may look ahead: build it with causal=True"
                )
        self.embedding = ScaledEmbedding(vocabulary_size, size)
        self.position = SinusoidalPositionalEncoding()
        self.layers: Any = nn.ModuleList(layers)
        self.norm = layers[-1].around_attention.final_norm()
        self.output = nn.Linear(size, vocabulary_size)

    def forward(self, tokens: Int[Tensor, "b n"]) -> Float[Tensor, "b n vocabulary"]:
        """At each place, the scores of the next token."""
        x = self.position(self.embedding(tokens))
        for layer in self.layers:
            x = layer(x)
        return self.output(self.norm(x))
