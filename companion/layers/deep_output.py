"""The output layer of the recurrent encoder–decoders: one hidden layer of maxout units."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from companion._checks import check_positive


class DeepOutput(nn.Module):
    """The scores of the next word, by one hidden layer of maxout units.

    ::

        t̃ = U_o s + V_o y + C_o c
        t = [max(t̃_1, t̃_2), max(t̃_3, t̃_4), …]
        logits = W_o t

    Source: Bahdanau et al. 2015, appendix A.2.2; the same in Cho et al. 2014, appendix A.1.2. Our ``state``,
    ``embedded`` and ``context`` are the papers' s, E y and c; ``size`` is l, the number of maxout units.
    U_o, V_o and C_o stand side by side in one matrix. Deviation: a bias in both layers.

    Raises:
        ValueError: ``size`` or ``vocabulary_size`` is below 1.
    """

    def __init__(
        self,
        state_size: int,
        embedding_size: int,
        context_size: int,
        size: int,
        vocabulary_size: int,
    ):
        super().__init__()
        check_positive(size=size, vocabulary_size=vocabulary_size)
        self.hidden = nn.Linear(state_size + embedding_size + context_size, 2 * size)
        self.W = nn.Linear(size, vocabulary_size)

    def forward(
        self,
        state: Float[Tensor, "*b s"],
        embedded: Float[Tensor, "*b e"],
        context: Float[Tensor, "*b c"],
    ) -> Float[Tensor, "*b vocabulary"]:
        """Unnormalised log-probabilities of the next word, for one step or for all steps at once."""
        pairs = self.hidden(torch.cat([state, embedded, context], -1)).unflatten(
            -1, (-1, 2)
        )
        return self.W(pairs.amax(-1))
