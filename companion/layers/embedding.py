"""Token embeddings, with a zero vector for padding where there is any, optionally scaled by √d."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from companion._checks import check_positive, check_tokens


class Embedding(nn.Embedding):
    """One learned vector for each token; that of padding is zero.

    The vectors are initialised with a standard deviation of 0.1, where ``nn.Embedding``
    has 1. The vector of padding gets no gradient. A token outside the vocabulary is an
    error; on a GPU and under ``torch.compile`` it is PyTorch's own.

    Args:
        vocabulary_size, embedding_size: the number of tokens, and the dimension of their
            vectors.
        pad: the token that is padding; ``None`` if there is none.

    Example:
        >>> embedding = Embedding(vocabulary_size=7, embedding_size=3, pad=0)
        >>> embedding(torch.tensor([[4, 0]])).any(-1)
        tensor([[ True, False]])
    """

    def __init__(
        self, vocabulary_size: int, embedding_size: int, pad: int | None = None
    ):
        check_positive(vocabulary_size=vocabulary_size, embedding_size=embedding_size)
        if pad is not None and not 0 <= pad < vocabulary_size:
            raise ValueError(
                f"pad is {pad}, but the vocabulary has the tokens 0 to {vocabulary_size - 1}"
            )
        super().__init__(vocabulary_size, embedding_size, padding_idx=pad)

    @property
    def initial_std(self) -> float:
        """The standard deviation that the vectors are initialised with."""
        return 0.1

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Initialise the vectors again."""
        nn.init.normal_(self.weight, std=self.initial_std)
        if self.padding_idx is not None:
            self.weight[self.padding_idx].zero_()

    def forward(self, tokens: Int[Tensor, "*b"]) -> Float[Tensor, "*b d"]:
        """The vector of each token, an integer of any width."""
        check_tokens("tokens", tokens, self.num_embeddings)
        return super().forward(tokens.long())


class ScaledEmbedding(Embedding):
    """An embedding times √d, whose matrix the output layer can share.

    ::

        x = √d E[token],   at first E ~ N(0, 1/d)

    The matrix is small enough for an output layer, and its rows times √d are large
    enough beside a positional encoding. Where the output layer shares it, the vector of
    padding is learned there like any other; in the input it is masked.

    Args:
        vocabulary_size, embedding_size: the number of tokens, and the dimension of their
            vectors.
        pad: as in :class:`Embedding`.

    Source: Vaswani et al. 2017, section 3.4. The initialisation is ours.

    Example:
        >>> embedding, tokens = ScaledEmbedding(7, 4), torch.tensor([[4, 5]])
        >>> torch.equal(embedding(tokens), 2 * embedding.weight[tokens])
        True
    """

    @property
    def initial_std(self) -> float:
        """1/√d."""
        return self.embedding_dim**-0.5

    def forward(self, tokens: Int[Tensor, "*b"]) -> Float[Tensor, "*b d"]:
        """The vector of each token, times √d."""
        return super().forward(tokens) * self.embedding_dim**0.5
