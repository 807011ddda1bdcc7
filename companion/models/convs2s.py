"""Convolutional sequence to sequence learning (Gehring et al. 2017), with attention in every layer."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from companion._checks import (
    check_above_zero,
    check_odd,
    check_positive,
    check_source,
)
from companion._transforms import in_transform
from companion.attention.scores import Dot
from companion.decoding.state import DecoderStep, Memory
from companion.layers.embedding import Embedding
from companion.layers.gated_convolution import (
    GatedConvolution,
    NormalisedWeights,
    WeightNormLinear,
    normalised_once,
    normalised_weights,
    scale_gradient,
)
from companion.layers.positional_encoding import LearnedPositionalEncoding
from companion.layers.recurrent import source_mask
from companion.models.seq2seq import EncoderDecoder, SequenceDecoder


class ConvS2SEncoder(nn.Module):
    """A stack of gated convolutions, whose windows are centred on each token.

    ::

        e_j = token embedding + position embedding
        z = W' block_u(… block_1(W e + b)) + b'

    Each block gets (k − 1) / 2 zeros at both ends. After u blocks of width k the
    receptive field is u (k − 1) + 1 tokens. W and W' map from the dimension of the
    embeddings to that of the blocks and back. The padding of a batch is set to zero
    before every block, as if the sentence ended there.

    Args:
        vocabulary_size, embedding_size: the number of source tokens, and the dimension
            of e and z.
        position: a positional encoding, which keeps ``embedding_size``.
        blocks: gated convolutions of one size and odd widths.
        dropout: dropout probability of e, below 1.
        pad: the token that is padding; ``None`` if there is none.

    Source: Gehring et al. 2017, sections 3.1 and 3.2.

    Example:
        >>> blocks = [GatedConvolution(16, width=3) for _ in range(2)]
        >>> position = LearnedPositionalEncoding(50, 8)
        >>> encoder = ConvS2SEncoder(100, 8, position, blocks, pad=0)
        >>> states, embedded, mask = encoder(torch.tensor([[5, 6, 7], [8, 0, 0]]))
        >>> states.shape, embedded.shape
        (torch.Size([2, 3, 8]), torch.Size([2, 3, 8]))
    """

    def __init__(
        self,
        vocabulary_size: int,
        embedding_size: int,
        position: nn.Module,
        blocks: Sequence[GatedConvolution],
        dropout: float = 0.1,
        pad: int | None = None,
    ):
        super().__init__()
        size = _stack_size([block.size for block in blocks])
        for block in blocks:
            check_odd(width=block.width)
        self.embedding = Embedding(vocabulary_size, embedding_size, pad)
        self.position = position
        self.dropout = nn.Dropout(dropout)
        self.to_hidden = WeightNormLinear(embedding_size, size, gain=1 - dropout)
        self.blocks: Any = nn.ModuleList(blocks)
        self.to_embedding = WeightNormLinear(size, embedding_size)

    def forward(
        self, source: Int[Tensor, "b k"]
    ) -> tuple[Float[Tensor, "b k e"], Float[Tensor, "b k e"], Bool[Tensor, "b k"]]:
        """The states z of each sentence, its embeddings e, and the source mask."""
        mask = source_mask(source, self.embedding.padding_idx)
        embedded = self.dropout(self.position(self.embedding(source)))  # (b, k, e)
        hidden = self.to_hidden(embedded)  # (b, k, d)
        for block in self.blocks:
            inputs = hidden.masked_fill(~mask[..., None], 0)
            zeros = block.width // 2
            hidden = block(inputs, functional.pad(inputs, (0, 0, zeros, zeros)))
        return self.to_embedding(hidden), embedded, mask


class ConvS2SDecoderLayer(nn.Module):
    """A causal gated convolution, and attention to the source.

    ::

        h = block(x),   d_i = s (W_d h_i + b_d + g_i)
        a_ij = softmax_j(d_i · z_j),   c_i = m √(1/m) Σ_j a_ij v_j
        output = s (h_i + (W_c c_i + b_c))

    g_i embeds the last target token with its position, v_j = z_j + e_j, m is the number
    of source tokens, and s = 1.

    Args:
        embedding_size: dimension of g, z and e.
        size: dimension of x and h.
        width: the convolution's width.
        dropout: dropout probability of the convolution's input, below 1.
        sum_scale: the factor s of each sum of two terms. The paper's equation (1) has 1,
            the authors' code √½, which keeps the variance; there it is also the factor
            of v_j.
        attends: whether the layer attends to the source. One that does not has no W_d
            and W_c, and returns h (table 5 of the paper compares such models).

    Source: Gehring et al. 2017, sections 3.3 and 3.4, equations (1) and (2).
    Deviation: the paper adds c_i to h_i, which must then have one size; W_c, which is
    in the authors' code, makes them fit.

    Example:
        >>> from companion.decoding import Memory
        >>> layer, x = ConvS2SDecoderLayer(8, 16, width=3), torch.randn(2, 4, 16)
        >>> z, g = torch.randn(2, 5, 8), torch.randn(2, 4, 8)
        >>> memory = Memory(z, z, torch.ones(2, 5, dtype=torch.bool))
        >>> output, before = layer(x, torch.zeros(2, 2, 16), g, memory)
        >>> output.shape, before.shape
        (torch.Size([2, 4, 16]), torch.Size([2, 2, 16]))
    """

    def __init__(
        self,
        embedding_size: int,
        size: int,
        width: int,
        dropout: float = 0.1,
        sum_scale: float = 1.0,
        attends: bool = True,
    ):
        super().__init__()
        check_positive(embedding_size=embedding_size)
        check_above_zero(sum_scale=sum_scale)
        self.sum_scale, self.attends = sum_scale, attends
        self.embedding_size = embedding_size
        self.block = GatedConvolution(size, width, dropout)
        if attends:
            self.W_d = WeightNormLinear(size, embedding_size)
            self.W_c = WeightNormLinear(embedding_size, size)
            self.attention = Dot()

    def forward(
        self,
        inputs: Float[Tensor, "b t d"],
        before: Float[Tensor, "b w d"],
        embedded: Float[Tensor, "b t e"],
        memory: Memory,
    ) -> tuple[Float[Tensor, "b t d"], Float[Tensor, "b w d"]]:
        """The outputs; and the last k − 1 inputs, the next call's ``before``."""
        padded = torch.cat([before, inputs], 1)  # (b, k − 1 + t, d)
        hidden = self.block(inputs, padded)
        last = padded[:, inputs.shape[1] :]
        if not self.attends:
            return hidden, last
        query = self.sum_scale * (self.W_d(hidden) + embedded)  # (b, t, e)
        key, value, mask = memory
        mask = None if mask is None else mask[:, None]  # (b, 1, k)
        context = self.attention(query, key, value, mask)
        return self.sum_scale * (hidden + self.W_c(context)), last


class ConvS2SState(NamedTuple):
    """The state of a :class:`ConvS2SDecoder` before a time step.

    ``before`` holds each layer's last k − 1 inputs, at first zero; ``position`` is the
    number of tokens read.
    """

    before: tuple[Float[Tensor, "b w d"], ...]
    memory: Memory
    position: Int[Tensor, " b"]


class ConvS2SDecoder(SequenceDecoder):
    """A stack of causal convolutions, each followed by attention to the source.

    ::

        g_i = token embedding + position embedding
        h = layer_L(… layer_1(W g + b)),   p(y_{i+1}) = softmax(W_o (W' h_i + b') + b_o)

    In training all positions are computed at once. In decoding each layer keeps its
    last k − 1 inputs, so that a step costs the same however many tokens came before.
    The gradient with respect to z is divided by the number of layers that attend to z;
    that with respect to e is not.

    Without gradients, steps compute each normalised weight once, until the next
    ``start`` or until a parameter changes.

    Args:
        vocabulary_size, embedding_size: the number of target tokens, and the dimension
            of their embeddings and of the encoder's states.
        position: a positional encoding, which keeps ``embedding_size``.
        layers: of one size, of ``embedding_size``, and of one ``sum_scale``.
        dropout: dropout probability of g and of the output layer's input, below 1.

    Source: Gehring et al. 2017, sections 3.2 to 3.4.

    Example:
        >>> layers = [ConvS2SDecoderLayer(8, 16, width=3) for _ in range(2)]
        >>> decoder = ConvS2SDecoder(50, 8, LearnedPositionalEncoding(20, 8), layers)
        >>> z = torch.randn(1, 5, 8)
        >>> mask = torch.ones(1, 5, dtype=torch.bool)
        >>> state = decoder.start(z, torch.zeros_like(z), mask)
        >>> decoder(torch.tensor([[1, 4, 3]]), state).shape
        torch.Size([1, 3, 50])
    """

    def __init__(
        self,
        vocabulary_size: int,
        embedding_size: int,
        position: nn.Module,
        layers: Sequence[ConvS2SDecoderLayer],
        dropout: float = 0.1,
    ):
        super().__init__()
        size = _stack_size([layer.block.size for layer in layers])
        self.sum_scale = _stack_size([x.sum_scale for x in layers], "sum_scale")
        self._attending = sum(layer.attends for layer in layers)
        if not self._attending:
            raise ValueError("at least one of the layers must attend to the source")
        self.embedding = Embedding(vocabulary_size, embedding_size)
        self.position = position
        self.dropout = nn.Dropout(dropout)
        self.to_hidden = WeightNormLinear(embedding_size, size, gain=1 - dropout)
        self.layers: Any = nn.ModuleList(layers)
        self.to_embedding = WeightNormLinear(size, embedding_size)
        self.output = WeightNormLinear(
            embedding_size, vocabulary_size, gain=1 - dropout
        )
        self._search_weights: tuple[list[int], NormalisedWeights] = ([], {})

    def start(
        self,
        states: Float[Tensor, "b k e"],
        embedded: Float[Tensor, "b k e"],
        mask: Bool[Tensor, "b k"],
    ) -> ConvS2SState:
        """Keys z and values m √(1/m) s (z + e) of the source, once for all steps."""
        check_source(states, mask, self.embedding.embedding_dim)
        self._search_weights = [], {}
        key = scale_gradient(states, 1 / self._attending)
        m = mask.sum(1).clamp(min=1).to(states.dtype)[:, None, None]  # (b, 1, 1)
        value = self.sum_scale * (key + embedded)
        memory = Memory(key, m * (1 / m).sqrt() * value, mask)
        before = tuple(
            states.new_zeros(states.shape[0], x.block.width - 1, x.block.size)
            for x in self.layers
        )
        position = torch.zeros_like(mask[:, 0], dtype=torch.long)
        return ConvS2SState(before, memory, position)

    def run(
        self, tokens: Int[Tensor, "b t"], state: ConvS2SState
    ) -> tuple[Float[Tensor, "b t vocabulary"], ConvS2SState]:
        """The logits after each of ``tokens``, and the state after the last of them."""
        embedded = self.dropout(self.position(self.embedding(tokens), state.position))
        hidden, last = self.to_hidden(embedded), []  # (b, t, d)
        for layer, before in zip(self.layers, state.before, strict=True):
            hidden, inputs = layer(hidden, before, embedded, state.memory)
            last.append(inputs)
        logits = self.output(self.dropout(self.to_embedding(hidden)))
        position = state.position + tokens.shape[1]
        return logits, ConvS2SState(tuple(last), state.memory, position)

    def step(self, token: Int[Tensor, " b"], state: ConvS2SState) -> DecoderStep:
        """The logits after ``token``, by the weights of this search."""
        if torch.is_grad_enabled() or in_transform():
            return super().step(token, state)
        versions = [parameter._version for parameter in self.parameters()]
        if self._search_weights[0] != versions:
            self._search_weights = versions, normalised_weights(self)
        with normalised_once(self._search_weights[1]):
            return super().step(token, state)

    def __getstate__(self) -> dict[str, Any]:
        """The state of a copy or of a file, without a search's weights."""
        return vars(self) | {"_search_weights": ([], {})}


class ConvS2S(EncoderDecoder):
    """The convolutional encoder–decoder, with as many layers of one size on both sides.

    Args:
        source_vocabulary, target_vocabulary: the numbers of tokens.
        embedding_size, hidden_size: dimensions of embeddings and layers.
        layers: the number of layers on each side.
        width: the width of all convolutions, which is odd.
        dropout: dropout probability, below 1.
        max_length: the number of positions.
        sum_scale: as in :class:`ConvS2SDecoderLayer`; √½ is that of the authors' code.
        pad: the source's token that is padding; ``None`` if there is none.

    Source: Gehring et al. 2017. The defaults are those of its model for
    English–Romanian (section 5.1), except dropout and ``max_length``, which are ours.
    The layers of the paper's larger models differ in width: build the two parts for such
    a model.

    Example:
        >>> model = ConvS2S(100, 50, embedding_size=8, hidden_size=16, layers=2, pad=0)
        >>> model(torch.tensor([[5, 6, 7]]), torch.tensor([[1, 4]])).shape
        torch.Size([1, 2, 50])
    """

    def __init__(
        self,
        source_vocabulary: int,
        target_vocabulary: int,
        embedding_size: int = 512,
        hidden_size: int = 512,
        layers: int = 20,
        width: int = 3,
        dropout: float = 0.1,
        max_length: int = 1024,
        sum_scale: float = 1.0,
        pad: int | None = None,
    ):
        check_positive(layers=layers)
        blocks = [GatedConvolution(hidden_size, width, dropout) for _ in range(layers)]
        decoder_layers = [
            ConvS2SDecoderLayer(embedding_size, hidden_size, width, dropout, sum_scale)
            for _ in range(layers)
        ]
        positions = [
            LearnedPositionalEncoding(max_length, embedding_size) for _ in range(2)
        ]
        super().__init__(
            ConvS2SEncoder(
                source_vocabulary, embedding_size, positions[0], blocks, dropout, pad
            ),
            ConvS2SDecoder(
                target_vocabulary, embedding_size, positions[1], decoder_layers, dropout
            ),
        )


def _stack_size(sizes: Sequence[Any], name: str = "size") -> Any:
    """The one size, or other number, that all layers of a stack have."""
    if len(set(sizes)) != 1:
        raise ValueError(
            f"a stack needs layers of one {name}, but there are {len(sizes)}, of {name}s {sizes}"
        )
    return sizes[0]
