"""Classifiers of one sequence, and of a pair: an encoder, a pooling, and one linear layer."""

from collections.abc import Callable

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from companion._checks import check_positive
from companion.attention.multihead import MultiHeadAttention
from companion.layers.embedding import Embedding
from companion.layers.recurrent import run_packed, source_mask

#: From states ``(*b, n, d)`` and the mask of the words ``(*b, n)`` to one vector a sequence, ``(*b, v)``.
PoolingFunction = Callable[[Tensor, Tensor], Tensor]


class WordEncoder(nn.Module):
    """The vectors of the words, and nothing else: what stands where, and beside what, is not seen.

    Raises:
        ValueError: a size is below 1.
    """

    def __init__(self, vocabulary_size: int, size: int):
        super().__init__()
        self.embedding = Embedding(vocabulary_size, size)

    def forward(
        self, tokens: Int[Tensor, "b n"]
    ) -> tuple[Float[Tensor, "b n d"], Bool[Tensor, "b n"]]:
        """The vectors of each text, and the mask of its words.

        Raises:
            ValueError: a text is empty, has padding before a word, or a token outside the vocabulary.
        """
        return self.embedding(tokens), source_mask(tokens)


class GRUEncoder(nn.Module):
    """States of a recurrent network that reads forward: each has read the words up to its own.

    Raises:
        ValueError: a size is below 1.
    """

    def __init__(self, vocabulary_size: int, embedding_size: int, size: int):
        super().__init__()
        check_positive(size=size)
        self.embedding = Embedding(vocabulary_size, embedding_size)
        self.rnn = nn.GRU(embedding_size, size, batch_first=True)

    def forward(
        self, tokens: Int[Tensor, "b n"]
    ) -> tuple[Float[Tensor, "b n d"], Bool[Tensor, "b n"]]:
        """The states of each text, and the mask of its words.

        Raises:
            ValueError: a text is empty, has padding before a word, or a token outside the vocabulary.
        """
        mask = source_mask(tokens)
        return run_packed(self.rnn, self.embedding(tokens), mask)[0], mask


class SelfAttentionEncoder(nn.Module):
    """The words of a text, each as what it finds by looking at all: one layer of multi-head attention.

    ::

        X = position(embedding(x)),   states = MultiHead(X, X, X)

    ``position`` tells the words where they stand: a module of :mod:`companion.layers.positional_encoding`, or, if that changes
    the size, an ``nn.Sequential`` with a linear layer that changes it back. Without it, the same words in
    another order have the same states, in that order. There is no residual connection, no normalisation, and
    no second layer.

    Source: Su 2018, whose attention has no biases and no matrix after the heads have been joined, and reads
    words that have grown by their positions as they are. Deviations: ours is
    :class:`~companion.attention.multihead.MultiHeadAttention`, with both, and keeps one size; and padding is masked.

    Raises:
        ValueError: a size is below 1, or ``size`` cannot be divided among the heads.
    """

    def __init__(
        self,
        vocabulary_size: int,
        size: int,
        heads: int,
        position: nn.Module | None = None,
    ):
        super().__init__()
        self.embedding = Embedding(vocabulary_size, size)
        self.position = nn.Identity() if position is None else position
        self.attention = MultiHeadAttention(size, heads)

    def forward(
        self, tokens: Int[Tensor, "b n"]
    ) -> tuple[Float[Tensor, "b n d"], Bool[Tensor, "b n"]]:
        """The states of each text, and the mask of its words.

        Raises:
            ValueError: a text is empty, has padding before a word, or a token outside the vocabulary; or the
                position changes the vectors' size.
        """
        mask, words = source_mask(tokens), self.position(self.embedding(tokens))
        return self.attention(
            words, *self.attention.project(words), mask[:, None]
        ), mask


class Classifier(nn.Module):
    """Encode a sequence, pool its states into one vector, and score the classes.

    ::

        logits = W dropout(pooling(encoder(x))) + b

    ``encoder`` gives states and mask, as :class:`WordEncoder`, :class:`GRUEncoder` and
    :class:`SelfAttentionEncoder`; ``pooling`` makes one vector of ``size`` features of them: a function of
    :mod:`companion.models.abcnn`, or a module such as :class:`~companion.attention.pooling.AttentionPooling`, whose
    parameters then belong to the model. ``dropout`` is the share of the vector's features set to zero in
    training.

    Raises:
        ValueError: a size is below 1, or ``dropout`` is not between 0 and 1.
    """

    def __init__(
        self,
        encoder: nn.Module,
        pooling: PoolingFunction,
        size: int,
        classes: int,
        dropout: float = 0.0,
    ):
        super().__init__()
        check_positive(size=size, classes=classes)
        self.encoder, self.pooling = encoder, pooling
        self.dropout = nn.Dropout(dropout)
        self.W = nn.Linear(size, classes)

    def forward(self, *inputs: Tensor) -> Float[Tensor, "b c"]:
        """Unnormalised log-probabilities of the classes; the inputs are the encoder's."""
        return self.W(self.dropout(self.pooling(*self.encoder(*inputs))))
