"""Reading Wikipedia to answer open-domain questions (Chen et al. 2017): a passage looks at the question."""

from jaxtyping import Float
from torch import Tensor, nn

from companion._checks import check_positive, check_size
from companion.attention.base import Attention


class AlignedQuestionAttention(Attention):
    """For each word of a passage, what of the question is like it: the *aligned question embedding*.

    ::

        f_align(p_i) = Σ_j α_ij E(q_j),   α = masked_softmax(e)
        e_ij = ReLU(W E(p_i) + b) · ReLU(W E(q_j) + b)

    The query is a word of the passage, key and value are the words of the question. Both go through one
    dense layer, so that a word scores alike on either side; the value is the word vector itself. Unlike
    *is this very word in the question?* it also finds words that only mean much the same.

    Source: Chen et al. 2017, section 3.2, whose α(·) is the dense layer with its ReLU.

    Raises:
        ValueError: a size is below 1, or query or source have another number of features than announced.
    """

    def __init__(self, embedding_size: int, size: int):
        super().__init__()
        check_positive(embedding_size=embedding_size, size=size)
        self.W = nn.Linear(embedding_size, size)

    def project(
        self, source: Float[Tensor, "*b k s"]
    ) -> tuple[Float[Tensor, "*b k d"], Float[Tensor, "*b k s"]]:
        """``ReLU(W E(q_j) + b)`` as the key, the word vectors themselves as the value."""
        check_size("source", source, self.W.in_features)
        return self.W(source).relu(), source

    def score(
        self, query: Float[Tensor, "*b q s"], key: Float[Tensor, "*b k d"]
    ) -> Float[Tensor, "*b q k"]:
        """The dot product behind the layer; ``key`` is already there, ``query`` is not."""
        check_size("query", query, self.W.in_features)
        check_size("projected key", key, self.W.out_features)
        return self.W(query).relu() @ key.mT
