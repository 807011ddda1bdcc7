"""Sequence to sequence: any encoder with any decoder, and the two pairs of 2014, Cho's and Sutskever's."""

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int, Num
from torch import Tensor, nn
from torch.nn import functional

from companion._checks import (
    check_even,
    check_layers,
    check_positive,
    check_size,
    check_target,
)
from companion.data.vocabulary import BOS, PAD
from companion.decoding.state import DecoderStep, tensors
from companion.layers.deep_output import DeepOutput
from companion.layers.embedding import Embedding
from companion.layers.recurrent import (
    deep_lstm,
    reverse,
    run_lstm,
    run_packed,
    source_mask,
)


class SequenceDecoder(nn.Module, ABC):
    """A decoder that reads a sentence in pieces of any length: all of it in training, or word by word.

    Both are one method: a subclass says in ``start`` where it begins, and in :meth:`run` how it goes on. A
    step does not say where it looked, for the decoder looks nowhere, or in every layer; see
    :func:`~companion.attention.recording.record_weights`.
    """

    @abstractmethod
    def run(
        self, tokens: Int[Tensor, "b t"], state: Any
    ) -> tuple[Float[Tensor, "b t vocabulary"], Any]:
        """Scores of the word after each of ``tokens``, and the state after the last of them."""

    def forward(
        self, target: Int[Tensor, "b t"], state: Any
    ) -> Float[Tensor, "b t vocabulary"]:
        """Scores of the word after each word of ``target``, all steps in one call.

        Raises:
            ValueError: the target has no word, or another number of sentences than the source.
        """
        check_target(target, tensors(state)[0])
        return self.run(target, state)[0]

    def step(self, token: Int[Tensor, " b"], state: Any) -> DecoderStep:
        """Scores of the word after ``token``."""
        logits, state = self.run(token[:, None], state)
        return DecoderStep(logits.squeeze(1), state, None)


class EncoderDecoder(nn.Module):
    """An encoder joined to a decoder: what the one returns is what the other starts from.

    A source is whatever the encoder reads, one to a row: sentences as integers, or images.
    """

    def __init__(self, encoder: nn.Module, decoder: nn.Module):
        super().__init__()
        self.encoder: Any = encoder
        self.decoder: Any = decoder

    def start(self, source: Num[Tensor, "b ..."]) -> Any:
        """Read the source: the decoder's state before the first word."""
        return self.decoder.start(*self.encoder(source))

    def step(self, token: Int[Tensor, " b"], state: Any) -> DecoderStep:
        """Scores of the word after ``token``."""
        return self.decoder.step(token, state)

    def forward(
        self, source: Num[Tensor, "b ..."], target: Int[Tensor, "b t"]
    ) -> Float[Tensor, "b t vocabulary"]:
        """Scores of the word after each word of ``target`` (teacher forcing)."""
        return self.decoder(target, self.start(source))

    def log_prob(
        self, source: Num[Tensor, "b ..."], target: Int[Tensor, "b t"]
    ) -> Float[Tensor, " b"]:
        """How probable each target is as the answer to its source, with gradients.

        ::

            log p(y | x) = Σ_i log p(y_i | y_1, …, y_{i−1}, x)

        A target begins with ``<bos>``, which is given, and ends with ``<eos>``, which counts; one without
        ``<eos>`` is scored as a beginning. Padding does not count. In less than 32 bits, the logarithms and
        their sum are still computed in 32.

        Raises:
            ValueError: there is not one target for each source, or one does not begin with ``<bos>``, has
                nothing after it, or has padding before a word.
        """
        if len(source) != len(target):
            raise ValueError(
                f"there are {len(source)} sources, but {len(target)} targets"
            )
        words = target != PAD
        sound = (
            (target[:, :1] == BOS).all(1)
            & words[:, 1:2].any(1)
            & (words[:, 1:] <= words[:, :-1]).all(1)
        )
        if not sound.all():
            raise ValueError(
                f"a target is <bos> ({BOS}), words, and only then padding; but in {tuple(target.shape)} "
                f"the rows {(~sound).nonzero().flatten().tolist()} are not so"
            )
        logits = self(source, target[:, :-1])
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32)).mT
        return -functional.cross_entropy(
            logits, target[:, 1:], ignore_index=PAD, reduction="none"
        ).sum(1)


class ChoEncoder(nn.Module):
    """A GRU that leaves one vector for the whole sentence.

    ::

        c = tanh(V h_T)

    Source: Cho et al. 2014, section 2.2 and appendix A.1.1. Deviation: PyTorch's GRU, which resets after
    the matrix.

    Raises:
        ValueError: a size is below 1.
    """

    def __init__(
        self,
        vocabulary_size: int,
        embedding_size: int,
        hidden_size: int,
        dropout: float = 0.0,
    ):
        super().__init__()
        check_positive(hidden_size=hidden_size)
        self.embedding = Embedding(vocabulary_size, embedding_size)
        self.dropout = nn.Dropout(dropout)
        self.rnn = nn.GRU(embedding_size, hidden_size, batch_first=True)
        self.V = nn.Linear(hidden_size, hidden_size)

    def forward(self, source: Int[Tensor, "b k"]) -> tuple[Float[Tensor, "b h"]]:
        """The vector of each sentence.

        Raises:
            ValueError: a sentence is empty, has padding before a word, or a token outside the vocabulary.
        """
        embedded = self.dropout(self.embedding(source))
        _, final = run_packed(self.rnn, embedded, source_mask(source))
        return (torch.tanh(self.V(final[0])),)


class ChoState(NamedTuple):
    """Between two words: the recurrent state h', and the one vector that stands for the source."""

    hidden: Float[Tensor, "b h"]
    context: Float[Tensor, "b c"]


class ChoDecoder(SequenceDecoder):
    """A GRU that sees the same vector c at every word.

    ::

        h'_0 = tanh(V' c),   h'_t = GRU([y_{t−1}; c], h'_{t−1})
        p(y_t) = softmax(deep output of h'_t, y_{t−1}, c)

    Source: Cho et al. 2014, section 2.2 and appendix A.1.2. The output is conditioned on the decoder's
    own state h'. Half as many maxout units as ``hidden_size``, as in the paper. Deviation: PyTorch's GRU,
    whose reset gate acts on the last state alone; the paper's acts on what c brings as well.

    Raises:
        ValueError: a size is below 1, or ``hidden_size`` is odd, so that it cannot be halved.
    """

    def __init__(
        self,
        vocabulary_size: int,
        embedding_size: int,
        hidden_size: int,
        context_size: int,
        dropout: float = 0.0,
    ):
        super().__init__()
        check_even(hidden_size=hidden_size)
        check_positive(context_size=context_size)
        self.embedding = Embedding(vocabulary_size, embedding_size)
        self.dropout = nn.Dropout(dropout)
        self.V = nn.Linear(context_size, hidden_size)
        self.rnn = nn.GRU(embedding_size + context_size, hidden_size, batch_first=True)
        self.output = DeepOutput(
            hidden_size, embedding_size, context_size, hidden_size // 2, vocabulary_size
        )

    def start(self, context: Float[Tensor, "b c"]) -> ChoState:
        """Begin from the source's vector."""
        check_size("context", context, self.V.in_features)
        return ChoState(torch.tanh(self.V(context)), context)

    def run(
        self, tokens: Int[Tensor, "b t"], state: ChoState
    ) -> tuple[Float[Tensor, "b t vocabulary"], ChoState]:
        """Scores after each of ``tokens``, each chosen by the state h' that has read that token."""
        embedded = self.dropout(self.embedding(tokens))
        context = state.context[:, None].expand(-1, tokens.shape[1], -1)
        hidden, final = self.rnn(
            torch.cat([embedded, context], -1), state.hidden[None].contiguous()
        )
        return self.output(hidden, embedded, context), state._replace(hidden=final[0])


class LSTMState(NamedTuple):
    """Between two words: what each layer of a deep LSTM shows, and what it keeps in its cells."""

    hidden: Float[Tensor, "b layers h"]
    cell: Float[Tensor, "b layers h"]


class LSTMEncoder(nn.Module):
    """A deep LSTM, of which the last state of every layer stands for the sentence.

    Source: Sutskever et al. 2014, section 2, without the reversal: see :class:`SutskeverEncoder`.
    Deviation: dropout on the embedded words and between the layers, if asked for.

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

    def forward(self, source: Int[Tensor, "b k"]) -> LSTMState:
        """Hidden states and cells after the last word of each sentence, of all layers.

        Raises:
            ValueError: a sentence is empty, has padding before a word, or a token outside the vocabulary.
        """
        embedded = self.dropout(self.embedding(source))
        _, (hidden, cell) = run_packed(self.rnn, embedded, source_mask(source))
        return LSTMState(hidden.transpose(0, 1), cell.transpose(0, 1))


class SutskeverEncoder(LSTMEncoder):
    """The same, but every sentence is read from its last word to its first.

    So the first words of source and target, which often belong together, come close to each other. Source:
    Sutskever et al. 2014, section 3.3.

    Raises:
        ValueError: a size or the number of layers is below 1.
    """

    def forward(self, source: Int[Tensor, "b k"]) -> LSTMState:
        """Hidden states and cells after the first word of each sentence, of all layers.

        Raises:
            ValueError: a sentence is empty, has padding before a word, or a token outside the vocabulary.
        """
        return super().forward(reverse(source))


class SutskeverDecoder(SequenceDecoder):
    """A deep LSTM that goes on from where the encoder's stopped, and sees nothing else of the source.

    ::

        h_0, c_0 = the encoder's last, in every layer;   h_t, c_t = LSTM(y_{t−1}, h_{t−1}, c_{t−1})
        p(y_t) = softmax(W h_t),   with h_t of the last layer

    Source: Sutskever et al. 2014, sections 2 and 3.4, where it has four layers of 1000 cells. Deviations: a
    bias beside W; dropout on the embedded words and between the layers, if asked for.

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
        self.output = nn.Linear(hidden_size, vocabulary_size)

    def start(
        self, hidden: Float[Tensor, "b layers h"], cell: Float[Tensor, "b layers h"]
    ) -> LSTMState:
        """Begin from the encoder's last states, layer for layer.

        Raises:
            ValueError: the encoder has another number of layers, or layers of another size.
        """
        check_layers(self.rnn, hidden, cell)
        return LSTMState(hidden, cell)

    def run(
        self, tokens: Int[Tensor, "b t"], state: LSTMState
    ) -> tuple[Float[Tensor, "b t vocabulary"], LSTMState]:
        """Scores after each of ``tokens``."""
        states, hidden, cell = run_lstm(
            self.rnn, self.dropout(self.embedding(tokens)), *state
        )
        return self.output(states), LSTMState(hidden, cell)
