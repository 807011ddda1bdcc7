"""The output layer of the recurrent encoder–decoders: one hidden layer of maxout units."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from companion._checks import check_even, check_positive


class DeepOutput(nn.Module):
    """The logits of the next token, from one hidden layer of maxout units.

    ::

        t̃ = U_o s + V_o y + C_o c
        t = [max(t̃_1, t̃_2), max(t̃_3, t̃_4), …]
        logits = W_o t

    ``hidden`` holds U_o, V_o and C_o side by side.

    Args:
        hidden_size: dimension of the hidden state s.
        embedding_size: dimension of the embedded token y.
        context_size: dimension of the context c.
        size: the number of maxout units, l in the papers; ``None`` is half of
            ``hidden_size``.
        vocabulary_size: the number of target tokens.

    Source: Bahdanau et al. 2015, appendix A.2.2; Cho et al. 2014, appendix A.1.2.
    Deviation: both layers have a bias, which the papers leave out of their equations.

    Example:
        >>> output = DeepOutput(8, 4, 6, size=5, vocabulary_size=100)
        >>> output(torch.randn(2, 8), torch.randn(2, 4), torch.randn(2, 6)).shape
        torch.Size([2, 100])
    """

    def __init__(
        self,
        hidden_size: int,
        embedding_size: int,
        context_size: int,
        size: int | None,
        vocabulary_size: int,
    ):
        super().__init__()
        if size is None:
            check_even(hidden_size=hidden_size)
            size = hidden_size // 2
        check_positive(
            hidden_size=hidden_size,
            embedding_size=embedding_size,
            context_size=context_size,
            size=size,
            vocabulary_size=vocabulary_size,
        )
        self.hidden = nn.Linear(hidden_size + embedding_size + context_size, 2 * size)
        self.W = nn.Linear(size, vocabulary_size)

    def forward(
        self,
        state: Float[Tensor, "*b s"],
        embedded: Float[Tensor, "*b e"],
        context: Float[Tensor, "*b c"],
    ) -> Float[Tensor, "*b vocabulary"]:
        """The logits of one time step, or of all of them at once."""
        hidden = self.hidden(torch.cat([state, embedded, context], -1))
        return self.W(hidden.unflatten(-1, (-1, 2)).amax(-1))  # (*b, l)
