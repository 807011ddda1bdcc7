"""Sequence to sequence: any encoder with any decoder, and Cho's pair of 2014, without attention."""

from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from companion.attention import check_size
from companion.embedding import Embedding
from companion.recurrent import DeepOutput, check_target, run_packed, source_mask
from companion.state import Step


class EncoderDecoder(nn.Module):
    """An encoder joined to a decoder: what the one returns is what the other starts from."""

    def __init__(self, encoder: nn.Module, decoder: nn.Module):
        super().__init__()
        self.encoder: Any = encoder
        self.decoder: Any = decoder

    def start(self, source: Int[Tensor, "b k"]) -> Any:
        """Read the source: the decoder's state before the first word."""
        return self.decoder.start(*self.encoder(source))

    def step(self, token: Int[Tensor, " b"], state: Any) -> Step:
        """Scores of the word after ``token``."""
        return self.decoder.step(token, state)

    def forward(
        self, source: Int[Tensor, "b k"], target: Int[Tensor, "b t"]
    ) -> Float[Tensor, "b t vocabulary"]:
        """Scores of the word after each word of ``target`` (teacher forcing)."""
        return self.decoder(target, self.start(source))


class ChoEncoder(nn.Module):
    """A GRU that leaves one vector for the whole sentence.

    ::

        c = tanh(V h_T)

    Source: Cho et al. 2014, section 2.2 and appendix A.1.1. Deviation: PyTorch's GRU, which resets after
    the matrix.
    """

    def __init__(self, vocabulary_size: int, embedding_size: int, hidden_size: int, dropout: float = 0.0):
        super().__init__()
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


class ChoDecoder(nn.Module):
    """A GRU that sees the same vector c at every word.

    ::

        h'_0 = tanh(V' c),   h'_t = GRU([y_{t−1}; c], h'_{t−1})
        p(y_t) = softmax(deep output of h'_t, y_{t−1}, c)

    Source: Cho et al. 2014, section 2.2 and appendix A.1.2. The output is conditioned on the decoder's
    own state h'. Deviations: PyTorch's GRU; half as many maxout units as ``hidden_size``, as in the paper.

    Raises:
        ValueError: ``hidden_size`` is odd, so that it cannot be halved.
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
        if hidden_size % 2:
            raise ValueError(f"the hidden size must be even, to be halved, but is {hidden_size}")
        self.embedding = Embedding(vocabulary_size, embedding_size)
        self.dropout = nn.Dropout(dropout)
        self.V = nn.Linear(context_size, hidden_size)
        self.rnn = nn.GRU(embedding_size + context_size, hidden_size, batch_first=True)
        self.output = DeepOutput(hidden_size, embedding_size, context_size, hidden_size // 2, vocabulary_size)

    def start(self, context: Float[Tensor, "b c"]) -> ChoState:
        """Begin from the source's vector."""
        check_size("context", context, self.V.in_features)
        return ChoState(torch.tanh(self.V(context)), context)

    def forward(self, target: Int[Tensor, "b t"], state: ChoState) -> Float[Tensor, "b t vocabulary"]:
        """Scores of the word after each word of ``target``, all steps in one call.

        Raises:
            ValueError: the target has no word, or another number of sentences than the source.
        """
        check_target(target, state.hidden)
        return self._run(target, state)[0]

    def step(self, token: Int[Tensor, " b"], state: ChoState) -> Step:
        """Scores of the word after ``token``; there are no weights, for there is no attention."""
        logits, state = self._run(token[:, None], state)
        return Step(logits.squeeze(1), state, None)

    def _run(self, tokens: Tensor, state: ChoState) -> tuple[Tensor, ChoState]:
        embedded = self.dropout(self.embedding(tokens))
        context = state.context[:, None].expand(-1, tokens.shape[1], -1)
        hidden, final = self.rnn(torch.cat([embedded, context], -1), state.hidden[None].contiguous())
        return self.output(hidden, embedded, context), state._replace(hidden=final[0])
