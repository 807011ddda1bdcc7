"""The aligned question embedding of a reading comprehension model (Chen et al. 2017)."""

from jaxtyping import Float
from torch import Tensor, nn

from companion._checks import check_positive
from companion.attention.base import Attention, precise_matmul


class AlignedQuestionAttention(Attention):
    """The aligned question embedding: each word of a passage attends to the question.

    ::

        f_align(p_i) = Σ_j α_ij E(q_j),   α = masked_softmax(e)
        e_ij = ReLU(W E(p_i) + b) · ReLU(W E(q_j) + b)

    The query is the embedding of a passage word; key and value are those of the question's
    words. Both sides go through the same layer, so that scores are symmetric, and the value
    is the embedding itself. Unlike the feature *does this word occur in the question?*, it
    also finds words of similar meaning.

    Args:
        embedding_size: the number of features of a word's embedding.
        size: the size of the layer.

    Source: Chen et al. 2017, section 3.2, whose α(·) is the layer with its ReLU.

    Example:
        >>> attention = AlignedQuestionAttention(6, 8)
        >>> passage, question = torch.randn(2, 7, 6), torch.randn(2, 4, 6)
        >>> attention(passage, *attention.project(question)).shape
        torch.Size([2, 7, 6])
    """

    def __init__(self, embedding_size: int, size: int):
        super().__init__()
        check_positive(embedding_size=embedding_size, size=size)
        self.W = nn.Linear(embedding_size, size)

    def project(
        self, source: Float[Tensor, "*b k s"]
    ) -> tuple[Float[Tensor, "*b k d"], Float[Tensor, "*b k s"]]:
        """``ReLU(W E(q_j) + b)`` as the key, the embedding itself as the value."""
        return self.W(source).relu(), source

    def score(
        self, query: Float[Tensor, "*b q s"], key: Float[Tensor, "*b k d"]
    ) -> Float[Tensor, "*b q k"]:
        """The dot product after the layer, which the key has passed and the query has not."""
        return precise_matmul(self.W(query).relu(), key.mT)
