"""Other answers to *who looks at the source?* than Bahdanau's s_{i−1}, each a decoder of its own."""

import torch
from jaxtyping import Float
from torch import Tensor

from companion.bahdanau import Decoder, DecoderState


class StateAndWordDecoder(Decoder):
    """The query is ``[s_{i−1}; y_{i−1}]``: the state before the word, and the word just written.

    Its attention must take queries of ``hidden_size + embedding_size`` features. Ours, to compare with.
    """

    def query(self, hidden: Float[Tensor, "b h"], embedded: Float[Tensor, "b e"]) -> Float[Tensor, "b q"]:
        """State and word side by side."""
        return torch.cat([hidden, embedded], -1)


class CurrentStateDecoder(Decoder):
    """The query is s_i, the state that has already read the word. Much code has it under Bahdanau's name.

    ::

        s_i = GRU([y_{i−1}; c_{i−1}], s_{i−1}),   c_i = Σ_j α_ij h_j with the query s_i,   c_0 = 0
        p(y_i) = softmax(deep output of s_i, y_{i−1}, c_i)

    Source: the order of Luong et al. 2015, section 3.1, which sets it against Bahdanau's.
    """

    def advance(
        self, embedded: Float[Tensor, "b e"], state: DecoderState
    ) -> tuple[Float[Tensor, "b h"], DecoderState]:
        """First the state moves on, then it looks, and chooses the word."""
        hidden = self.cell(torch.cat([embedded, state.context], -1), state.hidden)  # s_i
        context, weights = self.attend(self.query(hidden, embedded), state.memory)  # c_i, α_i
        return hidden, DecoderState(hidden, state.memory, context, weights)
