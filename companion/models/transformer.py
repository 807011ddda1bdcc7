"""The Transformer: an encoder and a decoder made of attention (Vaswani et al. 2017)."""

from collections.abc import Sequence
from copy import deepcopy
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from companion._checks import (
    check_batch_first,
    check_causal,
    check_kind,
    check_same_position,
    check_source,
)
from companion._transforms import readable
from companion.attention.base import Attention
from companion.attention.causal import CausalAttention
from companion.attention.multihead import ManyHeads, MultiHeadAttention
from companion.decoding.state import Memory
from companion.layers.embedding import ScaledEmbedding
from companion.layers.feed_forward import FeedForward
from companion.layers.positional_encoding import SinusoidalPositionalEncoding
from companion.layers.recurrent import source_mask
from companion.layers.residual import PostNorm, PreNorm, Residual
from companion.models.seq2seq import EncoderDecoder, SequenceDecoder


class TransformerEncoderLayer(nn.Module):
    """Multi-head self-attention, then a feed-forward network, each with a residual connection.

    ::

        x ← residual(x, MultiHead(x, x, x))
        x ← residual(x, FFN(x))

    Args:
        d_model: features of each position.
        heads: number of heads, which divides ``d_model``.
        d_ff: features of the hidden layer of the paper's feed-forward network.
        dropout: dropout probability of the output of each sub-layer.
        attention: what each head computes; scaled dot-product attention by default. Or an
            attention of as many heads instead of ``MultiHeadAttention``, such as
            :class:`~companion.attention.latent.LatentAttention`.
        residual: ``PostNorm``, the paper's, or ``PreNorm``.
        key_value_heads: number of heads of keys and values; by default as many as heads.
        feed_forward: a network instead of the paper's, and so of ``d_ff``.

    Source: Vaswani et al. 2017, section 3.1; dropout as in section 5.4. PyTorch's layer
    also drops attention weights and hidden units of the feed-forward network.

    Example:
        >>> layer = TransformerEncoderLayer(d_model=8, heads=2, d_ff=32)
        >>> layer(torch.randn(2, 5, 8)).shape
        torch.Size([2, 5, 8])
    """

    needs_causal = False  #: whether the attention must be causal by itself

    def __init__(
        self,
        d_model: int,
        heads: int,
        d_ff: int | None = None,
        dropout: float = 0.1,
        attention: Attention | ManyHeads | None = None,
        residual: type[Residual] = PostNorm,
        key_value_heads: int | None = None,
        feed_forward: nn.Module | None = None,
    ):
        super().__init__()
        self.d_model = d_model
        inside = _causal(attention, self) if self.needs_causal else attention
        self.attention: Any = _of_heads(d_model, heads, inside, key_value_heads)
        self.feed_forward: Any = _feed_forward(d_model, d_ff, feed_forward)
        self.attention_residual = residual(d_model, dropout)
        self.feed_forward_residual = residual(d_model, dropout)

    def forward(
        self, x: Float[Tensor, "b n d"], mask: Bool[Tensor, "..."] | None = None
    ) -> Float[Tensor, "b n d"]:
        """The new vector of each position; the mask is that of the attention."""
        x = self.attention_residual(
            x, lambda x: self.attention(x, *self.attention.project(x), mask)
        )
        return self.feed_forward_residual(x, self.feed_forward)

    @classmethod
    def from_torch(
        cls, other: nn.TransformerEncoderLayer, attention: Attention | None = None
    ) -> Any:
        """The same layer as PyTorch's, with copies of its weights, norms and dropouts.

        Args:
            other: with ``batch_first=True``, as of
                :meth:`MultiHeadAttention.from_torch
                <companion.attention.multihead.MultiHeadAttention.from_torch>`.
            attention: what each head computes, as of this class.

        Raises:
            ValueError: its inputs are sequence-first.
            TypeError: it is another module, or its activation is a function other than
                ReLU and GELU.
        """
        check_batch_first(other, nn.TransformerEncoderLayer)
        return _from_torch(cls, other, attention)

    def to_torch(self) -> nn.TransformerEncoderLayer:
        """PyTorch's layer, batch first, with copies of the weights, norms and dropouts.

        It masks nothing by itself, and in its boolean masks ``True`` means masked.
        """
        return _to_torch(self, nn.TransformerEncoderLayer)


class CausalTransformerLayer(TransformerEncoderLayer):
    """An encoder layer whose attention is causal: the layer of language models.

    Args:
        d_model, heads, d_ff, dropout, residual, key_value_heads, feed_forward: as in
            :class:`TransformerEncoderLayer`.
        attention: what each head computes, or an attention of as many heads; it must be
            causal by itself, as :class:`~companion.attention.causal.CausalAttention`, the
            default.

    Source: the decoder of Vaswani et al. 2017 without attention over a source, as in
    Child et al. 2019.

    Example:
        >>> layer, x = CausalTransformerLayer(8, heads=2, d_ff=32).eval(), torch.randn(1, 5, 8)
        >>> first, past = layer.extend(x[:, :3], layer.attention.start(x))
        >>> second, past = layer.extend(x[:, 3:], past)
        >>> torch.allclose(torch.cat([first, second], 1), layer(x), atol=1e-6)
        True
    """

    needs_causal = True

    def extend(
        self, x: Float[Tensor, "b n d"], past: Any
    ) -> tuple[Float[Tensor, "b n d"], Any]:
        """The new vectors of the next positions, and the attention's state after them.

        The first state is what ``attention.start`` returns.
        """
        x, past = self.attention_residual.extend(x, self.attention.extend, past)
        return self.feed_forward_residual(x, self.feed_forward), past


class TransformerLayerState(NamedTuple):
    """What a decoder layer attends to: the target so far, and the source."""

    past: Any
    source: Memory


class TransformerDecoderLayer(nn.Module):
    """Self-attention, attention over the source, and a feed-forward network.

    ::

        x ← residual(x, MultiHead(x, past, past))
        x ← residual(x, MultiHead(x, source, source))
        x ← residual(x, FFN(x))

    Args:
        d_model, heads, d_ff, dropout, residual: as in :class:`TransformerEncoderLayer`.
        attention: what each head computes in self-attention, as in
            :class:`CausalTransformerLayer`. The attention over the source is scaled
            dot-product.
        feed_forward: a network instead of the paper's, and so of ``d_ff``.

    Source: Vaswani et al. 2017, section 3.1; dropout as in section 5.4.

    Example:
        >>> layer = TransformerDecoderLayer(d_model=8, heads=2, d_ff=32)
        >>> states, words = torch.randn(1, 7, 8), torch.ones(1, 7, dtype=torch.bool)
        >>> y, state = layer(torch.randn(1, 5, 8), layer.start(states, words))
        >>> y.shape, state.past.key.shape
        (torch.Size([1, 5, 8]), torch.Size([1, 2, 5, 4]))
    """

    def __init__(
        self,
        d_model: int,
        heads: int,
        d_ff: int | None = None,
        dropout: float = 0.1,
        attention: Attention | None = None,
        residual: type[Residual] = PostNorm,
        feed_forward: nn.Module | None = None,
    ):
        super().__init__()
        self.d_model = d_model
        self.attention = MultiHeadAttention(d_model, heads, _causal(attention, self))
        self.source_attention = MultiHeadAttention(d_model, heads)
        self.feed_forward: Any = _feed_forward(d_model, d_ff, feed_forward)
        self.attention_residual = residual(d_model, dropout)
        self.source_residual = residual(d_model, dropout)
        self.feed_forward_residual = residual(d_model, dropout)

    def start(
        self, states: Float[Tensor, "b k d"], mask: Bool[Tensor, "b k"] | None
    ) -> TransformerLayerState:
        """Project the source, once; there is no token yet."""
        source = Memory(*self.source_attention.project(states), mask)
        return TransformerLayerState(self.attention.start(states), source)

    def forward(
        self, x: Float[Tensor, "b n d"], state: TransformerLayerState
    ) -> tuple[Float[Tensor, "b n d"], TransformerLayerState]:
        """The new vectors of the next positions, and the state after them."""
        past, source = state
        others = source.key, source.value, source.query_mask
        x, past = self.attention_residual.extend(x, self.attention.extend, past)
        x = self.source_residual(x, lambda x: self.source_attention(x, *others))
        x = self.feed_forward_residual(x, self.feed_forward)
        return x, TransformerLayerState(past, source)

    @classmethod
    def from_torch(
        cls, other: nn.TransformerDecoderLayer, attention: Attention | None = None
    ) -> Any:
        """The same layer as PyTorch's, as :meth:`TransformerEncoderLayer.from_torch`."""
        check_batch_first(other, nn.TransformerDecoderLayer)
        ours = _from_torch(cls, other, attention)
        ours.source_attention = MultiHeadAttention.from_torch(other.multihead_attn)
        return ours

    def to_torch(self) -> nn.TransformerDecoderLayer:
        """PyTorch's layer, as :meth:`TransformerEncoderLayer.to_torch`."""
        other = _to_torch(self, nn.TransformerDecoderLayer)
        other.multihead_attn = self.source_attention.to_torch()
        return other


def _causal(attention: Any, layer: nn.Module) -> Any:
    """The self-attention of a layer that decodes, which must be causal by itself."""
    attention = CausalAttention() if attention is None else attention
    inside = attention.attention if isinstance(attention, ManyHeads) else attention
    check_kind(layer, inside, Attention)
    check_causal(inside, type(layer).__name__)
    return attention


def _of_heads(
    d_model: int,
    heads: int,
    attention: Attention | ManyHeads | None,
    key_value_heads: int | None,
) -> ManyHeads:
    """An attention of so many heads: the one given, or one in which each head computes it."""
    if not isinstance(attention, ManyHeads):
        return MultiHeadAttention(
            d_model, heads, attention, key_value_heads=key_value_heads
        )
    if attention.heads != heads or key_value_heads is not None:
        raise ValueError(
            f"{type(attention).__name__} has {attention.heads} heads with keys of its own: "
            f"give heads={attention.heads}, and no key_value_heads"
        )
    return attention


def _feed_forward(
    d_model: int, d_ff: int | None, network: nn.Module | None
) -> nn.Module:
    """The network of a layer: the one given, or the paper's of this size."""
    if d_ff is not None and network is None:
        return FeedForward(d_model, d_ff)
    if d_ff is None and network is not None:
        return network
    raise ValueError(
        "a layer needs either d_ff, the size of the paper's network, or another network "
        "as feed_forward, which has a size of its own"
    )


class TransformerEncoder(nn.Module):
    """A stack of encoder layers over token embeddings plus positional encodings.

    Args:
        vocabulary_size: number of tokens.
        layers: all with the same ``d_model``.
        dropout: dropout probability of the sum of embedding and position.
        position: a module of :mod:`companion.layers.positional_encoding`; the paper's
            sinusoids by default.
        pad: the token that is padding; ``None`` if there is none.

    Source: Vaswani et al. 2017, section 3.1; dropout as in section 5.4.

    Example:
        >>> layers = [TransformerEncoderLayer(8, heads=2, d_ff=32) for _ in range(3)]
        >>> encoder = TransformerEncoder(11, layers, pad=0)
        >>> states, mask = encoder(torch.tensor([[5, 6, 2], [7, 2, 0]]))
        >>> states.shape, mask.tolist()
        (torch.Size([2, 3, 8]), [[True, True, True], [True, True, False]])
    """

    def __init__(
        self,
        vocabulary_size: int,
        layers: Sequence[TransformerEncoderLayer],
        dropout: float = 0.1,
        position: nn.Module | None = None,
        pad: int | None = None,
    ):
        super().__init__()
        d_model = layers[0].d_model
        self.embedding = ScaledEmbedding(vocabulary_size, d_model, pad)
        self.position = SinusoidalPositionalEncoding() if position is None else position
        self.dropout = nn.Dropout(dropout)
        self.layers: Any = nn.ModuleList(layers)
        self.norm = layers[-1].attention_residual.final_norm()

    def forward(
        self, source: Int[Tensor, "b k"]
    ) -> tuple[Float[Tensor, "b k d"], Bool[Tensor, "b k"]]:
        """The vectors of each sentence's tokens, and the mask of its tokens."""
        mask = source_mask(source, self.embedding.padding_idx)
        x = self.dropout(self.position(self.embedding(source)))  # (b, k, d)
        for layer in self.layers:
            x = layer(x, mask[:, None])
        return self.norm(x), mask

    @classmethod
    def from_torch(
        cls, other: nn.TransformerEncoder, vocabulary_size: int, **options: Any
    ) -> Any:
        """PyTorch's stack of layers and its last norm, behind a new embedding.

        Args:
            other: each layer as of :meth:`TransformerEncoderLayer.from_torch`.
            vocabulary_size, options: as of this class.
        """
        layers = [TransformerEncoderLayer.from_torch(x) for x in other.layers]
        ours = cls(vocabulary_size, layers, **options)
        ours.norm = nn.Identity() if other.norm is None else deepcopy(other.norm)
        return ours.to(layers[0].attention.W_O.weight).train(other.training)

    def to_torch(self) -> nn.TransformerEncoder:
        """PyTorch's stack of the layers and the last norm; it has no embedding."""
        layers = [layer.to_torch() for layer in self.layers]
        norm = None if isinstance(self.norm, nn.Identity) else deepcopy(self.norm)
        other = nn.TransformerEncoder(layers[0], len(layers), norm, False)
        other.layers = nn.ModuleList(layers)
        return other.train(self.training)


class TransformerDecoder(SequenceDecoder):
    """A stack of decoder layers; one matrix embeds the tokens and gives their logits.

    In training all target tokens are computed at once, each from those before it. In
    decoding each layer keeps what its attention needs of the tokens so far, such as their
    keys and values (the KV cache), so a step computes one token. Both are :meth:`run`.

    Args:
        vocabulary_size, layers, dropout, position: as in :class:`TransformerEncoder`.
        pad: the token that is padding; ``None`` if there is none. As an input it is not
            learned, but the output layer's row is.

    Source: Vaswani et al. 2017, sections 3.1 and 3.4.

    Example:
        >>> layers = [TransformerDecoderLayer(8, heads=2, d_ff=32) for _ in range(3)]
        >>> decoder, words = TransformerDecoder(11, layers), torch.ones(1, 5, dtype=torch.bool)
        >>> state = decoder.start(torch.randn(1, 5, 8), words)
        >>> decoder(torch.tensor([[1, 7, 4]]), state).shape
        torch.Size([1, 3, 11])
    """

    def __init__(
        self,
        vocabulary_size: int,
        layers: Sequence[TransformerDecoderLayer],
        dropout: float = 0.1,
        position: nn.Module | None = None,
        pad: int | None = None,
    ):
        super().__init__()
        d_model = layers[0].d_model
        self.embedding = ScaledEmbedding(vocabulary_size, d_model, pad)
        self.position = SinusoidalPositionalEncoding() if position is None else position
        self.dropout = nn.Dropout(dropout)
        self.layers: Any = nn.ModuleList(layers)
        self.norm = layers[-1].attention_residual.final_norm()
        self.output = nn.Linear(d_model, vocabulary_size, bias=False)
        self.output.weight = self.embedding.weight

    def start(
        self, states: Float[Tensor, "b k d"], mask: Bool[Tensor, "b k"]
    ) -> tuple[TransformerLayerState, ...]:
        """Project the source for every layer, once."""
        check_source(states, mask, self.embedding.embedding_dim)
        unpadded = readable(mask) and bool(mask.all())  # without a mask it is faster
        needed = None if unpadded else mask
        return tuple(layer.start(states, needed) for layer in self.layers)

    def run(
        self, tokens: Int[Tensor, "b n"], state: tuple[TransformerLayerState, ...]
    ) -> tuple[Float[Tensor, "b n vocabulary"], tuple[TransformerLayerState, ...]]:
        """The logits after each of ``tokens``, which follow those in the state."""
        check_same_position([layer.past.seen for layer in state])
        before = state[0].past.seen
        x = self.dropout(self.position(self.embedding(tokens), before))  # (b, n, d)
        after = []
        for layer, layer_state in zip(self.layers, state, strict=True):
            x, layer_state = layer(x, layer_state)
            after.append(layer_state)
        return self.output(self.norm(x)), tuple(after)


class Transformer(EncoderDecoder):
    """Encoder and decoder with the sizes of the paper's base model by default.

    For other attentions, pre-norm or learned positions, build the layers and join a
    :class:`TransformerEncoder` and a :class:`TransformerDecoder` by
    :class:`~companion.models.seq2seq.EncoderDecoder`. :func:`share_embeddings` gives
    encoder and decoder one embedding matrix, as in the paper.

    A decoding step reports no attention weights, because each layer and head has its
    own; :func:`~companion.attention.recording.record_weights` shows them. So
    :func:`~companion.decoding.beam.beam_search` cannot use a ``coverage_penalty``.

    Args:
        source_vocabulary, target_vocabulary: numbers of tokens.
        d_model: features of each position.
        heads: number of heads, which divides ``d_model``.
        d_ff: features of the feed-forward networks' hidden layers.
        layers: number of layers of the encoder, and of the decoder.
        dropout: dropout probability.
        pad: the token of both languages that is padding; ``None`` if there is none.

    Source: Vaswani et al. 2017, section 3 and table 3, *base*.

    Example:
        >>> model = Transformer(11, 7, d_model=8, heads=2, d_ff=32, layers=1, pad=0)
        >>> model(torch.tensor([[5, 6, 2]]), torch.tensor([[1, 3, 4, 5]])).shape
        torch.Size([1, 4, 7])
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
        pad: int | None = None,
    ):
        sizes = d_model, heads, d_ff, dropout
        encoder = TransformerEncoder(
            source_vocabulary,
            [TransformerEncoderLayer(*sizes) for _ in range(layers)],
            dropout,
            pad=pad,
        )
        decoder = TransformerDecoder(
            target_vocabulary,
            [TransformerDecoderLayer(*sizes) for _ in range(layers)],
            dropout,
            pad=pad,
        )
        super().__init__(encoder, decoder)


def share_embeddings(model: EncoderDecoder) -> None:
    """Give the encoder the decoder's embedding matrix, which is the output layer's too.

    Args:
        model: a model whose encoder and decoder have an ``embedding``; it is changed.

    Source: Vaswani et al. 2017, section 3.4; there the vocabulary contains both languages.

    Example:
        >>> model = Transformer(11, 11, d_model=8, heads=2, d_ff=32, layers=1)
        >>> share_embeddings(model)
        >>> model.encoder.embedding.weight is model.decoder.output.weight
        True
    """
    source, target = model.encoder.embedding.weight, model.decoder.embedding.weight
    if source.shape != target.shape:
        raise ValueError(
            f"embeddings of shapes {tuple(source.shape)} and {tuple(target.shape)} "
            f"cannot be shared"
        )
    model.encoder.embedding.weight = target


def _residuals(layer: nn.Module) -> list[tuple[str, Any]]:
    """The residual connections in their order, with the number that PyTorch gives them."""
    found = [x for x in layer.children() if isinstance(x, Residual)]
    return [(str(number), x) for number, x in enumerate(found, 1)]


#: The modules of the functions that PyTorch's layers take as an activation.
_ACTIVATIONS: dict[Any, type[nn.Module]] = {
    torch.nn.functional.relu: nn.ReLU,
    torch.nn.functional.gelu: nn.GELU,
}


def _from_torch(kind: Any, other: Any, attention: Attention | None) -> Any:
    """A layer of a kind with copies of what PyTorch's has, but for attention to a source."""
    activation = other.activation
    if not isinstance(activation, nn.Module):
        if activation not in _ACTIVATIONS:
            raise TypeError(f"the activation must be ReLU or GELU, not {activation!r}")
        activation = _ACTIVATIONS[activation]()
    parts = other.linear1, activation, other.dropout, other.linear2
    ours = kind(
        other.linear1.in_features,
        other.self_attn.num_heads,
        attention=attention,
        residual=PreNorm if other.norm_first else PostNorm,
        feed_forward=nn.Sequential(*map(deepcopy, parts)),
    )
    ours.attention = MultiHeadAttention.from_torch(
        other.self_attn, ours.attention.attention
    )
    for number, residual in _residuals(ours):
        residual.norm = deepcopy(getattr(other, f"norm{number}"))
        residual.dropout = deepcopy(getattr(other, f"dropout{number}"))
    return ours.train(other.training)


def _to_torch(layer: Any, kind: Any) -> Any:
    """PyTorch's layer of a kind with copies of what ours has, but for attention to a source."""
    residual, network = type(layer.attention_residual), layer.feed_forward
    if residual not in (PreNorm, PostNorm):
        raise TypeError(f"to_torch needs PreNorm or PostNorm, not {residual.__name__}")
    parts = [*network] if isinstance(network, nn.Sequential) else [network]
    if len(parts) == 3:
        parts.insert(2, nn.Dropout(0.0))
    if [type(parts[0]), *map(type, parts[2:])] != [nn.Linear, nn.Dropout, nn.Linear]:
        raise TypeError(f"to_torch needs FeedForward, not {type(network).__name__}")
    first, activation, dropout, second = map(deepcopy, parts)
    other = kind(
        layer.d_model,
        layer.attention.heads,
        first.out_features,
        activation=activation,
        batch_first=True,
        norm_first=residual is PreNorm,
    )
    other.self_attn = layer.attention.to_torch()
    other.linear1, other.dropout, other.linear2 = first, dropout, second
    for number, connection in _residuals(layer):
        setattr(other, f"norm{number}", deepcopy(connection.norm))
        setattr(other, f"dropout{number}", deepcopy(connection.dropout))
    return other.train(layer.training)
