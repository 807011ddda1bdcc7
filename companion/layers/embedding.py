"""Vectors for tokens."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from companion._checks import check_positive
from companion.data.vocabulary import PAD


class Embedding(nn.Embedding):
    """One learned vector a token, zero for padding, and at first small: standard deviation 0.1, not 1.

    Raises:
        ValueError: a size is below 1, or a token is outside the vocabulary. On a GPU, which would have
            to wait, and under ``torch.compile``, a token outside is PyTorch's own error instead.
    """

    def __init__(self, vocabulary_size: int, embedding_size: int):
        check_positive(vocabulary_size=vocabulary_size, embedding_size=embedding_size)
        super().__init__(vocabulary_size, embedding_size, padding_idx=PAD)

    def reset_parameters(self) -> None:
        """Draw the vectors anew."""
        nn.init.normal_(self.weight, std=0.1)
        self._fill_padding_idx_with_zero()

    def forward(self, tokens: Int[Tensor, "*b"]) -> Float[Tensor, "*b d"]:
        """The vector of each token."""
        if (
            tokens.device.type == "cpu"
            and not torch.compiler.is_compiling()
            and tokens.numel()
        ):
            smallest, largest = (int(x) for x in tokens.aminmax())
            if smallest < 0 or largest >= self.num_embeddings:
                raise ValueError(
                    f"tokens run from {smallest} to {largest}, "
                    f"but the vocabulary has the {self.num_embeddings} entries 0 to {self.num_embeddings - 1}"
                )
        return super().forward(tokens)


class ScaledEmbedding(Embedding):
    """Vectors for tokens, times √d, so that a matrix shared with the output layer has both sizes right.

    Source: Vaswani et al. 2017, section 3.4. The parameters start with a standard deviation of 1/√d. Where
    the output layer shares them, padding's vector is learnt there like any other; nothing looks at it.
    """

    def reset_parameters(self) -> None:
        """Draw the vectors anew."""
        nn.init.normal_(self.weight, std=self.embedding_dim**-0.5)
        self._fill_padding_idx_with_zero()

    def forward(self, tokens: Int[Tensor, "*b"]) -> Float[Tensor, "*b d"]:
        """The vector of each token."""
        return super().forward(tokens) * self.embedding_dim**0.5
