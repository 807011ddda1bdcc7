"""Text classifiers: an encoder, a pooling of its states, and one linear layer."""

from collections.abc import Callable
from typing import NamedTuple

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from companion._checks import check_positive
from companion.attention.multihead import MultiHeadAttention
from companion.layers.embedding import Embedding
from companion.layers.recurrent import run_packed, source_mask

#: From states ``(*b, n, d)`` and the mask of the words ``(*b, n)`` to one vector a
#: sequence, ``(*b, v)``.
PoolingFunction = Callable[[Tensor, Tensor], Tensor]


class SentenceStates(NamedTuple):
    """A state for each word of a batch of texts, and the mask of the words."""

    states: Float[Tensor, "b n d"]
    mask: Bool[Tensor, "b n"]


class WordEncoder(nn.Module):
    """The word vectors alone: no position and no neighbouring word changes them.

    Args:
        vocabulary_size: how many words there are.
        size: features of a word vector.
        embedding: the class of the table of vectors.
        pad: the token that is padding; ``None`` if there is none.

    Example:
        >>> states, mask = WordEncoder(11, 6, pad=0)(torch.tensor([[4, 7, 5], [9, 0, 0]]))
        >>> states.shape, mask.sum(1)
        (torch.Size([2, 3, 6]), tensor([3, 1]))
    """

    def __init__(
        self,
        vocabulary_size: int,
        size: int,
        embedding: type[Embedding] = Embedding,
        pad: int | None = None,
    ):
        super().__init__()
        self.embedding = embedding(vocabulary_size, size, pad)

    def forward(self, tokens: Int[Tensor, "b n"]) -> SentenceStates:
        """The word vectors of each text, and the mask of its words."""
        mask = source_mask(tokens, self.embedding.padding_idx)
        return SentenceStates(self.embedding(tokens), mask)


class GRUEncoder(nn.Module):
    """The hidden states of a GRU that reads the text from left to right.

    Args:
        vocabulary_size, embedding_size: how many words there are, and features of a
            word.
        size: features of a hidden state.
        pad: the token that is padding; ``None`` if there is none.

    Example:
        >>> states, mask = GRUEncoder(11, 5, 6, pad=0)(torch.tensor([[4, 7, 5], [9, 0, 0]]))
        >>> states.shape
        torch.Size([2, 3, 6])
    """

    def __init__(
        self,
        vocabulary_size: int,
        embedding_size: int,
        size: int,
        pad: int | None = None,
    ):
        super().__init__()
        check_positive(size=size)
        self.embedding = Embedding(vocabulary_size, embedding_size, pad)
        self.rnn = nn.GRU(embedding_size, size, batch_first=True)

    def forward(self, tokens: Int[Tensor, "b n"]) -> SentenceStates:
        """The hidden states of each text, and the mask of its words."""
        mask = source_mask(tokens, self.embedding.padding_idx)
        states, _ = run_packed(self.rnn, self.embedding(tokens), mask)
        return SentenceStates(states, mask)


class SelfAttentionEncoder(nn.Module):
    """One layer of multi-head self-attention over the words of a text.

    ::

        X = position(embedding(x)),   states = MultiHead(X, X, X)

    There is no residual connection, no layer normalisation and no second layer. Without
    positions, permuting the words permutes the states and changes nothing else.

    Args:
        vocabulary_size: how many words there are.
        size: features of a word vector and of a state.
        heads: the number of heads, which divides ``size``.
        position: adds positions to the word vectors, as the modules of
            :mod:`companion.layers.positional_encoding` do. One that changes the size
            goes into an ``nn.Sequential`` with a linear layer that changes it back.
        pad: the token that is padding; ``None`` if there is none.

    Source: Su 2018.
    Deviation: his attention has no biases and no output matrix, and takes word vectors
    extended by their positions as they are; ours is
    :class:`~companion.attention.multihead.MultiHeadAttention`, the standard form.
    Deviation: padding is masked, so that it changes nothing.

    Example:
        >>> encoder = SelfAttentionEncoder(11, size=6, heads=2, pad=0)
        >>> states, mask = encoder(torch.tensor([[4, 7, 5], [9, 0, 0]]))
        >>> states.shape
        torch.Size([2, 3, 6])
    """

    def __init__(
        self,
        vocabulary_size: int,
        size: int,
        heads: int,
        position: nn.Module | None = None,
        pad: int | None = None,
    ):
        super().__init__()
        self.embedding = Embedding(vocabulary_size, size, pad)
        self.position = nn.Identity() if position is None else position
        self.attention = MultiHeadAttention(size, heads)

    def forward(self, tokens: Int[Tensor, "b n"]) -> SentenceStates:
        """The states of each text, and the mask of its words."""
        mask = source_mask(tokens, self.embedding.padding_idx)
        words = self.position(self.embedding(tokens))
        key, value = self.attention.project(words)
        states = self.attention(words, key, value, mask[:, None])
        return SentenceStates(states, mask)


class Classifier(nn.Module):
    """Encodes a sequence, pools its states into one vector, and scores the classes.

    ::

        logits = W dropout(pooling(encoder(x))) + b

    Args:
        encoder: returns states and mask, as :class:`WordEncoder`, :class:`GRUEncoder`
            and :class:`SelfAttentionEncoder` do.
        pooling: makes one vector of ``size`` features of them. It is a function such as
            :func:`~companion.attention.pooling.mean_pooling`, or a module such as
            :class:`~companion.attention.pooling.AttentionPooling`, whose parameters
            then belong to the model.
        size: features of the pooled vector.
        classes: how many classes there are.
        dropout: the probability that a feature of the vector is zeroed in training.

    Example:
        >>> from companion.attention import mean_pooling
        >>> encoder = GRUEncoder(11, 5, 6, pad=0)
        >>> classifier = Classifier(encoder, mean_pooling, 6, classes=2)
        >>> classifier(torch.tensor([[4, 7, 5], [9, 0, 0]])).shape
        torch.Size([2, 2])
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
        """The logits of the classes; the inputs are the encoder's."""
        pooled = self.pooling(*self.encoder(*inputs))
        return self.W(self.dropout(pooled))
