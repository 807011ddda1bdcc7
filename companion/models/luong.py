"""Effective approaches to attention-based neural machine translation (Luong, Pham and Manning 2015)."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from companion._checks import (
    check_kind,
    check_layers,
    check_size,
    check_target,
)
from companion.attention.base import Attention
from companion.decoding.state import DecoderStep, Memory
from companion.layers.embedding import Embedding
from companion.layers.recurrent import deep_lstm, run_lstm, run_packed, source_mask


class LuongEncoder(nn.Module):
    """A deep LSTM that reads forwards; the states of its last layer are what can be attended to.

    Source: Luong et al. 2015, section 3, where it has four layers. Deviation: dropout on the embedded words
    and between the layers, if asked for.

    Raises:
        ValueError: a size or the number of layers is below 1.
    """

    def __init__(
        self,
        vocabulary_size: int,
        embedding_size: int,
        hidden_size: int,
        layers: int = 2,
        dropout: float = 0.0,
    ):
        super().__init__()
        self.embedding = Embedding(vocabulary_size, embedding_size)
        self.dropout = nn.Dropout(dropout)
        self.rnn = deep_lstm(embedding_size, hidden_size, layers, dropout)

    def forward(
        self, source: Int[Tensor, "b k"]
    ) -> tuple[
        Float[Tensor, "b k h"],
        Bool[Tensor, "b k"],
        Float[Tensor, "b layers h"],
        Float[Tensor, "b layers h"],
    ]:
        """The states of each sentence, the mask of its words, and every layer's last state and cell.

        Raises:
            ValueError: a sentence is empty, has padding before a word, or a token outside the vocabulary.
        """
        mask = source_mask(source)
        states, (hidden, cell) = run_packed(
            self.rnn, self.dropout(self.embedding(source)), mask
        )
        return states, mask, hidden.transpose(0, 1), cell.transpose(0, 1)


class LuongState(NamedTuple):
    """Between two words: the LSTM, the source, how many words were read, and h̃, which is at first zero."""

    hidden: Float[Tensor, "b layers h"]
    cell: Float[Tensor, "b layers h"]
    memory: Memory
    position: Int[Tensor, " b"]
    attentional: Float[Tensor, "b h"]


class LuongDecoder(nn.Module):
    """Move on, then look at the source, then choose the word.

    ::

        h_t = LSTM(y_{t−1}, h_{t−1}),   from the encoder's last states
        c_t = Σ_s a_t(s) h̄_s,   a_t = the attention's weights for the query h_t
        h̃_t = tanh(W_c [c_t; h_t]),   p(y_t) = softmax(W_s h̃_t)

    Source: Luong et al. 2015, section 3. No look depends on another, so in training the LSTM runs in one call
    and all words look at once. ``attention`` is the paper's *dot*, *general* or *concat*, which are ``Dot``,
    ``Bilinear`` and ``Concat`` of :mod:`companion.attention.scores`, or one of :mod:`companion.attention.local`; ``output`` is
    W_s. Deviations: dropout on the embedded words and between the layers, if asked for; and W_s starts with a
    standard deviation of 0.2, for from the smaller numbers of ``nn.Linear`` training is far slower.

    Raises:
        ValueError: a size or the number of layers is below 1.
        TypeError: the attention is no :class:`~companion.attention.base.Attention`, or goes by the query's place
            and is not of :mod:`companion.attention.local`.
    """

    def __init__(
        self,
        vocabulary_size: int,
        embedding_size: int,
        hidden_size: int,
        attention: Attention,
        layers: int = 2,
        dropout: float = 0.0,
    ):
        super().__init__()
        check_kind(self, attention, Attention)
        self.embedding = Embedding(vocabulary_size, embedding_size)
        self.dropout = nn.Dropout(dropout)
        self.attention = attention
        self.rnn = deep_lstm(
            self.input_size(embedding_size, hidden_size), hidden_size, layers, dropout
        )
        self.W_c = nn.Linear(2 * hidden_size, hidden_size, bias=False)
        self.output = nn.Linear(hidden_size, vocabulary_size, bias=False)
        nn.init.normal_(self.output.weight, std=0.2)

    @staticmethod
    def input_size(embedding_size: int, hidden_size: int) -> int:
        """How many features the LSTM reads at a step: here those of the word."""
        return embedding_size

    def start(
        self,
        states: Float[Tensor, "b k h"],
        mask: Bool[Tensor, "b k"],
        hidden: Float[Tensor, "b layers h"],
        cell: Float[Tensor, "b layers h"],
    ) -> LuongState:
        """Project the source, once, and go on from the encoder's last states, layer for layer.

        Raises:
            ValueError: the encoder has another number of layers, or layers of another size.
        """
        check_size("source", states, self.output.in_features)
        check_layers(self.rnn, hidden, cell)
        memory = Memory(*self.attention.project(states), mask)
        position = torch.zeros_like(mask[:, 0], dtype=torch.long)
        return LuongState(
            hidden, cell, memory, position, torch.zeros_like(states[:, 0])
        )

    def _attention_inputs(
        self, query: Float[Tensor, "b q h"], state: LuongState
    ) -> tuple[Tensor, ...]:
        """Queries, keys, values, mask, and the position of each query in its sentence."""
        key, value, mask = state.memory
        steps = torch.arange(query.shape[1], device=query.device)
        return query, key, value, mask[:, None], state.position[:, None] + steps

    def combine(
        self, context: Float[Tensor, "*b h"], hidden: Float[Tensor, "*b h"]
    ) -> Float[Tensor, "*b h"]:
        """The attentional state h̃, of what was found and who looked."""
        return torch.tanh(self.W_c(torch.cat([context, hidden], -1)))

    def rnn_input(
        self, embedded: Float[Tensor, "b e"], state: LuongState
    ) -> Float[Tensor, "b d"]:
        """What the LSTM reads at a step: here the word alone."""
        return embedded

    def recurrent_step(
        self, embedded: Float[Tensor, "b e"], state: LuongState
    ) -> tuple[LuongState, Float[Tensor, "b k"]]:
        """The state after one more word, whose h̃ chooses the next, and where it looked."""
        query, hidden, cell = run_lstm(
            self.rnn, self.rnn_input(embedded, state)[:, None], state.hidden, state.cell
        )
        context, weights = self.attention.attend(*self._attention_inputs(query, state))
        attentional = self.combine(context, query).squeeze(1)
        return LuongState(
            hidden, cell, state.memory, state.position + 1, attentional
        ), weights.squeeze(1)

    def step(self, token: Int[Tensor, " b"], state: LuongState) -> DecoderStep:
        """Scores of the word after ``token``."""
        state, weights = self.recurrent_step(self.dropout(self.embedding(token)), state)
        return DecoderStep(self.output(state.attentional), state, weights)

    def forward(
        self, target: Int[Tensor, "b t"], state: LuongState
    ) -> Float[Tensor, "b t vocabulary"]:
        """Scores of the word after each word of ``target``, which is given (teacher forcing), all at once.

        Raises:
            ValueError: the target has no word, or another number of sentences than the source.
        """
        check_target(target, state.hidden)
        embedded = self.dropout(self.embedding(target))
        hidden, *_ = run_lstm(self.rnn, embedded, state.hidden, state.cell)
        return self.output(
            self.combine(self.attention(*self._attention_inputs(hidden, state)), hidden)
        )


class InputFeedingDecoder(LuongDecoder):
    """The LSTM also reads h̃ of the step before, so that each look knows of the last: *input feeding*.

    ::

        h_t = LSTM([y_{t−1}; h̃_{t−1}], h_{t−1}),   h̃_0 = 0

    Source: Luong et al. 2015, section 3.3. Now each step waits for the one before, in training too; only the
    output layer still sees all of them at once.

    Raises:
        ValueError, TypeError: as :class:`LuongDecoder`.
    """

    @staticmethod
    def input_size(embedding_size: int, hidden_size: int) -> int:
        """The word's features and those of h̃."""
        return embedding_size + hidden_size

    def rnn_input(
        self, embedded: Float[Tensor, "b e"], state: LuongState
    ) -> Float[Tensor, "b d"]:
        """The word and the last h̃ side by side."""
        return torch.cat([embedded, state.attentional], -1)

    def forward(
        self, target: Int[Tensor, "b t"], state: LuongState
    ) -> Float[Tensor, "b t vocabulary"]:
        """Scores of the word after each word of ``target``, one step after another.

        Raises:
            ValueError: the target has no word, or another number of sentences than the source.
        """
        check_target(target, state.hidden)
        attentional = []
        for word in self.dropout(self.embedding(target)).unbind(1):
            state, _ = self.recurrent_step(word, state)
            attentional.append(state.attentional)
        return self.output(torch.stack(attentional, 1))
