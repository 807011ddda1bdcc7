"""Neural machine translation by jointly learning to align and translate (Bahdanau, Cho and Bengio 2015)."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from companion.attention import (
    Attention,
    check_kind,
    check_positive,
    check_size,
    check_unplaced,
    uniform_parameter,
)
from companion.embedding import Embedding
from companion.recurrent import DeepOutput, check_even, check_target, run_packed, source_mask
from companion.state import Memory, Step


class Additive(Attention):
    """Scores by a small network with one hidden layer, which query and key enter side by side.

    ::

        e_ij = vᵀ tanh(W s_{i−1} + U h_j)

    Source: Bahdanau et al. 2015, section 3.1 and appendix A.1.2. Our query, key and weights are the paper's
    s_{i−1}, U_a h_j and α_ij; ``size`` is its n'. U is in :meth:`project`, so the source meets it only once.

    Raises:
        ValueError: a size is below 1, or query or source have another number of features than announced.
    """

    def __init__(self, query_size: int, key_size: int, size: int):
        super().__init__()
        check_positive(query_size=query_size, key_size=key_size, size=size)
        self.W = nn.Linear(query_size, size, bias=False)
        self.U = nn.Linear(key_size, size, bias=False)
        self.v = uniform_parameter(size)

    def project(
        self, source: Float[Tensor, "*b k s"]
    ) -> tuple[Float[Tensor, "*b k d"], Float[Tensor, "*b k s"]]:
        """``U h_j`` as the key, ``h_j`` itself as the value."""
        check_size("source", source, self.U.in_features)
        return self.U(source), source

    def score(self, query: Float[Tensor, "*b q s"], key: Float[Tensor, "*b k d"]) -> Float[Tensor, "*b q k"]:
        """``vᵀ tanh(W s + U h)`` for every query with every key; ``key`` is already ``U h``."""
        check_size("query", query, self.W.in_features)
        check_size("projected key", key, self.U.out_features)
        return torch.tanh_(self.W(query).unsqueeze(-2) + key.unsqueeze(-3)) @ self.v


class Encoder(nn.Module):
    """A bidirectional GRU: every word in the light of what stands before and after it.

    ::

        h_j = [→h_j; ←h_j]

    Source: Bahdanau et al. 2015, section 3.2. Deviation: PyTorch's GRU resets after the matrix, r ∘ (U s),
    where the paper resets before it, U (r ∘ s); and dropout on the embedded words, if asked for.

    Raises:
        ValueError: a size is below 1.
    """

    def __init__(self, vocabulary_size: int, embedding_size: int, hidden_size: int, dropout: float = 0.0):
        super().__init__()
        check_positive(hidden_size=hidden_size)
        self.embedding = Embedding(vocabulary_size, embedding_size)
        self.dropout = nn.Dropout(dropout)
        self.rnn = nn.GRU(embedding_size, hidden_size, batch_first=True, bidirectional=True)

    def forward(self, source: Int[Tensor, "b k"]) -> tuple[Float[Tensor, "b k two_h"], Bool[Tensor, "b k"]]:
        """The states of each sentence and the mask of its words.

        Raises:
            ValueError: a sentence is empty, has padding before a word, or a token outside the vocabulary.
        """
        mask = source_mask(source)
        states, _ = run_packed(self.rnn, self.dropout(self.embedding(source)), mask)
        return states, mask


class DecoderState(NamedTuple):
    """Between two words: the recurrent state s, the source, and what the last look brought, at first zero."""

    hidden: Float[Tensor, "b h"]
    memory: Memory
    context: Float[Tensor, "b v"]
    weights: Float[Tensor, "b k"]


class Decoder(nn.Module):
    """Before each word, look at the source; then choose the word and move on.

    ::

        s_0 = tanh(W_s ←h_1)
        α_i = masked_softmax(a(s_{i−1}, h)),   c_i = Σ_j α_ij h_j
        p(y_i) = softmax(deep output of s_{i−1}, y_{i−1}, c_i)
        s_i = GRU([y_{i−1}; c_i], s_{i−1})

    Source: Bahdanau et al. 2015, section 3.1 and appendix A.2.2. Equation (4) writes the output with s_i; the
    appendix and the authors' code have s_{i−1}, and so have we. ``attention`` is the paper's a: Additive.
    Deviations: the GRU of PyTorch, as in :class:`Encoder`; maxout units number half of ``hidden_size``,
    as the paper's 500 to 1000; dropout on the embedded words, which the paper does not have.

    Raises:
        ValueError: a size is below 1, or ``source_size`` or ``hidden_size`` is odd and cannot be halved.
        TypeError: the attention is not of the kind that the decoder ``needs``, or goes by the query's place.
    """

    needs: type = Attention  #: the kind of attention that it looks with

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
        check_kind(self, attention, self.needs)
        check_unplaced(self, attention)
        check_even(source_size=source_size, hidden_size=hidden_size)
        self.embedding = Embedding(vocabulary_size, embedding_size)
        self.dropout = nn.Dropout(dropout)
        self.attention = attention
        self.W_s = nn.Linear(source_size // 2, hidden_size)
        self.cell = nn.GRUCell(embedding_size + source_size, hidden_size)
        self.output = DeepOutput(hidden_size, embedding_size, source_size, hidden_size // 2, vocabulary_size)

    def start(self, states: Float[Tensor, "b k s"], mask: Bool[Tensor, "b k"]) -> DecoderState:
        """Project the source, once, and begin from the backward state of its first word."""
        check_size("source", states, 2 * self.W_s.in_features)
        backward = states[:, 0, self.W_s.in_features :]  # ←h_1 has read the whole sentence
        memory = Memory(*self.attention.project(states), mask)
        context, weights = torch.zeros_like(states[:, 0]), torch.zeros_like(states[:, :, 0])
        return DecoderState(torch.tanh(self.W_s(backward)), memory, context, weights)

    def query(self, hidden: Float[Tensor, "b h"], embedded: Float[Tensor, "b e"]) -> Float[Tensor, "b q"]:
        """What looks at the source: here the state before the word, s_{i−1}."""
        return hidden

    def attend(
        self, query: Float[Tensor, "b q"], memory: Memory
    ) -> tuple[Float[Tensor, "b v"], Float[Tensor, "b k"]]:
        """Context and weights of one query a sentence."""
        weights = self.attention.weights(query[:, None], memory.key, memory.mask[:, None])
        return (weights @ memory.value).squeeze(1), weights.squeeze(1)

    def advance(
        self, embedded: Float[Tensor, "b e"], state: DecoderState
    ) -> tuple[Float[Tensor, "b h"], DecoderState]:
        """From y_{i−1} and s_{i−1}: the state that chooses y_i, here s_{i−1} itself, and what follows."""
        context, weights = self.attend(self.query(state.hidden, embedded), state.memory)  # c_i, α_i
        hidden = self.cell(torch.cat([embedded, context], -1), state.hidden)  # s_i
        return state.hidden, DecoderState(hidden, state.memory, context, weights)

    def step(self, token: Int[Tensor, " b"], state: DecoderState) -> Step:
        """Scores of the word after ``token``."""
        embedded = self.dropout(self.embedding(token))
        hidden, state = self.advance(embedded, state)
        return Step(self.output(hidden, embedded, state.context), state, state.weights)

    def forward(self, target: Int[Tensor, "b t"], state: DecoderState) -> Float[Tensor, "b t vocabulary"]:
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
            chooses, state = self.advance(word, state)
            hidden.append(chooses)
            context.append(state.context)
        return self.output(torch.stack(hidden, 1), embedded, torch.stack(context, 1))
