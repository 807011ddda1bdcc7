"""What the encoder–decoders share: a recurrence that skips padding, a decoder, an output layer."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from companion._checks import check_padding, check_positive
from companion.data.vocabulary import PAD
from companion.layers.embedding import Embedding


def source_mask(source: Int[Tensor, "b k"]) -> Bool[Tensor, "b k"]:
    """Where the source has words: ``True`` for a token, ``False`` for padding.

    Raises:
        ValueError: there is no sentence, one is empty, or one has padding before a word.
    """
    if source.numel() == 0:
        raise ValueError(f"a source of shape {tuple(source.shape)} has no words")
    mask = source != PAD
    check_padding(mask, "a source")
    return mask


def reverse(source: Int[Tensor, "b k"]) -> Int[Tensor, "b k"]:
    """Each sentence from its last word to its first; its padding stays at the end.

    Raises:
        ValueError: as :func:`source_mask`.
    """
    lengths = source_mask(source).sum(1, keepdim=True)
    places = torch.arange(source.shape[1], device=source.device)
    return source.gather(1, torch.where(places < lengths, lengths - 1 - places, places))


def run_packed(
    rnn: nn.GRU | nn.LSTM, inputs: Float[Tensor, "b k d"], mask: Bool[Tensor, "b k"]
) -> tuple[Float[Tensor, "b k h"], Tensor | tuple[Tensor, Tensor]]:
    """Run a recurrence over each sentence and never over its padding.

    Returns the states, zero at the padding, and what the network calls its final state: the one after the
    last word of each sentence. A backward direction starts at the last word.
    """
    packed = pack_padded_sequence(
        inputs, mask.sum(1).cpu(), batch_first=True, enforce_sorted=False
    )
    states, final = rnn(packed)
    return pad_packed_sequence(states, batch_first=True, total_length=inputs.shape[1])[
        0
    ], final


def deep_lstm(
    input_size: int, hidden_size: int, layers: int, dropout: float
) -> nn.LSTM:
    """A deep LSTM with dropout between its layers; of a single one there is no between, and PyTorch warns.

    Raises:
        ValueError: a size or the number of layers is below 1.
    """
    check_positive(hidden_size=hidden_size, layers=layers)
    between = dropout if layers > 1 else 0.0
    return nn.LSTM(input_size, hidden_size, layers, batch_first=True, dropout=between)


def run_lstm(
    lstm: nn.LSTM,
    inputs: Float[Tensor, "b t d"],
    hidden: Float[Tensor, "b layers h"],
    cell: Float[Tensor, "b layers h"],
) -> tuple[
    Float[Tensor, "b t h"], Float[Tensor, "b layers h"], Float[Tensor, "b layers h"]
]:
    """All steps of a deep LSTM: the last layer's states, then what every layer shows and keeps at the end."""
    before = [
        x.transpose(0, 1).contiguous() for x in (hidden, cell)
    ]  # PyTorch has the layers first
    states, (hidden, cell) = lstm(inputs, tuple(before))
    return states, hidden.transpose(0, 1), cell.transpose(0, 1)


class BahdanauEncoder(nn.Module):
    """A bidirectional GRU: every word in the light of what stands before and after it.

    ::

        h_j = [→h_j; ←h_j]

    Source: Bahdanau et al. 2015, section 3.2. Deviation: PyTorch's GRU resets after the matrix, r ∘ (U s),
    where the paper resets before it, U (r ∘ s); and dropout on the embedded words, if asked for.

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
        self.rnn = nn.GRU(
            embedding_size, hidden_size, batch_first=True, bidirectional=True
        )

    def forward(
        self, source: Int[Tensor, "b k"]
    ) -> tuple[Float[Tensor, "b k two_h"], Bool[Tensor, "b k"]]:
        """The states of each sentence and the mask of its words.

        Raises:
            ValueError: a sentence is empty, has padding before a word, or a token outside the vocabulary.
        """
        mask = source_mask(source)
        states, _ = run_packed(self.rnn, self.dropout(self.embedding(source)), mask)
        return states, mask
