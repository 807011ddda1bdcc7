"""Neural machine translation by jointly learning to align and translate (Bahdanau et al. 2015)."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from companion._checks import (
    check_even,
    check_kind,
    check_positive,
    check_source,
    check_target,
)
from companion.attention.additive import LocationSensitive
from companion.attention.base import Attention
from companion.decoding.state import DecoderStep, Memory
from companion.layers.deep_output import DeepOutput
from companion.layers.embedding import Embedding
from companion.layers.gru import pytorch_gru
from companion.layers.recurrent import run_packed, source_mask


class BahdanauEncoder(nn.Module):
    """A bidirectional GRU, whose states describe each token in its context.

    ::

        →h_j = GRU(x_j, →h_{j−1}),   ←h_j = GRU(x_j, ←h_{j+1}),   h_j = [→h_j; ←h_j]

    Args:
        vocabulary_size, embedding_size: the number of source tokens, and the dimension
            of their embeddings.
        hidden_size: dimension of one direction's state; h_j has twice as many.
        dropout: dropout probability of the embeddings.
        gru: builds the network from its sizes,
            :func:`~companion.layers.gru.pytorch_gru` or
            :class:`~companion.layers.gru.ResetBeforeGRU`.
        pad: the token that is padding; ``None`` if there is none.

    Source: Bahdanau et al. 2015, section 3.2 and appendix A.2.1.
    Deviation: the paper's GRU applies its reset gate before the matrix; PyTorch's, the
    default, after it, because it is far faster. ``gru=ResetBeforeGRU`` is the paper's.
    Deviation: the paper has no dropout; we offer it on the embeddings.

    Example:
        >>> encoder = BahdanauEncoder(100, embedding_size=8, hidden_size=16, pad=0)
        >>> states, mask = encoder(torch.tensor([[5, 6, 7], [8, 0, 0]]))
        >>> states.shape, mask.shape
        (torch.Size([2, 3, 32]), torch.Size([2, 3]))
    """

    def __init__(
        self,
        vocabulary_size: int,
        embedding_size: int,
        hidden_size: int,
        dropout: float = 0.0,
        gru: Callable[..., nn.Module] = pytorch_gru,
        pad: int | None = None,
    ):
        super().__init__()
        check_positive(hidden_size=hidden_size)
        self.embedding = Embedding(vocabulary_size, embedding_size, pad)
        self.dropout = nn.Dropout(dropout)
        self.rnn = gru(embedding_size, hidden_size, bidirectional=True)

    def forward(
        self, source: Int[Tensor, "b k"]
    ) -> tuple[Float[Tensor, "b k two_h"], Bool[Tensor, "b k"]]:
        """The hidden states of each sentence, zero at the padding, and the source mask."""
        mask = source_mask(source, self.embedding.padding_idx)
        states, _ = run_packed(self.rnn, self.dropout(self.embedding(source)), mask)
        return states, mask


class FixedVectorEncoder(BahdanauEncoder):
    """Bahdanau's encoder, of which a decoder gets only the final states: one vector.

    ::

        h = [→h_n; ←h_1]

    It is the baseline without attention. A decoder that attends to this source has one
    position to attend to, whose weight is always 1, so that it reads the same vector at
    every step. Decoder, parameters and initial state are those of the model with
    attention: only the access to the source differs.

    Args:
        vocabulary_size, embedding_size, hidden_size, dropout, gru, pad: as in
            :class:`BahdanauEncoder`.

    Source: none; it is ours, for comparison. The fixed vector is that of Cho et al.
    2014, here of both directions.

    Example:
        >>> encoder = FixedVectorEncoder(100, embedding_size=8, hidden_size=16, pad=0)
        >>> states, mask = encoder(torch.tensor([[5, 6, 7], [8, 0, 0]]))
        >>> states.shape, mask.tolist()
        (torch.Size([2, 1, 32]), [[True], [True]])
    """

    def forward(
        self, source: Int[Tensor, "b k"]
    ) -> tuple[Float[Tensor, "b 1 two_h"], Bool[Tensor, "b 1"]]:
        """The final states of both directions as one position, and its mask."""
        mask = source_mask(source, self.embedding.padding_idx)
        embedded = self.dropout(self.embedding(source))
        _, (forward, backward) = run_packed(self.rnn, embedded, mask)  # (b, h) each
        return torch.cat([forward, backward], -1)[:, None], mask[:, :1]


class BahdanauState(NamedTuple):
    """The state of a :class:`BahdanauDecoder` before a time step.

    ``context`` and ``weights`` are those of the last step, at first zero; ``position``
    is the number of tokens read.
    """

    hidden: Float[Tensor, "b h"]
    memory: Memory
    context: Float[Tensor, "b v"]
    weights: Float[Tensor, "b k"]
    position: Int[Tensor, " b"]


class BahdanauDecoder(nn.Module):
    """A GRU that attends to the source before it predicts each token.

    ::

        s_0 = tanh(W_s ←h_1)
        α_i = masked_softmax(a(s_{i−1}, h)),   c_i = Σ_j α_ij h_j
        p(y_i) = softmax(deep output of s_{i−1}, y_{i−1}, c_i)
        s_i = GRU([y_{i−1}; c_i], s_{i−1})

    Args:
        vocabulary_size, embedding_size: the number of target tokens, and the dimension
            of their embeddings.
        hidden_size: dimension of s.
        source_size: dimension of h_j = [→h_j; ←h_j], which is even.
        attention: the paper's a, :class:`~companion.attention.additive.Additive`, or
            any other. One that depends on the query's position is given i − 1.
        dropout: dropout probability of the embeddings.
        maxout_size: the number of maxout units; half of ``hidden_size`` if not given,
            as the paper's 500 units for 1000.
        cell: builds the recurrent cell from the sizes of its input and of its state,
            ``nn.GRUCell`` or :class:`~companion.layers.gru.ResetBeforeGRUCell`.

    Source: Bahdanau et al. 2015, section 3.1 and appendix A.2.2. Equation (4) has s_i
    in the output; the appendix and the authors' code have s_{i−1}, as here.
    Deviation: the paper's GRU applies its reset gate before the matrix; PyTorch's, the
    default, after it, because it is faster. ``cell=ResetBeforeGRUCell`` is the paper's.
    Deviation: the paper has no dropout; we offer it on the embeddings.

    Example:
        >>> from companion.attention import Additive
        >>> decoder = BahdanauDecoder(50, 8, 16, 12, Additive(16, 12, 10))
        >>> states, mask = torch.randn(1, 3, 12), torch.ones(1, 3, dtype=torch.bool)
        >>> step = decoder.step(torch.tensor([1]), decoder.start(states, mask))
        >>> step.logits.shape, step.weights.shape
        (torch.Size([1, 50]), torch.Size([1, 3]))
    """

    attention_type: type = Attention  #: the kind of attention that it can be given

    def __init__(
        self,
        vocabulary_size: int,
        embedding_size: int,
        hidden_size: int,
        source_size: int,
        attention: Attention,
        dropout: float = 0.0,
        maxout_size: int | None = None,
        cell: Callable[[int, int], nn.Module] = nn.GRUCell,
    ):
        super().__init__()
        check_kind(self, attention, self.attention_type)
        check_even(source_size=source_size)
        check_positive(hidden_size=hidden_size)
        self.source_size = source_size
        self.embedding = Embedding(vocabulary_size, embedding_size)
        self.dropout = nn.Dropout(dropout)
        self.attention = attention
        self.W_s = nn.Linear(source_size // 2, hidden_size)
        self.cell = cell(embedding_size + source_size, hidden_size)
        self.output = DeepOutput(
            hidden_size, embedding_size, source_size, maxout_size, vocabulary_size
        )

    def start(
        self, states: Float[Tensor, "b k s"], mask: Bool[Tensor, "b k"]
    ) -> BahdanauState:
        """Project the source, once, and start from its first token's backward state."""
        check_source(states, mask, self.source_size)
        backward = states[:, 0, self.source_size // 2 :]  # ←h_1
        hidden = torch.tanh(self.W_s(backward))
        return BahdanauState(
            hidden,
            Memory(*self.attention.project(states), mask),
            context=torch.zeros_like(states[:, 0]),
            weights=torch.zeros_like(states[:, :, 0]),
            position=torch.zeros_like(mask[:, 0], dtype=torch.long),
        )

    def query(
        self, hidden: Float[Tensor, "b h"], embedded: Float[Tensor, "b e"]
    ) -> Float[Tensor, "b q"]:
        """The query, here the hidden state s_{i−1}."""
        return hidden

    def attend(
        self, query: Float[Tensor, "b q"], memory: Memory, position: Int[Tensor, " b"]
    ) -> tuple[Float[Tensor, "b v"], Float[Tensor, "b k"]]:
        """Context and weights of one query for each sentence, at ``position``."""
        key, value, mask = memory.key, memory.value, memory.query_mask
        context, weights = self.attention.attend(
            query[:, None], key, value, mask, position[:, None]
        )  # (b, 1, v), (b, 1, k)
        return context.squeeze(1), weights.squeeze(1)

    def recurrent_step(
        self, embedded: Float[Tensor, "b e"], state: BahdanauState
    ) -> tuple[Float[Tensor, "b h"], BahdanauState]:
        """One time step: the state that predicts y_i, here s_{i−1}, and the next one."""
        query = self.query(state.hidden, embedded)
        context, weights = self.attend(query, state.memory, state.position)  # c_i, α_i
        hidden = self.cell(torch.cat([embedded, context], -1), state.hidden)  # s_i
        after = BahdanauState(
            hidden, state.memory, context, weights, state.position + 1
        )
        return state.hidden, after

    def step(self, token: Int[Tensor, " b"], state: BahdanauState) -> DecoderStep:
        """The logits after ``token``."""
        embedded = self.dropout(self.embedding(token))
        hidden, state = self.recurrent_step(embedded, state)
        logits = self.output(hidden, embedded, state.context)
        return DecoderStep(logits, state, state.weights)

    def forward(
        self, target: Int[Tensor, "b t"], state: BahdanauState
    ) -> Float[Tensor, "b t vocabulary"]:
        """The logits after each token of ``target`` (teacher forcing).

        The recurrence is sequential. The output layer is applied to all steps at once.
        """
        check_target(target, state.hidden)
        embedded = self.dropout(self.embedding(target))  # (b, t, e)
        hidden, context = [], []
        for token in embedded.unbind(1):
            predicting, state = self.recurrent_step(token, state)
            hidden.append(predicting)
            context.append(state.context)
        return self.output(torch.stack(hidden, 1), embedded, torch.stack(context, 1))


class LocationSensitiveDecoder(BahdanauDecoder):
    """Bahdanau's decoder with location-sensitive attention.

    ::

        α_i = masked_softmax(a(s_{i−1}, α_{i−1}, h)),   α_0 = 0

    Source: Chorowski et al. 2015, equations (8) and (9), for the attention.
    Deviation: the decoder around it is Bahdanau's, so that only the attention differs.

    Example:
        >>> from companion.attention import LocationSensitive
        >>> attention = LocationSensitive(16, 12, 10, channels=4, width=3)
        >>> decoder = LocationSensitiveDecoder(50, 8, 16, 12, attention)
        >>> mask = torch.ones(1, 3, dtype=torch.bool)
        >>> state = decoder.start(torch.randn(1, 3, 12), mask)
        >>> decoder(torch.tensor([[1, 4]]), state).shape
        torch.Size([1, 2, 50])
    """

    attention_type = LocationSensitive
    attention: LocationSensitive

    def recurrent_step(
        self, embedded: Float[Tensor, "b e"], state: BahdanauState
    ) -> tuple[Float[Tensor, "b h"], BahdanauState]:
        """As Bahdanau's, over keys that hold features of the last step's weights."""
        key = self.attention.location_features(state.memory.key, state.weights)
        located = state._replace(memory=state.memory._replace(key=key))
        hidden, after = super().recurrent_step(embedded, located)
        # PyTorch 2.11 cannot compile `_replace` of a tuple made in the same graph
        return hidden, BahdanauState(
            after.hidden, state.memory, after.context, after.weights, after.position
        )


class StateAndWordDecoder(BahdanauDecoder):
    """Bahdanau's decoder with a query of hidden state and last token.

    ::

        α_i = masked_softmax(a([s_{i−1}; y_{i−1}], h))

    Its attention takes queries of ``hidden_size + embedding_size`` dimensions.

    Source: none; it is ours, for comparison.

    Example:
        >>> from companion.attention import Additive
        >>> decoder = StateAndWordDecoder(50, 8, 16, 12, Additive(16 + 8, 12, 10))
        >>> mask = torch.ones(1, 3, dtype=torch.bool)
        >>> state = decoder.start(torch.randn(1, 3, 12), mask)
        >>> decoder(torch.tensor([[1, 4]]), state).shape
        torch.Size([1, 2, 50])
    """

    def query(
        self, hidden: Float[Tensor, "b h"], embedded: Float[Tensor, "b e"]
    ) -> Float[Tensor, "b q"]:
        """Hidden state and token side by side."""
        return torch.cat([hidden, embedded], -1)


class CurrentStateDecoder(BahdanauDecoder):
    """A decoder whose query is s_i, the hidden state that has read the last token.

    ::

        s_i = GRU([y_{i−1}; c_{i−1}], s_{i−1}),   c_0 = 0
        c_i = Σ_j α_ij h_j with the query s_i
        p(y_i) = softmax(deep output of s_i, y_{i−1}, c_i)

    Much code under Bahdanau's name computes this.

    Source: the order of computation is that of Luong et al. 2015, section 3.1.

    Example:
        >>> from companion.attention import Additive
        >>> decoder = CurrentStateDecoder(50, 8, 16, 12, Additive(16, 12, 10))
        >>> mask = torch.ones(1, 3, dtype=torch.bool)
        >>> state = decoder.start(torch.randn(1, 3, 12), mask)
        >>> decoder(torch.tensor([[1, 4]]), state).shape
        torch.Size([1, 2, 50])
    """

    def recurrent_step(
        self, embedded: Float[Tensor, "b e"], state: BahdanauState
    ) -> tuple[Float[Tensor, "b h"], BahdanauState]:
        """First the new hidden state s_i, then its attention; s_i predicts y_i."""
        hidden = self.cell(torch.cat([embedded, state.context], -1), state.hidden)
        query = self.query(hidden, embedded)
        context, weights = self.attend(query, state.memory, state.position)  # c_i, α_i
        after = BahdanauState(
            hidden, state.memory, context, weights, state.position + 1
        )
        return hidden, after
