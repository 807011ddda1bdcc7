"""Convolutional sequence to sequence learning (Gehring et al. 2017): no recurrence, a look in every layer."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import pad

from companion._checks import check_positive, check_size, stack_size
from companion.attention.scores import Dot
from companion.decoding.state import Memory
from companion.layers.embedding import Embedding
from companion.layers.gated_convolution import (
    GatedConvolution,
    scale_gradient,
    weight_normalised,
)
from companion.layers.positional_encoding import LearnedPositionalEncoding
from companion.layers.recurrent import source_mask
from companion.models.seq2seq import EncoderDecoder, SequenceDecoder


class ConvS2SEncoder(nn.Module):
    """Blocks that see as far to the left as to the right, so that every word knows its neighbourhood.

    ::

        e_j = word embedding + position embedding
        z = W' block_u(… block_1(W e + b)) + b',   each block with (k − 1) / 2 zeros at both ends

    After u blocks of width k a state depends on u (k − 1) + 1 words. W and W' lead from the embedding's size
    to the blocks' and back. Before every block the padding is zero, so that it is what lies beyond any
    sentence. Source: Gehring et al. 2017, sections 3.1 and 3.2.

    Raises:
        ValueError: there is no block, the blocks have different sizes, or one has an even width, which has no
            middle; or dropout is 1.
    """

    def __init__(
        self,
        vocabulary_size: int,
        embedding_size: int,
        position: nn.Module,
        blocks: Sequence[GatedConvolution],
        dropout: float = 0.1,
    ):
        super().__init__()
        size = stack_size([block.size for block in blocks])
        for block in blocks:
            if block.width % 2 == 0:
                raise ValueError(
                    f"the encoder's blocks need an odd width, but one has {block.width}"
                )
        self.embedding = Embedding(vocabulary_size, embedding_size)
        self.position = position
        self.dropout = nn.Dropout(dropout)
        self.to_hidden = weight_normalised(nn.Linear(embedding_size, size), 1 - dropout)
        self.blocks: Any = nn.ModuleList(blocks)
        self.to_embedding = weight_normalised(nn.Linear(size, embedding_size), 1.0)

    def forward(
        self, source: Int[Tensor, "b k"]
    ) -> tuple[Float[Tensor, "b k e"], Float[Tensor, "b k e"], Bool[Tensor, "b k"]]:
        """The states z of each sentence, the embedded words e, and the mask of the words.

        Raises:
            ValueError: a sentence is empty, has padding before a word, or a token outside the vocabulary, or
                is longer than the table of positions.
        """
        mask = source_mask(source)
        embedded = self.dropout(self.position(self.embedding(source)))
        hidden = self.to_hidden(embedded)
        for block in self.blocks:
            words = hidden.masked_fill(~mask[..., None], 0)
            beyond = block.width // 2
            hidden = block(words, pad(words, (0, 0, beyond, beyond)))
        return self.to_embedding(hidden), embedded, mask


class ConvS2SDecoderLayer(nn.Module):
    """A block that sees the past, and a look at the source.

    ::

        h = block(x),   d_i = W_d h_i + b_d + g_i
        a_ij = softmax_j(d_i · z_j),   c_i = m √(1/m) Σ_j a_ij (z_j + e_j)
        output = h_i + (W_c c_i + b_c)

    g_i embeds the last target word with its position, m is the number of words in the source. Source: Gehring
    et al. 2017, sections 3.3 and 3.4, equations 1 and 2. The paper adds c_i to h_i as it is, which asks for
    sizes that are equal; W_c, as in the authors' code, makes them fit. That code also scales each sum of two
    by √½, here and in the value; we keep to the text.

    Raises:
        ValueError: a size is below 1, or dropout is 1.
    """

    def __init__(
        self, embedding_size: int, size: int, width: int, dropout: float = 0.1
    ):
        super().__init__()
        check_positive(embedding_size=embedding_size)
        self.block = GatedConvolution(size, width, dropout)
        self.W_d = weight_normalised(nn.Linear(size, embedding_size), 1.0)
        self.W_c = weight_normalised(nn.Linear(embedding_size, size), 1.0)
        self.attention = Dot()

    def forward(
        self,
        inputs: Float[Tensor, "b t d"],
        before: Float[Tensor, "b w d"],
        embedded: Float[Tensor, "b t e"],
        memory: Memory,
    ) -> tuple[Float[Tensor, "b t d"], Float[Tensor, "b w d"]]:
        """The outputs; and the last k − 1 inputs, which the next word needs ``before`` its own."""
        seen = torch.cat([before, inputs], 1)
        hidden = self.block(inputs, seen)
        query = self.W_d(hidden) + embedded
        context = self.attention(query, memory.key, memory.value, memory.mask[:, None])
        return hidden + self.W_c(context), seen[:, inputs.shape[1] :]


class ConvS2SState(NamedTuple):
    """Between two words: each layer's last k − 1 inputs, zero at first; the source; how many words came."""

    before: tuple[Float[Tensor, "b w d"], ...]
    memory: Memory
    position: Int[Tensor, " b"]


class ConvS2SDecoder(SequenceDecoder):
    """Layers that each read what was written, k words at a time, and each look at the source.

    ::

        g_i = word embedding + position embedding
        h = layer_L(… layer_1(W g + b)),   p(y_{i+1}) = softmax(W_o (W' h_i + b') + b_o)

    No layer sees the future, so in training all words go through at once. One by one, a word costs the same
    however many came before it, but for the looks at the source. The gradient that reaches z is divided by
    the number of layers, as each of them looks; that to e is not. Source: Gehring et al. 2017, sections 3.2
    to 3.4.

    Raises:
        ValueError: there is no layer, or the layers have different sizes, or another one for the words than
            ``embedding_size``; or dropout is 1.
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
        size = stack_size([layer.block.size for layer in layers])
        words = [layer.W_d.out_features for layer in layers]
        if set(words) != {embedding_size}:
            raise ValueError(
                f"words have {embedding_size} features, but those of the layers have {words}"
            )
        self.embedding = Embedding(vocabulary_size, embedding_size)
        self.position = position
        self.dropout = nn.Dropout(dropout)
        self.to_hidden = weight_normalised(nn.Linear(embedding_size, size), 1 - dropout)
        self.layers: Any = nn.ModuleList(layers)
        self.to_embedding = weight_normalised(nn.Linear(size, embedding_size), 1.0)
        self.output = weight_normalised(
            nn.Linear(embedding_size, vocabulary_size), 1 - dropout
        )

    def start(
        self,
        states: Float[Tensor, "b k e"],
        embedded: Float[Tensor, "b k e"],
        mask: Bool[Tensor, "b k"],
    ) -> ConvS2SState:
        """Keys z and values m √(1/m) (z + e) of the source, once for all layers and words."""
        check_size("source", states, self.embedding.embedding_dim)
        key = scale_gradient(states, 1 / len(self.layers))
        length = (
            mask.sum(1).clamp(min=1).to(states.dtype)[:, None, None]
        )  # of each sentence without its padding
        memory = Memory(key, length * (1 / length).sqrt() * (key + embedded), mask)
        before = tuple(
            states.new_zeros(len(states), x.block.width - 1, x.block.size)
            for x in self.layers
        )
        return ConvS2SState(
            before, memory, torch.zeros_like(mask[:, 0], dtype=torch.long)
        )

    def run(
        self, tokens: Int[Tensor, "b t"], state: ConvS2SState
    ) -> tuple[Float[Tensor, "b t vocabulary"], ConvS2SState]:
        """Scores of the word after each of ``tokens``, and the state after the last of them."""
        embedded = self.dropout(self.position(self.embedding(tokens), state.position))
        hidden, last = self.to_hidden(embedded), []
        for layer, before in zip(self.layers, state.before, strict=True):
            hidden, inputs = layer(hidden, before, embedded, state.memory)
            last.append(inputs)
        logits = self.output(self.dropout(self.to_embedding(hidden)))
        return logits, ConvS2SState(
            tuple(last), state.memory, state.position + tokens.shape[1]
        )


class ConvS2S(EncoderDecoder):
    """Encoder and decoder with as many layers each, all of one size and width.

    Source: Gehring et al. 2017; the defaults are its model for English to Romanian (section 5.1). Others have
    more layers on one side, which the two parts can be built with, and wider ones further up, which they
    cannot. The defaults of dropout and of the longest sentence are ours.

    Raises:
        ValueError: a size or the number of layers is below 1, the width is even, or dropout is 1.
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
    ):
        blocks = [GatedConvolution(hidden_size, width, dropout) for _ in range(layers)]
        looks = [
            ConvS2SDecoderLayer(embedding_size, hidden_size, width, dropout)
            for _ in range(layers)
        ]
        positions = [
            LearnedPositionalEncoding(max_length, embedding_size) for _ in range(2)
        ]
        super().__init__(
            ConvS2SEncoder(
                source_vocabulary, embedding_size, positions[0], blocks, dropout
            ),
            ConvS2SDecoder(
                target_vocabulary, embedding_size, positions[1], looks, dropout
            ),
        )
