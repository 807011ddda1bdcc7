"""Attention over attention (Cui et al. 2017) and the pointer sum (Kadlec et al. 2016)."""

from jaxtyping import Bool, Float, Int
from torch import Tensor

from companion.attention.base import masked_softmax
from companion.attention.pooling import mean_pooling


def attention_over_attention(
    scores: Float[Tensor, "*b n m"],
    document: Bool[Tensor, "*b n"],
    question: Bool[Tensor, "*b m"],
) -> Float[Tensor, "*b n"]:
    """How much each word of a document is asked for: by each word of a question, as much as that one counts.

    ::

        α(t)_i = softmax of M_it over i,   β(i)_t = softmax of M_it over t
        β_t = mean of β(i)_t over the document's words,   s_i = Σ_t α(t)_i β_t

    ``document`` and ``question`` are masks of their words. The shares of a document's words sum to 1, and are
    zero where document or question have no words. Source: Cui et al. 2017, section 3.

    Raises:
        TypeError, ValueError: as :func:`~companion.attention.base.masked_softmax`.
    """
    alpha = masked_softmax(scores.mT, document.unsqueeze(-2))  # *b m n
    beta = masked_softmax(scores, question.unsqueeze(-2))  # *b n m
    return (mean_pooling(beta, document).unsqueeze(-2) @ alpha).squeeze(-2)


def pointer_sum(
    shares: Float[Tensor, "b n"],
    document: Int[Tensor, "b n"],
    words: Int[Tensor, "b c"],
) -> Float[Tensor, "b c"]:
    """The probability of each word: the sum of the shares of the places where it stands.

    ::

        P(w) = Σ_{i: x_i = w} s_i,   x_i the word at place i of the document

    It is zero for a word that does not stand in the document. Source: Kadlec et al. 2016, section 3.
    """
    places = words.unsqueeze(-1) == document.unsqueeze(1)
    return (places * shares.unsqueeze(1)).sum(-1)
