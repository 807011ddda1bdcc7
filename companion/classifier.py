"""Classifiers of one sequence, and of a pair: an encoder, a pooling, and one linear layer."""

from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from companion.attention import check_positive
from companion.embedding import Embedding
from companion.multihead import MultiHeadAttention
from companion.pooling import BCNN, Sentences, mean_pooling
from companion.recurrent import run_packed, source_mask

#: From states ``(*b, n, d)`` and the mask of the words ``(*b, n)`` to one vector a sequence, ``(*b, v)``.
Pooling = Callable[[Tensor, Tensor], Tensor]
_SPREAD = 5  # times the small first values of an embedding


class WordEncoder(nn.Module):
    """The vectors of the words, and nothing else: what stands where, and beside what, is not seen.

    Raises:
        ValueError: a size is below 1.
    """

    def __init__(self, vocabulary_size: int, size: int):
        super().__init__()
        self.embedding = Embedding(vocabulary_size, size)

    def forward(self, tokens: Int[Tensor, "b n"]) -> tuple[Float[Tensor, "b n d"], Bool[Tensor, "b n"]]:
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

    def forward(self, tokens: Int[Tensor, "b n"]) -> tuple[Float[Tensor, "b n d"], Bool[Tensor, "b n"]]:
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

    ``position`` tells the words where they stand: a module of :mod:`companion.position`, or, if that changes
    the size, an ``nn.Sequential`` with a linear layer that changes it back. Without it, the same words in
    another order have the same states, in that order. There is no residual connection, no normalisation, and
    no second layer.

    Source: Su 2018, whose attention has no biases and no matrix after the heads have been joined, and reads
    words that have grown by their positions as they are. Deviations: ours is
    :class:`~companion.multihead.MultiHeadAttention`, with both, and keeps one size; and padding is masked.

    Raises:
        ValueError: a size is below 1, or ``size`` cannot be divided among the heads.
    """

    def __init__(self, vocabulary_size: int, size: int, heads: int, position: nn.Module | None = None):
        super().__init__()
        self.embedding = Embedding(vocabulary_size, size)
        self.position = nn.Identity() if position is None else position
        self.attention = MultiHeadAttention(size, heads)

    def forward(self, tokens: Int[Tensor, "b n"]) -> tuple[Float[Tensor, "b n d"], Bool[Tensor, "b n"]]:
        """The states of each text, and the mask of its words.

        Raises:
            ValueError: a text is empty, has padding before a word, or a token outside the vocabulary; or the
                position changes the vectors' size.
        """
        mask, words = source_mask(tokens), self.position(self.embedding(tokens))
        return self.attention(words, *self.attention.project(words), mask[:, None]), mask


class Classifier(nn.Module):
    """Encode a sequence, pool its states into one vector, and score the classes.

    ::

        logits = W dropout(pooling(encoder(x))) + b

    ``encoder`` gives states and mask, as :class:`WordEncoder`, :class:`GRUEncoder` and
    :class:`SelfAttentionEncoder`; ``pooling`` makes one vector of ``size`` features of them: a function of
    :mod:`companion.pooling`, or a module such as :class:`~companion.pooling.AttentionPooling`, whose
    parameters then belong to the model. ``dropout`` is the share of the vector's features set to zero in
    training.

    Raises:
        ValueError: a size is below 1, or ``dropout`` is not between 0 and 1.
    """

    def __init__(self, encoder: nn.Module, pooling: Pooling, size: int, classes: int, dropout: float = 0.0):
        super().__init__()
        check_positive(size=size, classes=classes)
        self.encoder, self.pooling = encoder, pooling
        self.dropout = nn.Dropout(dropout)
        self.W = nn.Linear(size, classes)

    def forward(self, *inputs: Tensor) -> Float[Tensor, "b c"]:
        """Unnormalised log-probabilities of the classes; the inputs are the encoder's."""
        return self.W(self.dropout(self.pooling(*self.encoder(*inputs))))


class PairClassifier(nn.Module):
    """Read two texts through blocks of BCNN or ABCNN, compare the two at every level, and score the classes.

    ::

        left_0, right_0 = the words' vectors;   left_l, right_l = block_l(left_{l−1}, right_{l−1})
        x_l, y_l = the means of left_l and right_l
        logits = W [x_0 ∘ y_0; |x_0 − y_0|; …; x_L ∘ y_L; |x_L − y_L|] + b

    Source: Yin et al. 2016, section 3: both texts share all parameters, and the means (the paper's *all-ap*)
    of all levels go to the output layer. Deviations: the output layer is given products and distances, for a
    linear layer over the two vectors cannot compare them; and the mean is that of the pooled block, so
    that one block of ABCNN-2 has a say. The paper's word vectors are word2vec's; ours begin with a standard
    deviation of 0.5, for the match score tells words apart by their distance.

    Raises:
        ValueError: a size is below 1, there is no block, or one does not read what the one before it gives.
    """

    def __init__(self, vocabulary_size: int, blocks: Sequence[BCNN], classes: int):
        super().__init__()
        check_positive(blocks=len(blocks), classes=classes)
        for block, following in pairwise(blocks):
            if following.size != block.convolution.out_channels:
                raise ValueError(
                    f"a block of {block.convolution.out_channels} channels is followed by one that reads"
                    f" {following.size} features"
                )
        self.blocks = nn.ModuleList(blocks)
        self.encoder = WordEncoder(vocabulary_size, blocks[0].size)
        self.encoder.embedding.weight.data *= _SPREAD
        levels = [blocks[0].size, *(block.convolution.out_channels for block in blocks)]
        self.W = nn.Linear(2 * sum(levels), classes)

    def forward(self, left: Int[Tensor, "b m"], right: Int[Tensor, "b n"]) -> Float[Tensor, "b c"]:
        """Unnormalised log-probabilities of the classes of each pair.

        Raises:
            ValueError: a text is empty, has padding before a word, or a token outside the vocabulary; or
                there are not as many left texts as right ones.
        """
        levels = [(Sentences(*self.encoder(left)), Sentences(*self.encoder(right)))]
        for block in self.blocks:
            levels.append(block(*levels[-1]))
        return self.W(torch.cat([_compare(*sides) for sides in levels], -1))


def _compare(left: Sentences, right: Sentences) -> Float[Tensor, "b two_d"]:
    x, y = mean_pooling(*left), mean_pooling(*right)
    return torch.cat([x * y, (x - y).abs()], -1)
