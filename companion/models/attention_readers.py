"""Reading comprehension: attention to the words of a document answers a cloze question."""

from abc import ABC, abstractmethod

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from companion._checks import check_even, check_pairs
from companion.attention.attention_over_attention import attention_over_attention
from companion.attention.base import masked_softmax
from companion.attention.pooling import last_pooling, mean_pooling
from companion.layers.embedding import Embedding
from companion.layers.gru import pytorch_gru
from companion.layers.recurrent import run_packed, source_mask
from companion.models.text_classifier import SentenceStates


class Reader(nn.Module, ABC):
    """Encodes document and question, and points to the positions of the answer.

    ::

        h_document = BiGRU(E document),   h_question = BiGRU(E question)
        s = attend(h_document, h_question)

    A subclass writes :meth:`attend`. The embedding E is common to both texts.

    Args:
        vocabulary_size, embedding_size: how many words there are, and features of a
            word.
        size: features of a state, both directions together.
        pad: the token that is padding; ``None`` if there is none.

    Source: Kadlec et al. 2016, section 3; Cui et al. 2017, section 3.
    """

    def __init__(
        self,
        vocabulary_size: int,
        embedding_size: int,
        size: int,
        pad: int | None = None,
    ):
        super().__init__()
        check_even(size=size)
        self.embedding = Embedding(vocabulary_size, embedding_size, pad)
        self.document_rnn, self.question_rnn = (
            pytorch_gru(embedding_size, size // 2, bidirectional=True) for _ in range(2)
        )

    @abstractmethod
    def attend(
        self, document: SentenceStates, question: SentenceStates
    ) -> Float[Tensor, "b n"]:
        """The weights of the document's positions, from the states of both texts."""

    def forward(
        self, document: Int[Tensor, "b n"], question: Int[Tensor, "b m"]
    ) -> Float[Tensor, "b n"]:
        """The probability that the answer is at each position of the document."""
        texts = (
            self._read(document, self.document_rnn),
            self._read(question, self.question_rnn),
        )
        check_pairs("documents", document, "questions", question)
        return self.attend(*texts)

    def _read(self, tokens: Tensor, rnn: nn.GRU) -> SentenceStates:
        mask = source_mask(tokens, self.embedding.padding_idx)
        return SentenceStates(run_packed(rnn, self.embedding(tokens), mask)[0], mask)


class AttentionSum(Reader):
    """The attention-sum reader: one vector for the whole question is the query.

    ::

        u = [→h_m; ←h_1],   s = softmax over the document of h_iᵀ u

    →h and ←h are the question's states in both directions. The probability of a word is
    the :func:`~companion.attention.attention_over_attention.pointer_sum` of s over its
    positions.

    Source: Kadlec et al. 2016, section 3.

    Example:
        >>> reader = AttentionSum(vocabulary_size=11, embedding_size=5, size=6)
        >>> document, question = torch.tensor([[4, 7, 5, 4]]), torch.tensor([[9, 5]])
        >>> reader(document, question).shape
        torch.Size([1, 4])
    """

    def attend(
        self, document: SentenceStates, question: SentenceStates
    ) -> Float[Tensor, "b n"]:
        """The softmax of each state's product with the question's vector."""
        forward, backward = question.states.chunk(2, -1)
        query = torch.cat([last_pooling(forward, question.mask), backward[:, 0]], -1)
        scores = (document.states @ query.unsqueeze(-1)).squeeze(-1)  # (b, n)
        return masked_softmax(scores, document.mask)


class AttentionMean(Reader):
    """Each word of the question is a query, and their weights are averaged.

    ::

        M = h_document h_questionᵀ,   s = mean over t of the softmax of M_it over i

    This is attention over attention without the second attention, as a baseline. It is
    in no paper.

    Example:
        >>> reader = AttentionMean(vocabulary_size=11, embedding_size=5, size=6)
        >>> document, question = torch.tensor([[4, 7, 5, 4]]), torch.tensor([[9, 5]])
        >>> reader(document, question).shape
        torch.Size([1, 4])
    """

    def attend(
        self, document: SentenceStates, question: SentenceStates
    ) -> Float[Tensor, "b n"]:
        """The mean of the weights that the question's words give, without its padding."""
        scores = question.states @ document.states.mT  # (b, m, n)
        return mean_pooling(
            masked_softmax(scores, document.mask[:, None]), question.mask
        )


class AttentionOverAttention(Reader):
    """Each word of the question is a query, and a second attention weights the queries.

    ::

        M = h_document h_questionᵀ,   s = attention_over_attention(M)

    Source: Cui et al. 2017, section 3.

    Example:
        >>> reader = AttentionOverAttention(11, embedding_size=5, size=6)
        >>> document, question = torch.tensor([[4, 7, 5, 4]]), torch.tensor([[9, 5]])
        >>> reader(document, question).shape
        torch.Size([1, 4])
    """

    def attend(
        self, document: SentenceStates, question: SentenceStates
    ) -> Float[Tensor, "b n"]:
        """The weighted sum of the weights that the question's words give."""
        scores = document.states @ question.states.mT  # (b, n, m)
        return attention_over_attention(scores, document.mask, question.mask)
