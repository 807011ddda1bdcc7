"""Sequence to sequence: any encoder with any decoder, and the first two pairs, Cho's and Sutskever's."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int, Num
from torch import Tensor, nn
from torch.nn import functional

from companion._checks import (
    check_next,
    check_pairs,
    check_positive,
    check_rows,
    check_sentences,
    check_target,
)
from companion.attention.base import at_least_float32
from companion.decoding.state import DecoderStep, tensors
from companion.layers.deep_output import DeepOutput
from companion.layers.embedding import Embedding
from companion.layers.gru import pytorch_gru
from companion.layers.recurrent import (
    deep_lstm,
    is_token,
    reverse,
    run_lstm,
    run_packed,
    source_mask,
)


class SequenceDecoder(nn.Module, ABC):
    """A decoder that reads any number of tokens at once: a whole target, or one token.

    A subclass defines ``start``, the state before the first token, and :meth:`run`. Its
    steps return no attention weights, because it has none or has them in every layer;
    :func:`~companion.attention.recording.record_weights` records them.

    Example:
        >>> class Bigrams(SequenceDecoder):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.table = nn.Embedding(5, 5)
        ...     def start(self, states, mask):
        ...         return states
        ...     def run(self, tokens, state):
        ...         return self.table(tokens), state
        >>> decoder, target = Bigrams(), torch.tensor([[1, 4, 3]])
        >>> state = decoder.start(torch.zeros(1, 2), None)
        >>> step = decoder.step(target[:, 0], state)
        >>> torch.equal(step.logits, decoder(target, state)[:, 0])
        True
    """

    @abstractmethod
    def run(
        self, tokens: Int[Tensor, "b t"], state: Any
    ) -> tuple[Float[Tensor, "b t vocabulary"], Any]:
        """The logits after each of ``tokens``, and the state after the last of them."""

    def forward(
        self, target: Int[Tensor, "b t"], state: Any
    ) -> Float[Tensor, "b t vocabulary"]:
        """The logits after each token of ``target`` (teacher forcing), in one call."""
        check_target(target, tensors(state)[0])
        return self.run(target, state)[0]

    def step(self, token: Int[Tensor, " b"], state: Any) -> DecoderStep:
        """The logits after ``token``."""
        logits, state = self.run(token[:, None], state)
        return DecoderStep(logits.squeeze(1), state, None)


class EncoderDecoder(nn.Module):
    """An encoder and a decoder, whose ``start`` takes what the encoder returns.

    Args:
        encoder: from a batch of sources, sentences or images, to the arguments of the
            decoder's ``start``.
        decoder: has ``start``, ``step`` and a ``forward`` for teacher forcing.

    Example:
        >>> model = EncoderDecoder(ChoEncoder(100, 8, 16), ChoDecoder(50, 8, 16, 16))
        >>> source, target = torch.tensor([[5, 6, 7]]), torch.tensor([[1, 9, 8, 2]])
        >>> model(source, target[:, :-1]).shape
        torch.Size([1, 3, 50])
        >>> model.log_prob(source, target).shape
        torch.Size([1])
    """

    def __init__(self, encoder: nn.Module, decoder: nn.Module):
        super().__init__()
        self.encoder: Any = encoder
        self.decoder: Any = decoder

    def start(self, source: Num[Tensor, "b ..."]) -> Any:
        """Encode the source: the decoder's state before the first token."""
        return self.decoder.start(*self.encoder(source))

    def step(self, token: Int[Tensor, " b"], state: Any) -> DecoderStep:
        """The logits after ``token``."""
        check_next(token, tensors(state)[0])
        return self.decoder.step(token, state)

    def forward(
        self, source: Num[Tensor, "b ..."], target: Int[Tensor, "b t"]
    ) -> Float[Tensor, "b t vocabulary"]:
        """The logits after each token of ``target`` (teacher forcing)."""
        return self.decoder(target, self.start(source))

    def log_prob(
        self,
        source: Num[Tensor, "b ..."],
        target: Int[Tensor, "b t"],
        pad: int | None = None,
    ) -> Float[Tensor, " b"]:
        """The log-probability of each target given its source, with gradients.

        ::

            log p(y | x) = Σ_i log p(y_i | y_1, …, y_{i−1}, x)

        Padding does not count. The logarithms and their sum are computed in at least 32
        bits.

        Args:
            source: one source for each target.
            target: the first token, which is given, and those that count. A target
                without an end is scored as a prefix.
            pad: the token that is padding; ``None`` if there is none.
        """
        check_pairs("sources", source, "targets", target)
        _check_whole(target, pad)
        logits = at_least_float32(self(source, target[:, :-1])).mT
        ignored = -100 if pad is None else pad  # -100 is no token
        return -functional.cross_entropy(
            logits, target[:, 1:].long(), ignore_index=ignored, reduction="none"
        ).sum(1)


def _check_whole(target: Tensor, pad: int | None) -> None:
    """Refuse targets that are not two tokens or more, and only then padding."""
    check_sentences("a target", target)
    tokens = is_token(target, pad)
    sound = tokens[:, 1:2].any(1) & (tokens[:, 1:] <= tokens[:, :-1]).all(1)
    problem = "are not two tokens or more, and only then padding"
    check_rows(sound, "targets", target.shape, problem)


class ChoEncoder(nn.Module):
    """A GRU whose final hidden state becomes one vector for the whole sentence.

    ::

        h_t = GRU(x_t, h_{t−1}),   c = tanh(V h_T)

    Args:
        vocabulary_size, embedding_size: the number of source tokens, and the dimension
            of their embeddings.
        hidden_size: dimension of h and of c.
        dropout: dropout probability of the embeddings.
        gru: builds the network from its sizes,
            :func:`~companion.layers.gru.pytorch_gru` or
            :class:`~companion.layers.gru.ResetBeforeGRU`.
        pad: the token that is padding; ``None`` if there is none.

    Source: Cho et al. 2014, section 2.2 and appendix A.1.1.
    Deviation: the paper's GRU applies its reset gate before the matrix; PyTorch's, the
    default, after it, because it is far faster. ``gru=ResetBeforeGRU`` is the paper's.
    Deviation: the paper has no dropout; we offer it on the embeddings.

    Example:
        >>> (context,) = ChoEncoder(100, 8, 16, pad=0)(torch.tensor([[5, 6, 7], [8, 0, 0]]))
        >>> context.shape
        torch.Size([2, 16])
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
        self.rnn = gru(embedding_size, hidden_size)
        self.V = nn.Linear(hidden_size, hidden_size)

    def forward(self, source: Int[Tensor, "b k"]) -> tuple[Float[Tensor, "b h"]]:
        """The vector of each sentence."""
        mask = source_mask(source, self.embedding.padding_idx)
        _, final = run_packed(self.rnn, self.dropout(self.embedding(source)), mask)
        return (torch.tanh(self.V(final[0])),)


class ChoState(NamedTuple):
    """The state of a :class:`ChoDecoder`: its hidden state h', and the source's vector."""

    hidden: Float[Tensor, "b h"]
    context: Float[Tensor, "b c"]


class ChoDecoder(SequenceDecoder):
    """A GRU that reads the source's vector c at every time step.

    ::

        h'_0 = tanh(V' c),   h'_t = GRU([y_{t−1}; c], h'_{t−1})
        p(y_t) = softmax(deep output of h'_t, y_{t−1}, c)

    Args:
        vocabulary_size, embedding_size: the number of target tokens, and the dimension
            of their embeddings.
        hidden_size: dimension of h'.
        context_size: dimension of c.
        dropout: dropout probability of the embeddings.
        maxout_size: the number of maxout units; half of ``hidden_size`` if not given,
            as in the paper.
        gru: as in :class:`ChoEncoder`.

    Source: Cho et al. 2014, section 2.2 and appendix A.1.2.
    Deviation: the paper has tanh(W y + r ∘ (U h' + C c)); here C c is outside the reset
    gate, because a general GRU does not know which of its inputs is c.

    Example:
        >>> decoder = ChoDecoder(50, 8, 16, context_size=6)
        >>> state = decoder.start(torch.randn(2, 6))
        >>> decoder(torch.tensor([[1, 4, 5], [1, 7, 0]]), state).shape
        torch.Size([2, 3, 50])
    """

    def __init__(
        self,
        vocabulary_size: int,
        embedding_size: int,
        hidden_size: int,
        context_size: int,
        dropout: float = 0.0,
        maxout_size: int | None = None,
        gru: Callable[..., nn.Module] = pytorch_gru,
    ):
        super().__init__()
        check_positive(hidden_size=hidden_size, context_size=context_size)
        self.embedding = Embedding(vocabulary_size, embedding_size)
        self.dropout = nn.Dropout(dropout)
        self.V = nn.Linear(context_size, hidden_size)
        self.rnn = gru(embedding_size + context_size, hidden_size)
        self.output = DeepOutput(
            hidden_size, embedding_size, context_size, maxout_size, vocabulary_size
        )

    def start(self, context: Float[Tensor, "b c"]) -> ChoState:
        """The state before the first token, from the source's vector."""
        return ChoState(torch.tanh(self.V(context)), context)

    def run(
        self, tokens: Int[Tensor, "b t"], state: ChoState
    ) -> tuple[Float[Tensor, "b t vocabulary"], ChoState]:
        """The logits after each of ``tokens``, from the state h' that has read it."""
        embedded = self.dropout(self.embedding(tokens))
        context = state.context[:, None].expand(-1, tokens.shape[1], -1)  # (b, t, c)
        hidden, final = self.rnn(
            torch.cat([embedded, context], -1), state.hidden[None].contiguous()
        )
        return self.output(hidden, embedded, context), state._replace(hidden=final[0])


class LSTMState(NamedTuple):
    """The hidden states h and cell states c of all layers of an LSTM."""

    hidden: Float[Tensor, "b layers h"]
    cell: Float[Tensor, "b layers h"]


class LSTMEncoder(nn.Module):
    """A deep LSTM whose final states, of every layer, encode the sentence.

    Args:
        vocabulary_size, embedding_size: the number of source tokens, and the dimension
            of their embeddings.
        hidden_size: dimension of a layer's hidden state and of its cell state.
        layers: the number of layers.
        dropout: dropout probability of the embeddings, and between layers.
        pad: the token that is padding; ``None`` if there is none.

    Source: Sutskever et al. 2014, section 2, without the reversal of the source:
    :class:`SutskeverEncoder` has it.
    Deviation: the paper has no dropout; we offer it.

    Example:
        >>> encoder = LSTMEncoder(100, 8, 16, layers=3, pad=0)
        >>> state = encoder(torch.tensor([[5, 6, 7], [8, 0, 0]]))
        >>> state.hidden.shape, state.cell.shape
        (torch.Size([2, 3, 16]), torch.Size([2, 3, 16]))
    """

    def __init__(
        self,
        vocabulary_size: int,
        embedding_size: int,
        hidden_size: int,
        layers: int = 2,
        dropout: float = 0.0,
        pad: int | None = None,
    ):
        super().__init__()
        self.embedding = Embedding(vocabulary_size, embedding_size, pad)
        self.dropout = nn.Dropout(dropout)
        self.rnn = deep_lstm(embedding_size, hidden_size, layers, dropout)

    def forward(self, source: Int[Tensor, "b k"]) -> LSTMState:
        """The states of all layers after the last token of each sentence."""
        return LSTMState(*self.run(source)[2:])

    def run(
        self, source: Int[Tensor, "b k"]
    ) -> tuple[
        Float[Tensor, "b k h"],
        Bool[Tensor, "b k"],
        Float[Tensor, "b layers h"],
        Float[Tensor, "b layers h"],
    ]:
        """The last layer's states, the source mask, and every layer's final h and c."""
        mask = source_mask(source, self.embedding.padding_idx)
        embedded = self.dropout(self.embedding(source))
        states, (hidden, cell) = run_packed(self.rnn, embedded, mask)
        return states, mask, hidden.transpose(0, 1), cell.transpose(0, 1)


class SutskeverEncoder(LSTMEncoder):
    """A deep LSTM that reads each sentence from its last token to its first.

    The first tokens of source and target, which often correspond, are then few time
    steps apart.

    Source: Sutskever et al. 2014, section 3.3.

    Example:
        >>> forwards = SutskeverEncoder(100, 8, 16)(torch.tensor([[7, 6, 5]]))
        >>> forwards.hidden.shape
        torch.Size([1, 2, 16])
    """

    def forward(self, source: Int[Tensor, "b k"]) -> LSTMState:
        """The states of all layers after the first token of each sentence."""
        return super().forward(reverse(source, self.embedding.padding_idx))


class SutskeverDecoder(SequenceDecoder):
    """A deep LSTM that has nothing of the source but the encoder's final states.

    ::

        h_0, c_0 = the encoder's final states, layer by layer
        h_t, c_t = LSTM(y_{t−1}, h_{t−1}, c_{t−1})
        p(y_t) = softmax(W h_t),   with h_t of the last layer

    Args:
        vocabulary_size, embedding_size: the number of target tokens, and the dimension
            of their embeddings.
        hidden_size, layers: as the encoder's.
        dropout: dropout probability of the embeddings, and between layers.

    Source: Sutskever et al. 2014, sections 2 and 3.4, with four layers of 1000 cells.
    Deviation: W has a bias, as ``nn.Linear`` by default.
    Deviation: the paper has no dropout; we offer it.

    Example:
        >>> encoder, decoder = SutskeverEncoder(100, 8, 16), SutskeverDecoder(50, 8, 16)
        >>> state = decoder.start(*encoder(torch.tensor([[5, 6, 7]])))
        >>> decoder.step(torch.tensor([1]), state).logits.shape
        torch.Size([1, 50])
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
        self.output = nn.Linear(hidden_size, vocabulary_size)

    def start(
        self, hidden: Float[Tensor, "b layers h"], cell: Float[Tensor, "b layers h"]
    ) -> LSTMState:
        """The state before the first token: the encoder's final states."""
        return LSTMState(hidden, cell)

    def run(
        self, tokens: Int[Tensor, "b t"], state: LSTMState
    ) -> tuple[Float[Tensor, "b t vocabulary"], LSTMState]:
        """The logits after each of ``tokens``."""
        embedded = self.dropout(self.embedding(tokens))
        states, hidden, cell = run_lstm(self.rnn, embedded, *state)
        return self.output(states), LSTMState(hidden, cell)
