"""Attention is all you need: an encoder and a decoder without recurrence (Vaswani et al. 2017)."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from companion._checks import check_positive, stack_size
from companion.attention.base import Attention
from companion.attention.masks import causal, dense
from companion.attention.multihead import MultiHeadAttention
from companion.decoding.state import KVCache, Memory
from companion.layers.embedding import ScaledEmbedding
from companion.layers.positional_encoding import SinusoidalPositionalEncoding
from companion.layers.recurrent import source_mask
from companion.layers.residual import PostNorm, Residual
from companion.models.seq2seq import EncoderDecoder, SequenceDecoder


class FeedForward(nn.Sequential):
    """The same two layers at every position, with no look at the others.

    ::

        FFN(x) = max(0, x W_1 + b_1) W_2 + b_2

    Source: Vaswani et al. 2017, section 3.3, equation (2). 

    Raises:
        ValueError: a size is below 1.
    """

    def __init__(self, d_model: int, d_ff: int):
        check_positive(d_model=d_model, d_ff=d_ff)
        super().__init__(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))


class TransformerEncoderLayer(nn.Module):
    """Every word looks at all words, then thinks for itself.

    ::

        x ← residual(x, MultiHead(x, x, x)),   x ← residual(x, FFN(x))

    ``attention`` is what each head computes, ScaledDot if not named; ``residual`` is ``PostNorm``, the
    paper's, or ``PreNorm``. Source: Vaswani et al. 2017, section 3.1. Dropout is the paper's, on what a
    sub-layer puts out; PyTorch's layer has it on attention weights and inside the FFN as well.

    Raises:
        ValueError: a size is below 1, or ``d_model`` cannot be divided among the heads.
    """

    def __init__(
        self,
        d_model: int,
        heads: int,
        d_ff: int,
        dropout: float = 0.1,
        attention: Attention | None = None,
        residual: type[Residual] = PostNorm,
    ):
        super().__init__()
        self.d_model = d_model
        self.attention = MultiHeadAttention(d_model, heads, attention)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.around_attention = residual(d_model, dropout)
        self.around_feed_forward = residual(d_model, dropout)

    def forward(
        self, x: Float[Tensor, "b n d"], mask: Bool[Tensor, "..."] | None = None
    ) -> Float[Tensor, "b n d"]:
        """The words' new vectors; the mask broadcasts to ``(b, n, n)``."""
        query = self.around_attention.pre_norm(x)
        looked = self.attention(query, *self.attention.project(query), mask)
        x = self.around_attention.post_norm(x, looked)
        thought = self.feed_forward(self.around_feed_forward.pre_norm(x))
        return self.around_feed_forward.post_norm(x, thought)


class TransformerLayerState(NamedTuple):
    """What a decoder layer looks at: the words so far, and the source."""

    past: KVCache
    source: Memory


class TransformerDecoderLayer(nn.Module):
    """Every word looks at the words before it and at itself, then at the source, then thinks for itself.

    ::

        x ← residual(x, MultiHead(x, past, past))
        x ← residual(x, MultiHead(x, source, source))
        x ← residual(x, FFN(x))

    ``attention`` is what each head computes among the words; the look at the source is scaled dot-product.
    Source: Vaswani et al. 2017, section 3.1. Dropout as in :class:`TransformerEncoderLayer`.

    Raises:
        ValueError: a size is below 1, or ``d_model`` cannot be divided among the heads.
        TypeError: the attention is local-m, whose window goes by the query's place among those of one call.
    """

    def __init__(
        self,
        d_model: int,
        heads: int,
        d_ff: int,
        dropout: float = 0.1,
        attention: Attention | None = None,
        residual: type[Residual] = PostNorm,
    ):
        super().__init__()
        self.d_model = d_model
        self.attention = MultiHeadAttention(d_model, heads, attention)
        self.source_attention = MultiHeadAttention(d_model, heads)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.around_attention = residual(d_model, dropout)
        self.around_source = residual(d_model, dropout)
        self.around_feed_forward = residual(d_model, dropout)

    def start(
        self, source: Float[Tensor, "b k d"], mask: Bool[Tensor, "b k"]
    ) -> TransformerLayerState:
        """Project the source, once; there is no word yet."""
        none = self.attention.project(source[:, :0])
        return TransformerLayerState(
            KVCache(*none), Memory(*self.source_attention.project(source), mask)
        )

    def forward(
        self,
        x: Float[Tensor, "b n d"],
        state: TransformerLayerState,
        mask: Bool[Tensor, "n k"] | None = None,
    ) -> tuple[Float[Tensor, "b n d"], TransformerLayerState]:
        """The vectors of the next words, and the state with them; the mask says which words they look at."""
        query = self.around_attention.pre_norm(x)
        new = self.attention.project(query)
        past = KVCache(
            *(torch.cat(pair, -2) for pair in zip(state.past, new, strict=True))
        )
        x = self.around_attention.post_norm(x, self.attention(query, *past, mask))
        key, value, source_words = state.source
        looked = self.source_attention(
            self.around_source.pre_norm(x), key, value, source_words[:, None]
        )
        x = self.around_source.post_norm(x, looked)
        thought = self.feed_forward(self.around_feed_forward.pre_norm(x))
        x = self.around_feed_forward.post_norm(x, thought)
        return x, TransformerLayerState(past, state.source)


class TransformerEncoder(nn.Module):
    """A stack of encoder layers over words that know where they stand.

    Source: Vaswani et al. 2017, section 3.1. ``position`` is a module of :mod:`companion.layers.positional_encoding`, if not
    named the paper's sinusoids; dropout is on the sum of word and position, section 5.4.

    Raises:
        ValueError: there is no layer, or the layers have different sizes.
    """

    def __init__(
        self,
        vocabulary_size: int,
        layers: Sequence[TransformerEncoderLayer],
        dropout: float = 0.1,
        position: nn.Module | None = None,
    ):
        super().__init__()
        self.embedding = ScaledEmbedding(vocabulary_size, stack_size([layer.d_model for layer in layers]))
        self.position = SinusoidalPositionalEncoding() if position is None else position
        self.dropout = nn.Dropout(dropout)
        self.layers: Any = nn.ModuleList(layers)
        self.norm = layers[-1].around_attention.final_norm()

    def forward(
        self, source: Int[Tensor, "b k"]
    ) -> tuple[Float[Tensor, "b k d"], Bool[Tensor, "b k"]]:
        """The vectors of each sentence's words, and the mask of its words.

        Raises:
            ValueError: a sentence is empty, has padding before a word, or a token outside the vocabulary.
        """
        mask = source_mask(source)
        x = self.dropout(self.position(self.embedding(source)))
        for layer in self.layers:
            x = layer(x, mask[:, None])
        return self.norm(x), mask


class TransformerDecoder(SequenceDecoder):
    """A stack of decoder layers over the words so far; one matrix embeds the words and chooses among them.

    In training all words are computed at once, under a causal mask. In decoding each layer keeps the keys and
    values of the words so far, so that a step computes those of one word. Both are :meth:`run`.

    Source: Vaswani et al. 2017, sections 3.1 and 3.4. ``position`` and dropout as in :class:`Encoder`.

    Raises:
        ValueError: there is no layer, or the layers have different sizes.
    """

    def __init__(
        self,
        vocabulary_size: int,
        layers: Sequence[TransformerDecoderLayer],
        dropout: float = 0.1,
        position: nn.Module | None = None,
    ):
        super().__init__()
        size = stack_size([layer.d_model for layer in layers])
        self.embedding = ScaledEmbedding(vocabulary_size, size)
        self.position = SinusoidalPositionalEncoding() if position is None else position
        self.dropout = nn.Dropout(dropout)
        self.layers: Any = nn.ModuleList(layers)
        self.norm = layers[-1].around_attention.final_norm()
        self.output = nn.Linear(size, vocabulary_size, bias=False)
        self.output.weight = self.embedding.weight

    def start(
        self, states: Float[Tensor, "b k d"], mask: Bool[Tensor, "b k"]
    ) -> tuple[TransformerLayerState, ...]:
        """Project the source for every layer, once."""
        return tuple(layer.start(states, mask) for layer in self.layers)

    def run(
        self, tokens: Int[Tensor, "b n"], state: tuple[TransformerLayerState, ...]
    ) -> tuple[Float[Tensor, "b n vocabulary"], tuple[TransformerLayerState, ...]]:
        """Scores after each of ``tokens``, which follow the words that the state has seen."""
        before, new = state[0].past.key.shape[-2], tokens.shape[1]
        x = self.dropout(self.position(self.embedding(tokens), before))
        ahead = new > 1 and not all(
            layer.attention.attention.causal for layer in self.layers
        )
        mask = (
            dense(causal(), new, before + new, tokens.device, before) if ahead else None
        )
        after = []
        for layer, layer_state in zip(self.layers, state, strict=True):
            x, layer_state = layer(x, layer_state, mask)
            after.append(layer_state)
        return self.output(self.norm(x)), tuple(after)


class Transformer(EncoderDecoder):
    """Encoder and decoder with the paper's sizes, unless told otherwise: its base model.

    Other attentions, PreNorm or learned positions are one's own layers in :class:`TransformerEncoder` and
    :class:`TransformerDecoder`, joined by :class:`~companion.models.seq2seq.EncoderDecoder`. Source: Vaswani et al. 2017,
    section 3 and table 3, *base*. With one vocabulary for both languages, :func:`share_embeddings` makes
    the paper's single matrix.

    Raises:
        ValueError: a size or the number of layers is below 1, or ``d_model`` cannot be divided among the heads.
    """

    def __init__(
        self,
        source_vocabulary: int,
        target_vocabulary: int,
        d_model: int = 512,
        heads: int = 8,
        d_ff: int = 2048,
        layers: int = 6,
        dropout: float = 0.1,
    ):
        check_positive(layers=layers)
        sizes = d_model, heads, d_ff, dropout
        super().__init__(
            TransformerEncoder(
                source_vocabulary,
                [TransformerEncoderLayer(*sizes) for _ in range(layers)],
                dropout,
            ),
            TransformerDecoder(
                target_vocabulary,
                [TransformerDecoderLayer(*sizes) for _ in range(layers)],
                dropout,
            ),
        )


def share_embeddings(model: EncoderDecoder) -> None:
    """Let the source's words have the target's matrix too: one for both embeddings and for the output.

    Source: Vaswani et al. 2017, section 3.4; its vocabulary is that of both languages together.

    Raises:
        ValueError: the two vocabularies have different sizes.
    """
    source, target = model.encoder.embedding.weight, model.decoder.embedding.weight
    if source.shape != target.shape:
        raise ValueError(
            f"matrices of {tuple(source.shape)} and {tuple(target.shape)} cannot be one"
        )
    model.encoder.embedding.weight = target
