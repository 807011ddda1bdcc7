"""Effective approaches to attention-based neural machine translation (Luong et al. 2015)."""

from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from companion._checks import check_kind, check_positive, check_source, check_target
from companion.attention.base import Attention
from companion.decoding.state import DecoderStep, Memory
from companion.layers.embedding import Embedding
from companion.layers.recurrent import deep_lstm, run_lstm
from companion.models.seq2seq import LSTMEncoder


class LuongEncoder(LSTMEncoder):
    """A deep unidirectional LSTM, to whose last layer the decoder attends.

    Source: Luong et al. 2015, sections 3 and 4.1, with four layers and a dropout of
    0.2.

    Example:
        >>> encoder = LuongEncoder(100, 8, 16, pad=0)
        >>> states, mask, hidden, cell = encoder(torch.tensor([[5, 6, 7], [8, 0, 0]]))
        >>> states.shape, hidden.shape
        (torch.Size([2, 3, 16]), torch.Size([2, 2, 16]))
    """

    def forward(self, source: Int[Tensor, "b k"]) -> Any:
        """The last layer's states, the source mask, and every layer's final h and c."""
        return self.run(source)


class LuongState(NamedTuple):
    """The state of a :class:`LuongDecoder` before a time step.

    ``hidden`` and ``cell`` are the LSTM's, ``position`` is the number of tokens read,
    and ``attentional`` is the last step's h̃, at first zero.
    """

    hidden: Float[Tensor, "b layers h"]
    cell: Float[Tensor, "b layers h"]
    memory: Memory
    position: Int[Tensor, " b"]
    attentional: Float[Tensor, "b a"]


class LuongDecoder(nn.Module):
    """A deep LSTM that attends to the source with its new hidden state, then predicts.

    ::

        h_t = LSTM(y_{t−1}, h_{t−1}),   from the encoder's final states
        c_t = Σ_s a_t(s) h̄_s,   a_t = the attention's weights for the query h_t
        h̃_t = tanh(W_c [c_t; h_t]),   p(y_t) = softmax(W_s h̃_t)

    No attention step depends on another, so in training the LSTM runs once and all
    positions attend at once. ``output`` is W_s.

    Args:
        vocabulary_size, embedding_size: the number of target tokens, and the dimension
            of their embeddings.
        hidden_size, layers: as the encoder's, because its final states are the initial
            ones here.
        attention: the paper's *dot*, *general* and *concat* are ``Dot``, ``Bilinear``
            and ``Concat`` of :mod:`companion.attention.scores`; its *location*,
            *local-m* and *local-p* are in :mod:`companion.attention.local`. One that
            depends on the query's position is given t.
        dropout: dropout probability of the embeddings, and between layers.
        source_size: dimension of h̄_s; ``hidden_size`` if not given.
        attentional_size: dimension of h̃; ``hidden_size`` if not given.

    Source: Luong et al. 2015, section 3.
    Deviation: the paper initialises all parameters uniformly in ±0.1 (section 4.1);
    ours start as PyTorch's, except W_s, whose standard deviation is 0.2, because
    training from smaller numbers is far slower.

    Example:
        >>> from companion.attention import Bilinear
        >>> decoder = LuongDecoder(50, 8, 16, Bilinear(16, 16))
        >>> state = decoder.start(*LuongEncoder(100, 8, 16)(torch.tensor([[5, 6, 7]])))
        >>> decoder(torch.tensor([[1, 4]]), state).shape
        torch.Size([1, 2, 50])
    """

    def __init__(
        self,
        vocabulary_size: int,
        embedding_size: int,
        hidden_size: int,
        attention: Attention,
        layers: int = 2,
        dropout: float = 0.0,
        source_size: int | None = None,
        attentional_size: int | None = None,
    ):
        super().__init__()
        check_kind(self, attention, Attention)
        source = hidden_size if source_size is None else source_size
        attentional = hidden_size if attentional_size is None else attentional_size
        check_positive(
            hidden_size=hidden_size, source_size=source, attentional_size=attentional
        )
        self.source_size, self.attentional_size = source, attentional
        self.embedding = Embedding(vocabulary_size, embedding_size)
        self.dropout = nn.Dropout(dropout)
        self.attention = attention
        rnn_input_size = self.rnn_input_size(embedding_size, attentional)
        self.rnn = deep_lstm(rnn_input_size, hidden_size, layers, dropout)
        self.W_c = nn.Linear(source + hidden_size, attentional, bias=False)
        self.output = nn.Linear(attentional, vocabulary_size, bias=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise W_s again; the other layers have methods of their own."""
        nn.init.normal_(self.output.weight, std=0.2)

    @staticmethod
    def rnn_input_size(embedding_size: int, attentional_size: int) -> int:
        """Dimension of :meth:`rnn_input`."""
        return embedding_size

    def rnn_input(
        self, embedded: Float[Tensor, "b e"], state: LuongState
    ) -> Float[Tensor, "b d"]:
        """The input of the LSTM at a time step: here the embedded token alone."""
        return embedded

    def start(
        self,
        states: Float[Tensor, "b k s"],
        mask: Bool[Tensor, "b k"],
        hidden: Float[Tensor, "b layers h"],
        cell: Float[Tensor, "b layers h"],
    ) -> LuongState:
        """Project the source, once, and start from the encoder's final states."""
        check_source(states, mask, self.source_size)
        memory = Memory(*self.attention.project(states), mask)
        position = torch.zeros_like(mask[:, 0], dtype=torch.long)
        attentional = states.new_zeros(states.shape[0], self.attentional_size)
        return LuongState(hidden, cell, memory, position, attentional)

    def attention_inputs(
        self, query: Float[Tensor, "b q h"], state: LuongState
    ) -> tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor]:
        """Queries, keys, values, mask and query positions, for consecutive time steps."""
        key, value, mask = state.memory.key, state.memory.value, state.memory.query_mask
        steps = torch.arange(query.shape[1], device=query.device)
        return query, key, value, mask, state.position[:, None] + steps

    def combine(
        self, context: Float[Tensor, "*b s"], hidden: Float[Tensor, "*b h"]
    ) -> Float[Tensor, "*b a"]:
        """The attentional state h̃, from the context and the hidden state."""
        return torch.tanh(self.W_c(torch.cat([context, hidden], -1)))

    def recurrent_step(
        self, embedded: Float[Tensor, "b e"], state: LuongState
    ) -> tuple[LuongState, Float[Tensor, "b k"]]:
        """One time step: the next state, whose h̃ predicts a token, and the weights."""
        query, hidden, cell = run_lstm(
            self.rnn, self.rnn_input(embedded, state)[:, None], state.hidden, state.cell
        )  # (b, 1, h), (b, layers, h), (b, layers, h)
        context, weights = self.attention.attend(*self.attention_inputs(query, state))
        attentional = self.combine(context, query).squeeze(1)
        after = LuongState(hidden, cell, state.memory, state.position + 1, attentional)
        return after, weights.squeeze(1)

    def step(self, token: Int[Tensor, " b"], state: LuongState) -> DecoderStep:
        """The logits after ``token``."""
        state, weights = self.recurrent_step(self.dropout(self.embedding(token)), state)
        return DecoderStep(self.output(state.attentional), state, weights)

    def forward(
        self, target: Int[Tensor, "b t"], state: LuongState
    ) -> Float[Tensor, "b t vocabulary"]:
        """The logits after each token of ``target`` (teacher forcing), all at once."""
        check_target(target, state.hidden)
        embedded = self.dropout(self.embedding(target))
        hidden, *_ = run_lstm(self.rnn, embedded, state.hidden, state.cell)  # (b, t, h)
        context = self.attention(*self.attention_inputs(hidden, state))
        return self.output(self.combine(context, hidden))


class InputFeedingDecoder(LuongDecoder):
    """Luong's decoder with *input feeding*: the LSTM also reads the h̃ of the last step.

    ::

        h_t = LSTM([y_{t−1}; h̃_{t−1}], h_{t−1}),   h̃_{−1} = 0

    Each attention step now depends on the one before, so training is sequential too;
    only the output layer is applied to all time steps at once.

    Source: Luong et al. 2015, section 3.3.

    Example:
        >>> from companion.attention import Dot
        >>> decoder = InputFeedingDecoder(50, 8, 16, Dot())
        >>> decoder.rnn.input_size
        24
    """

    @staticmethod
    def rnn_input_size(embedding_size: int, attentional_size: int) -> int:
        """Dimension of token and h̃ together."""
        return embedding_size + attentional_size

    def rnn_input(
        self, embedded: Float[Tensor, "b e"], state: LuongState
    ) -> Float[Tensor, "b d"]:
        """The embedded token and the last h̃ side by side."""
        return torch.cat([embedded, state.attentional], -1)

    def forward(
        self, target: Int[Tensor, "b t"], state: LuongState
    ) -> Float[Tensor, "b t vocabulary"]:
        """The logits after each token of ``target`` (teacher forcing), step by step."""
        check_target(target, state.hidden)
        attentional = []
        for token in self.dropout(self.embedding(target)).unbind(1):
            state, _ = self.recurrent_step(token, state)
            attentional.append(state.attentional)
        return self.output(torch.stack(attentional, 1))
