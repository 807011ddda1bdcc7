"""Readers that answer a question with a word of a document: attention sum, and attention over attention."""

from abc import ABC, abstractmethod

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from companion._checks import check_even, check_positive
from companion.attention.attention_over_attention import attention_over_attention
from companion.attention.base import masked_softmax
from companion.attention.pooling import last_pooling, mean_pooling
from companion.layers.embedding import Embedding
from companion.layers.recurrent import run_packed, source_mask


class Reader(nn.Module, ABC):
    """Document and question, each read by a bidirectional GRU, to find the answer's places.

    The embedding is common to both. ``size`` counts the features of both directions together. Source: section
    3 of Kadlec et al. 2016, and of Cui et al. 2017.

    Raises:
        ValueError: a size is below 1, or ``size`` is odd.
    """

    def __init__(self, vocabulary_size: int, embedding_size: int, size: int):
        super().__init__()
        check_positive(vocabulary_size=vocabulary_size, embedding_size=embedding_size)
        check_even(size=size)
        self.embedding = Embedding(vocabulary_size, embedding_size)
        self.document_rnn, self.question_rnn = (
            nn.GRU(embedding_size, size // 2, batch_first=True, bidirectional=True)
            for _ in range(2)
        )

    @abstractmethod
    def attend(
        self,
        states: Float[Tensor, "b n d"],
        document: Bool[Tensor, "b n"],
        asked: Float[Tensor, "b m d"],
        question: Bool[Tensor, "b m"],
    ) -> Float[Tensor, "b n"]:
        """The share of each place of the document, from both texts' states and the masks of their words."""

    def forward(
        self, document: Int[Tensor, "b n"], question: Int[Tensor, "b m"]
    ) -> Float[Tensor, "b n"]:
        """The probability of each place of the document; they sum to 1.

        Raises:
            ValueError: a document or a question is empty, has padding before a word, or a token outside the
                vocabulary.
        """
        words, asked_words = source_mask(document), source_mask(question)
        states, _ = run_packed(self.document_rnn, self.embedding(document), words)
        asked, _ = run_packed(self.question_rnn, self.embedding(question), asked_words)
        return self.attend(states, words, asked, asked_words)


class AttentionSum(Reader):
    """One vector asks: what the question's words come to in both directions.

    ::

        u = [→h_m; ←h_1],   s = softmax over the document of h_iᵀ u

    Source: Kadlec et al. 2016, section 3.
    """

    def attend(
        self,
        states: Float[Tensor, "b n d"],
        document: Bool[Tensor, "b n"],
        asked: Float[Tensor, "b m d"],
        question: Bool[Tensor, "b m"],
    ) -> Float[Tensor, "b n"]:
        """The softmax of each state's product with the question's vector.

        Raises:
            TypeError, ValueError: as :func:`~companion.attention.base.masked_softmax`.
        """
        forward, backward = asked.chunk(2, -1)
        summary = torch.cat([last_pooling(forward, question), backward[:, 0]], -1)
        return masked_softmax((states @ summary.unsqueeze(-1)).squeeze(-1), document)


class AttentionMean(Reader):
    """Each word of the question asks, and all count alike.

    ::

        M = h_document h_questionᵀ,   s = mean over t of the softmax of M_it over i

    It is attention over attention without the second attention: ours, to compare with.
    """

    def attend(
        self,
        states: Float[Tensor, "b n d"],
        document: Bool[Tensor, "b n"],
        asked: Float[Tensor, "b m d"],
        question: Bool[Tensor, "b m"],
    ) -> Float[Tensor, "b n"]:
        """The mean of the question's words' attentions, padding left out.

        Raises:
            TypeError, ValueError: as :func:`~companion.attention.base.masked_softmax`.
        """
        alpha = masked_softmax(asked @ states.mT, document[:, None])
        return mean_pooling(alpha, question)


class AttentionOverAttention(Reader):
    """Each word of the question asks, and the document says how much each counts.

    ::

        M = h_document h_questionᵀ,   s = attention_over_attention(M)

    Source: Cui et al. 2017, section 3.
    """

    def attend(
        self,
        states: Float[Tensor, "b n d"],
        document: Bool[Tensor, "b n"],
        asked: Float[Tensor, "b m d"],
        question: Bool[Tensor, "b m"],
    ) -> Float[Tensor, "b n"]:
        """The attention over the question's words' attentions.

        Raises:
            TypeError, ValueError: as :func:`~companion.attention.base.masked_softmax`.
        """
        return attention_over_attention(states @ asked.mT, document, question)
