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
    """The attention of each question word over the document, averaged by β.

    ::

        α(t)_i = softmax of M_it over i,   β(i)_t = softmax of M_it over t
        β_t = mean of β(i)_t over the document's words,   s_i = Σ_t α(t)_i β_t

    The weights of a document sum to 1. They are zero if the document or the question has
    no words. :func:`two_way_attention` returns α and β.

    Args:
        scores: M, the score of each document word for each question word.
        document, question: masks, ``True`` = a word.

    Source: Cui et al. 2017, section 3.

    Example:
        >>> document, question = torch.ones(5) > 0, torch.ones(3) > 0
        >>> weights = attention_over_attention(torch.randn(5, 3), document, question)
        >>> weights.shape
        torch.Size([5])
    """
    alpha, beta = two_way_attention(scores, document, question)
    return (beta.unsqueeze(-2) @ alpha).squeeze(-2)


def two_way_attention(
    scores: Float[Tensor, "*b n m"],
    document: Bool[Tensor, "*b n"],
    question: Bool[Tensor, "*b m"],
) -> tuple[Float[Tensor, "*b m n"], Float[Tensor, "*b m"]]:
    """The two attentions of :func:`attention_over_attention`, from one matrix of scores.

    Returns:
        α, in which each question word attends to the document, and β, the mean attention
        of the document's words to the question.

    Source: Cui et al. 2017, section 3, *individual attentions* and their average.

    Example:
        >>> document, question = torch.ones(5) > 0, torch.ones(3) > 0
        >>> alpha, beta = two_way_attention(torch.randn(5, 3), document, question)
        >>> alpha.shape, beta.shape
        (torch.Size([3, 5]), torch.Size([3]))
    """
    alpha = masked_softmax(scores.mT, document.unsqueeze(-2))  # (*b, m, n)
    beta = masked_softmax(scores, question.unsqueeze(-2))  # (*b, n, m)
    return alpha, mean_pooling(beta, document)


def pointer_sum(
    weights: Float[Tensor, "b n"],
    document: Int[Tensor, "b n"],
    words: Int[Tensor, "b c"],
) -> Float[Tensor, "b c"]:
    """The probability of each word: the sum of the weights of its positions.

    ::

        P(w) = Σ_{i: x_i = w} s_i,   x_i the word at position i of the document

    It is zero for a word that does not occur in the document.

    Args:
        weights: s, the weight of each position.
        document: x, the word at each position.
        words: the candidates w.

    Source: Kadlec et al. 2016, section 3.

    Example:
        >>> document, weights = torch.tensor([[7, 8, 7]]), torch.tensor([[0.25, 0.5, 0.25]])
        >>> pointer_sum(weights, document, torch.tensor([[7, 9]]))
        tensor([[0.5000, 0.0000]])
    """
    _check_pointers(weights, document, words)
    occurs = words.unsqueeze(-1) == document.unsqueeze(1)  # (b, c, n)
    return (occurs * weights.unsqueeze(1)).sum(-1)


def _check_pointers(weights: Tensor, document: Tensor, words: Tensor) -> None:
    """Refuse documents without one weight a position, or words of another batch."""
    if weights.shape != document.shape or words.shape[:-1] != document.shape[:-1]:
        raise ValueError(
            f"weights of shape {tuple(weights.shape)} and words of {tuple(words.shape)} do "
            f"not fit documents of {tuple(document.shape)}"
        )
