"""ABCNN (Yin et al. 2016): convolutional sentence pairs with attention before or after the convolution."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from companion._checks import check_padding, check_positive, check_size, check_states
from companion.attention.base import uniform_parameter
from companion.attention.pooling import mean_pooling
from companion.models.text_classifier import WordEncoder


class SentenceStates(NamedTuple):
    """One side of a batch of sentence pairs: states, and where they are words. Padding is on the right."""

    states: Float[Tensor, "b n d"]
    mask: Bool[Tensor, "b n"]


def match_scores(left: SentenceStates, right: SentenceStates) -> Float[Tensor, "b m n"]:
    """ABCNN's attention matrix: how near each word of one sentence is to each of the other; padding is 0.

    ::

        A_ij = 1 / (1 + |x_i − y_j|)

    Source: Yin et al. 2016, section 4, where the distance is Euclidean.
    """
    differences = left.states.unsqueeze(-2) - right.states.unsqueeze(-3)
    scores = 1 / (1 + torch.linalg.vector_norm(differences, dim=-1))
    return scores.masked_fill(~(left.mask.unsqueeze(-1) & right.mask.unsqueeze(-2)), 0)


class BCNN(nn.Module):
    """A block without attention: a wide convolution, then the mean of each window. Blocks can be stacked.

    ::

        p_i = tanh(W [v_{i−w+1}; …; v_i] + b),   i = 1 … s + w − 1
        v'_j = 1/w Σ_{k=j}^{j+w−1} p_k,          j = 1 … s

    Source: Yin et al. 2016, section 3; ``width`` is w, s the length of the sentence, and both sentences share
    W and b. What lies beyond either end is zero. The paper's *all-ap* is :func:`mean_pooling` of what
    :meth:`convolve` gives. Deviation: s is each sentence's own length, so that padding changes nothing; the
    paper fills both sentences with zeros to one length, and takes these for words.

    Raises:
        ValueError: a size is below 1.
    """

    maps = 1  #: how many feature maps the convolution reads

    def __init__(self, size: int, channels: int, width: int):
        super().__init__()
        check_positive(size=size, channels=channels, width=width)
        self.size, self.width = size, width
        self.convolution = nn.Conv1d(
            self.maps * size, channels, width, padding=width - 1
        )

    def stack(
        self, left: SentenceStates, right: SentenceStates
    ) -> tuple[Tensor, Tensor]:
        """What the convolution reads, all its feature maps side by side: here the words alone."""
        return left.states, right.states

    def convolve(
        self, left: SentenceStates, right: SentenceStates
    ) -> tuple[SentenceStates, SentenceStates]:
        """The phrases of ``width`` words: in each sentence ``width − 1`` more than it has words.

        Raises:
            TypeError: a mask is not boolean.
            ValueError: a sentence is empty, or has padding before a word; or sizes or masks do not fit.
        """
        left, right = self._words("left", left), self._words("right", right)
        if len(left.mask) != len(right.mask):
            raise ValueError(
                f"{len(left.mask)} left and {len(right.mask)} right sentences do not make pairs"
            )
        first, second = (
            torch.tanh(self.convolution(x.mT).mT) for x in self.stack(left, right)
        )
        grown = [
            functional.pad(side.mask, (self.width - 1, 0), value=True)
            for side in (left, right)
        ]
        return _only(first, grown[0]), _only(second, grown[1])

    def pool(
        self, left: SentenceStates, right: SentenceStates
    ) -> tuple[SentenceStates, SentenceStates]:
        """From phrases back to as many vectors as words: here the mean of each window of phrases."""
        return self._windows(left, 1 / self.width), self._windows(right, 1 / self.width)

    def forward(
        self, left: SentenceStates, right: SentenceStates
    ) -> tuple[SentenceStates, SentenceStates]:
        """Convolve and pool: sentences as long as before, of ``channels`` features."""
        return self.pool(*self.convolve(left, right))

    def _words(self, name: str, side: SentenceStates) -> SentenceStates:
        check_states(f"{name} side", *side)
        check_size(f"{name} side", side.states, self.size)
        check_padding(side.mask, f"the {name} side")
        return _only(*side)

    def _windows(self, side: SentenceStates, weights: Tensor | float) -> SentenceStates:
        """The weighted sum of each window of ``width`` phrases: one for each word."""
        sums = (side.states * weights).unfold(1, self.width, 1).sum(-1)
        return _only(sums, side.mask[:, self.width - 1 :])


class ABCNN1(BCNN):
    """Attention before the convolution, which reads a second feature map: what each word matches, and where.

    ::

        F_0 = W_0 Aᵀ,   F_1 = W_0 A,   A = match_scores(left, right)

    Source: Yin et al. 2016, section 4, with columns for words. Both sides share W_0, as in the paper's own
    implementation. Its columns belong to the positions of the other sentence, so there must be a longest one.

    Raises:
        ValueError: a size is below 1.
    """

    maps = 2

    def __init__(self, size: int, channels: int, width: int, max_length: int):
        super().__init__(size, channels, width)
        check_positive(max_length=max_length)
        self.W_0 = uniform_parameter(size, max_length)

    def stack(
        self, left: SentenceStates, right: SentenceStates
    ) -> tuple[Tensor, Tensor]:
        """The words, and beside each its column of the attention feature map.

        Raises:
            ValueError: a sentence has more than ``max_length`` words.
        """
        scores = match_scores(left, right)
        first, second = self._map(scores, right.mask), self._map(scores.mT, left.mask)
        return torch.cat([left.states, first], -1), torch.cat(
            [right.states, second], -1
        )

    def _map(self, scores: Tensor, other: Tensor) -> Tensor:
        limit = self.W_0.shape[1]
        if other.shape[1] > limit and other[:, limit:].any():
            longest = int(other.sum(1).max())
            raise ValueError(
                f"a sentence has {longest} words, but max_length is {limit}"
            )
        return functional.linear(scores[..., :limit], self.W_0[:, : scores.shape[-1]])


class ABCNN2(BCNN):
    """Attention after the convolution: in each window, the phrases that match the other sentence count more.

    ::

        v'_j = Σ_{k=j}^{j+w−1} a_k p_k,   a_k = Σ_l A_kl,   A = match_scores(phrases, the other's phrases)

    Source: Yin et al. 2016, section 4. The weights are sums of scores and no shares: as in the paper,
    nothing divides by them or by w, and they grow with the length of the other sentence.

    Raises:
        ValueError: a size is below 1.
    """

    def pool(
        self, left: SentenceStates, right: SentenceStates
    ) -> tuple[SentenceStates, SentenceStates]:
        """The sum of each window of phrases, each weighted by how well it matches the other sentence."""
        scores = match_scores(left, right)
        rows, columns = scores.sum(2, keepdim=True), scores.mT.sum(2, keepdim=True)
        return self._windows(left, rows), self._windows(right, columns)


class ABCNN3(ABCNN1, ABCNN2):
    """Attention before the convolution, as :class:`ABCNN1`, and after it, as :class:`ABCNN2`.

    Source: Yin et al. 2016, section 4.

    Raises:
        ValueError: a size is below 1.
    """


def _only(states: Tensor, mask: Tensor) -> SentenceStates:
    """Sentences whose padding is zero."""
    return SentenceStates(states.masked_fill(~mask.unsqueeze(-1), 0), mask)


_SPREAD = 5  # times the small first values of an embedding


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

    def forward(
        self, left: Int[Tensor, "b m"], right: Int[Tensor, "b n"]
    ) -> Float[Tensor, "b c"]:
        """Unnormalised log-probabilities of the classes of each pair.

        Raises:
            ValueError: a text is empty, has padding before a word, or a token outside the vocabulary; or
                there are not as many left texts as right ones.
        """
        levels = [
            (SentenceStates(*self.encoder(left)), SentenceStates(*self.encoder(right)))
        ]
        for block in self.blocks:
            levels.append(block(*levels[-1]))
        return self.W(torch.cat([_compare(*sides) for sides in levels], -1))


def _compare(left: SentenceStates, right: SentenceStates) -> Float[Tensor, "b two_d"]:
    x, y = mean_pooling(*left), mean_pooling(*right)
    return torch.cat([x * y, (x - y).abs()], -1)
