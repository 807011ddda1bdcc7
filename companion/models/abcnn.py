"""ABCNN (Yin et al. 2016): convolution over pairs of sentences, with attention."""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from companion._checks import (
    check_padding,
    check_pairs,
    check_positive,
    check_source,
)
from companion._transforms import has_numbers
from companion.attention.base import reset_uniform, uniform_parameter
from companion.attention.pooling import mean_pooling
from companion.layers.embedding import Embedding
from companion.models.text_classifier import SentenceStates, WordEncoder

Pair = tuple[SentenceStates, SentenceStates]  #: the two sides of sentence pairs


def match_scores(left: SentenceStates, right: SentenceStates) -> Float[Tensor, "b m n"]:
    """ABCNN's attention matrix: the similarity of the words of two sentences.

    ::

        A_ij = 1 / (1 + |x_i − y_j|)

    It is 0 where either side is padding.

    Args:
        left, right: sentences of m and of n words.

    Source: Yin et al. 2016, section 4, where the distance is Euclidean.

    Example:
        >>> x, y = torch.tensor([[[0.0], [3.0]]]), torch.tensor([[[3.0]]])
        >>> left = SentenceStates(x, torch.ones(1, 2).bool())
        >>> match_scores(left, SentenceStates(y, torch.ones(1, 1).bool()))
        tensor([[[0.2500],
                 [1.0000]]])
    """
    _check_sides(left, right, left.states.shape[-1])
    differences = left.states.unsqueeze(-2) - right.states.unsqueeze(-3)  # (b, m, n, d)
    scores = 1 / (1 + torch.linalg.vector_norm(differences, dim=-1))
    return scores.masked_fill(~(left.mask.unsqueeze(-1) & right.mask.unsqueeze(-2)), 0)


class BCNN(nn.Module):
    """A block without attention: a wide convolution, then the mean of each window.

    ::

        p_i = tanh(W [v_{i−w+1}; …; v_i] + b),   i = 1 … s + w − 1
        v'_j = 1/w Σ_{k=j}^{j+w−1} p_k,          j = 1 … s

    Both sentences share W and b. Words beyond either end are zero. Blocks can be
    stacked, because a sentence keeps its length. The paper's *all-ap* is
    :func:`~companion.attention.pooling.mean_pooling` of what :meth:`convolve` returns.

    Args:
        size: features of a word.
        channels: features of a phrase, and of the block's output.
        width: w, the words of a phrase and the phrases of a window.

    Source: Yin et al. 2016, section 3.
    Deviation: the paper pads both sentences to one length and takes the padding for
    words; here s is each sentence's own length, so that padding changes nothing.

    Example:
        >>> block, mask = BCNN(6, channels=5, width=3), torch.ones(2, 4).bool()
        >>> left = right = SentenceStates(torch.rand(2, 4, 6), mask)
        >>> left, right = block(left, right)
        >>> left.states.shape
        torch.Size([2, 4, 5])
    """

    feature_maps = 1  #: how many feature maps the convolution reads

    def __init__(self, size: int, channels: int, width: int):
        super().__init__()
        check_positive(size=size, channels=channels, width=width)
        self.size, self.width = size, width
        self.convolution = nn.Conv1d(
            self.feature_maps * size, channels, width, padding=width - 1
        )

    def stack(
        self, left: SentenceStates, right: SentenceStates
    ) -> tuple[Tensor, Tensor]:
        """The convolution's input, its feature maps concatenated: here words alone."""
        return left.states, right.states

    def convolve(self, left: SentenceStates, right: SentenceStates) -> Pair:
        """The phrases of ``width`` words: ``width − 1`` more than a sentence has words."""
        _check_sides(left, right, self.size)
        check_padding(left.mask, "the left side")
        check_padding(right.mask, "the right side")
        left, right = _without_padding(*left), _without_padding(*right)
        before = (self.width - 1, 0)
        masks = (functional.pad(x.mask, before, value=True) for x in (left, right))
        first, second = (
            _without_padding(torch.tanh(self.convolution(x.mT).mT), mask)
            for x, mask in zip(self.stack(left, right), masks, strict=True)
        )  # (b, m + w − 1, channels) and (b, n + w − 1, channels)
        return first, second

    def pool(self, left: SentenceStates, right: SentenceStates) -> Pair:
        """From phrases back to one vector a word: here the mean of each window."""
        mean = 1 / self.width
        return self.window_sums(left, mean), self.window_sums(right, mean)

    def forward(self, left: SentenceStates, right: SentenceStates) -> Pair:
        """Convolve and pool: sentences as long as before, of ``channels`` features."""
        return self.pool(*self.convolve(left, right))

    def window_sums(
        self, phrases: SentenceStates, weights: Tensor | float
    ) -> SentenceStates:
        """The weighted sum of each window of ``width`` phrases: one vector a word."""
        weighted = phrases.states * weights  # (b, n + w − 1, channels)
        sums = weighted.unfold(1, self.width, 1).sum(-1)  # (b, n, channels)
        return _without_padding(sums, phrases.mask[:, self.width - 1 :])


class ABCNN1(BCNN):
    """Attention before the convolution: a feature map says what each word matches.

    ::

        F_0 = W_0 Aᵀ,   F_1 = W_0 A,   A = match_scores(left, right)

    The columns of W_0 belong to the positions of the other sentence, so there is a
    maximum length.

    Args:
        size, channels, width: as :class:`BCNN`.
        max_length: the most words that a sentence may have.

    Source: Yin et al. 2016, section 4, with one row a word where the paper has one
    column. Both sides share W_0, as in the authors' implementation.

    Example:
        >>> block, mask = ABCNN1(6, 5, width=3, max_length=4), torch.ones(2, 4).bool()
        >>> left = right = SentenceStates(torch.rand(2, 4, 6), mask)
        >>> [side.shape for side in block.stack(left, right)]
        [torch.Size([2, 4, 12]), torch.Size([2, 4, 12])]
    """

    feature_maps = 2

    def __init__(self, size: int, channels: int, width: int, max_length: int):
        super().__init__(size, channels, width)
        check_positive(max_length=max_length)
        self.W_0 = uniform_parameter(size, max_length)

    def reset_parameters(self) -> None:
        """Initialise W_0 again."""
        reset_uniform(self.W_0)

    def stack(
        self, left: SentenceStates, right: SentenceStates
    ) -> tuple[Tensor, Tensor]:
        """The words, each concatenated with its row of the attention feature map."""
        scores = match_scores(left, right)
        first = self.feature_map(scores, right.mask)
        second = self.feature_map(scores.mT, left.mask)
        return (
            torch.cat([left.states, first], -1),
            torch.cat([right.states, second], -1),
        )

    def feature_map(
        self, scores: Float[Tensor, "b m n"], other: Bool[Tensor, "b n"]
    ) -> Float[Tensor, "b m d"]:
        """One vector a word, from its scores with the n words of the other sentence."""
        limit = self.W_0.shape[1]
        _check_words(other, limit)
        return functional.linear(scores[..., :limit], self.W_0[:, : scores.shape[-1]])


class ABCNN2(BCNN):
    """Attention after the convolution: each phrase is weighted by how well it matches.

    ::

        v'_j = Σ_{k=j}^{j+w−1} a_k p_k,   a_k = Σ_l A_kl,
        A = match_scores(left, right)

    The scores are those of phrases. The weights are sums of scores and are not
    normalised: as in the paper, nothing divides by their sum or by w, and they grow
    with the length of the other sentence.

    Args:
        size, channels, width: as :class:`BCNN`.

    Source: Yin et al. 2016, section 4.

    Example:
        >>> block, mask = ABCNN2(6, channels=5, width=3), torch.ones(2, 4).bool()
        >>> left = right = SentenceStates(torch.rand(2, 4, 6), mask)
        >>> left, right = block(left, right)
        >>> left.states.shape
        torch.Size([2, 4, 5])
    """

    def pool(self, left: SentenceStates, right: SentenceStates) -> Pair:
        """The sum of each window of phrases, each weighted by its match."""
        scores = match_scores(left, right)
        rows, columns = scores.sum(2, keepdim=True), scores.mT.sum(2, keepdim=True)
        return self.window_sums(left, rows), self.window_sums(right, columns)


class ABCNN3(ABCNN1, ABCNN2):
    """Attention before and after the convolution, as in ABCNN-1 and in ABCNN-2.

    Args:
        size, channels, width, max_length: as :class:`ABCNN1`.

    Source: Yin et al. 2016, section 4.

    Example:
        >>> block, mask = ABCNN3(6, 5, width=3, max_length=4), torch.ones(2, 4).bool()
        >>> left = right = SentenceStates(torch.rand(2, 4, 6), mask)
        >>> left, right = block(left, right)
        >>> left.states.shape
        torch.Size([2, 4, 5])
    """


def _check_sides(left: SentenceStates, right: SentenceStates, size: int) -> None:
    """Refuse the two sides of sentence pairs if states, masks or batches do not fit."""
    check_source(*left, size, "left side")
    check_source(*right, size, "right side")
    check_pairs("left", left.states, "right sentences", right.states)


def _check_words(mask: Bool[Tensor, "b n"], limit: int) -> None:
    """Refuse a sentence of more than ``limit`` words, where the mask has numbers."""
    if mask.shape[1] > limit and has_numbers(mask) and mask[:, limit:].any():
        raise ValueError(
            f"a sentence has {int(mask.sum(1).max())} words, but max_length is {limit}"
        )


def _without_padding(states: Tensor, mask: Tensor) -> SentenceStates:
    """Sentences whose states are zero at the padding."""
    return SentenceStates(states.masked_fill(~mask.unsqueeze(-1), 0), mask)


class _SpreadEmbedding(Embedding):
    """Word vectors with a standard deviation of 0.5, far apart for a match score."""

    def reset_parameters(self) -> None:
        super().reset_parameters()
        with torch.no_grad():
            self.weight.mul_(5)


class PairClassifier(nn.Module):
    """Classifies pairs of texts by comparing the two after each block of BCNN or ABCNN.

    ::

        left_0, right_0 = the words' vectors
        left_l, right_l = block_l(left_{l−1}, right_{l−1})
        x_l, y_l = the means of left_l and right_l
        logits = W [x_0 ∘ y_0; |x_0 − y_0|; …; x_L ∘ y_L; |x_L − y_L|] + b

    Both texts share all parameters.

    Args:
        vocabulary_size: how many words there are.
        blocks: blocks of :class:`BCNN` or its subclasses, each reading as many features
            as the one before it has channels.
        classes: how many classes there are.
        pad: the token that is padding; ``None`` if there is none.

    Source: Yin et al. 2016, section 3, whose *all-ap* is the mean here.
    Deviation: the paper gives the means themselves to the output layer; ours gets
    products and distances, because a linear layer over two vectors cannot compare them.
    Deviation: the paper takes the mean of the phrases; ours is the mean of the pooled
    block, because otherwise the pooling of a single block of ABCNN-2 would change
    nothing.
    Deviation: the paper's word vectors are word2vec's; ours are learned, and
    initialised with a standard deviation of 0.5, because the match score tells words
    apart by their distance.

    Example:
        >>> blocks = [BCNN(6, 5, 3), BCNN(5, 4, 3)]
        >>> classifier = PairClassifier(11, blocks, classes=2, pad=0)
        >>> left, right = torch.tensor([[4, 7, 5], [9, 0, 0]]), torch.tensor([[5], [6]])
        >>> classifier(left, right).shape
        torch.Size([2, 2])
    """

    def __init__(
        self,
        vocabulary_size: int,
        blocks: Sequence[BCNN],
        classes: int,
        pad: int | None = None,
    ):
        super().__init__()
        check_positive(blocks=len(blocks), classes=classes)
        self.blocks = nn.ModuleList(blocks)
        self.encoder = WordEncoder(
            vocabulary_size, blocks[0].size, _SpreadEmbedding, pad
        )
        levels = [blocks[0].size, *(block.convolution.out_channels for block in blocks)]
        self.W = nn.Linear(2 * sum(levels), classes)

    def forward(
        self, left: Int[Tensor, "b m"], right: Int[Tensor, "b n"]
    ) -> Float[Tensor, "b c"]:
        """The logits of the classes of each pair."""
        check_pairs("left", left, "right sentences", right)
        sides = self.encoder(left), self.encoder(right)
        features = [_comparison(*sides)]
        for block in self.blocks:
            sides = block(*sides)
            features.append(_comparison(*sides))
        return self.W(torch.cat(features, -1))


def _comparison(
    left: SentenceStates, right: SentenceStates
) -> Float[Tensor, "b two_d"]:
    x, y = mean_pooling(*left), mean_pooling(*right)
    return torch.cat([x * y, (x - y).abs()], -1)
