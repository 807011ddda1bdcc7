"""Neural machine translation by jointly learning to align and translate (Bahdanau, Cho and Bengio 2015)."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from companion._checks import (
    check_even,
    check_kind,
    check_size,
    check_target,
)
from companion.attention.additive import LocationSensitive
from companion.attention.base import Attention
from companion.decoding.state import DecoderStep, Memory
from companion.layers.deep_output import DeepOutput
from companion.layers.embedding import Embedding


class BahdanauState(NamedTuple):
    """Between two words: the recurrent state s, the source, and what the last look brought, at first zero."""

    hidden: Float[Tensor, "b h"]
    memory: Memory
    context: Float[Tensor, "b v"]
    weights: Float[Tensor, "b k"]
    position: Int[Tensor, " b"]


class BahdanauDecoder(nn.Module):
    """Before each word, look at the source; then choose the word and move on.

    ::

        s_0 = tanh(W_s ←h_1)
        α_i = masked_softmax(a(s_{i−1}, h)),   c_i = Σ_j α_ij h_j
        p(y_i) = softmax(deep output of s_{i−1}, y_{i−1}, c_i)
        s_i = GRU([y_{i−1}; c_i], s_{i−1})

    Source: Bahdanau et al. 2015, section 3.1 and appendix A.2.2. Equation (4) writes the output with s_i; the
    appendix and the authors' code have s_{i−1}, and so have we. ``attention`` is the paper's a: Additive.
    Deviations: the GRU of PyTorch, as in :class:`BahdanauEncoder`; maxout units number half of ``hidden_size``,
    as the paper's 500 to 1000; dropout on the embedded words, which the paper does not have.

    Raises:
        ValueError: a size is below 1, or ``source_size`` or ``hidden_size`` is odd and cannot be halved.
        TypeError: the attention is not of the kind that the decoder ``attention_type``, or goes by the query's place.
    """

    attention_type: type = Attention  #: the kind of attention that it looks with

    def __init__(
        self,
        vocabulary_size: int,
        embedding_size: int,
        hidden_size: int,
        source_size: int,
        attention: Attention,
        dropout: float = 0.0,
    ):
        super().__init__()
        check_kind(self, attention, self.attention_type)
        check_even(source_size=source_size, hidden_size=hidden_size)
        self.embedding = Embedding(vocabulary_size, embedding_size)
        self.dropout = nn.Dropout(dropout)
        self.attention = attention
        self.W_s = nn.Linear(source_size // 2, hidden_size)
        self.cell = nn.GRUCell(embedding_size + source_size, hidden_size)
        self.output = DeepOutput(
            hidden_size, embedding_size, source_size, hidden_size // 2, vocabulary_size
        )

    def start(
        self, states: Float[Tensor, "b k s"], mask: Bool[Tensor, "b k"]
    ) -> BahdanauState:
        """Project the source, once, and begin from the backward state of its first word."""
        check_size("source", states, 2 * self.W_s.in_features)
        backward = states[
            :, 0, self.W_s.in_features :
        ]  # ←h_1 has read the whole sentence
        memory = Memory(*self.attention.project(states), mask)
        context, weights = (
            torch.zeros_like(states[:, 0]),
            torch.zeros_like(states[:, :, 0]),
        )
        position = torch.zeros_like(mask[:, 0], dtype=torch.long)
        hidden = torch.tanh(self.W_s(backward))
        return BahdanauState(hidden, memory, context, weights, position)

    def query(
        self, hidden: Float[Tensor, "b h"], embedded: Float[Tensor, "b e"]
    ) -> Float[Tensor, "b q"]:
        """What looks at the source: here the state before the word, s_{i−1}."""
        return hidden

    def attend(
        self, query: Float[Tensor, "b q"], memory: Memory, position: Int[Tensor, " b"]
    ) -> tuple[Float[Tensor, "b v"], Float[Tensor, "b k"]]:
        """Context and weights of one query a sentence, the one at ``position``."""
        key, value, mask = memory
        context, weights = self.attention.attend(
            query[:, None], key, value, mask[:, None], position[:, None]
        )
        return context.squeeze(1), weights.squeeze(1)

    def recurrent_step(
        self, embedded: Float[Tensor, "b e"], state: BahdanauState
    ) -> tuple[Float[Tensor, "b h"], BahdanauState]:
        """From y_{i−1} and s_{i−1}: the state that predicts y_i, here s_{i−1}; the next state."""
        query = self.query(state.hidden, embedded)
        context, weights = self.attend(query, state.memory, state.position)  # c_i, α_i
        hidden = self.cell(torch.cat([embedded, context], -1), state.hidden)  # s_i
        after = BahdanauState(
            hidden, state.memory, context, weights, state.position + 1
        )
        return state.hidden, after

    def step(self, token: Int[Tensor, " b"], state: BahdanauState) -> DecoderStep:
        """Scores of the word after ``token``."""
        embedded = self.dropout(self.embedding(token))
        hidden, state = self.recurrent_step(embedded, state)
        return DecoderStep(
            self.output(hidden, embedded, state.context), state, state.weights
        )

    def forward(
        self, target: Int[Tensor, "b t"], state: BahdanauState
    ) -> Float[Tensor, "b t vocabulary"]:
        """Scores of the word after each word of ``target``, which is given (teacher forcing).

        The recurrence takes one step after another. The output layer, which with a real vocabulary is the
        largest part, sees all steps at once.

        Raises:
            ValueError: the target has no word, or another number of sentences than the source.
        """
        check_target(target, state.hidden)
        embedded = self.dropout(self.embedding(target))
        hidden, context = [], []
        for word in embedded.unbind(1):
            chooses, state = self.recurrent_step(word, state)
            hidden.append(chooses)
            context.append(state.context)
        return self.output(torch.stack(hidden, 1), embedded, torch.stack(context, 1))


class LocationSensitiveDecoder(BahdanauDecoder):
    """Bahdanau's decoder with :class:`LocationSensitive` attention. Before the first look, α_0 = 0.

    Source: Chorowski et al. 2015, for the attention; the decoder around it is Bahdanau's.

    Raises:
        ValueError: as :class:`~companion.models.bahdanau.BahdanauDecoder`.
        TypeError: the attention is another one.
    """

    attention_type = LocationSensitive
    attention: LocationSensitive

    def recurrent_step(
        self, embedded: Float[Tensor, "b e"], state: BahdanauState
    ) -> tuple[Float[Tensor, "b h"], BahdanauState]:
        """As Bahdanau's, over keys that are marked with the last look."""
        marked = state.memory._replace(
            key=self.attention.location_features(state.memory.key, state.weights)
        )
        hidden, after = super().recurrent_step(embedded, state._replace(memory=marked))
        return hidden, after._replace(memory=state.memory)


class StateAndWordDecoder(BahdanauDecoder):
    """The query is ``[s_{i−1}; y_{i−1}]``: the state before the word, and the word just written.

    Its attention must take queries of ``hidden_size + embedding_size`` features. Ours, to compare with.
    """

    def query(
        self, hidden: Float[Tensor, "b h"], embedded: Float[Tensor, "b e"]
    ) -> Float[Tensor, "b q"]:
        """State and word side by side."""
        return torch.cat([hidden, embedded], -1)


class CurrentStateDecoder(BahdanauDecoder):
    """The query is s_i, the state that has already read the word. Much code has it under Bahdanau's name.

    ::

        s_i = GRU([y_{i−1}; c_{i−1}], s_{i−1}),   c_i = Σ_j α_ij h_j with the query s_i,   c_0 = 0
        p(y_i) = softmax(deep output of s_i, y_{i−1}, c_i)

    Source: the order of Luong et al. 2015, section 3.1, which sets it against Bahdanau's.
    """

    def recurrent_step(
        self, embedded: Float[Tensor, "b e"], state: BahdanauState
    ) -> tuple[Float[Tensor, "b h"], BahdanauState]:
        """First the new state, then its attention; the new state predicts the word."""
        hidden = self.cell(
            torch.cat([embedded, state.context], -1), state.hidden
        )  # s_i
        query = self.query(hidden, embedded)
        context, weights = self.attend(query, state.memory, state.position)  # c_i, α_i
        return hidden, BahdanauState(
            hidden, state.memory, context, weights, state.position + 1
        )
