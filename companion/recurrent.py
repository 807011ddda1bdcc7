"""What the encoder–decoders share: a recurrence that skips padding, a decoder, an output layer."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from companion.attention import check_positive
from companion.data.vocabulary import PAD
from companion.state import Step, tensors


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


def check_padding(mask: Bool[Tensor, "b k"], name: str) -> None:
    """Raise a ``ValueError`` if a row of ``name`` has no word, or padding before one; not when compiled."""
    lengths = mask.sum(1)
    from_the_left = torch.arange(mask.shape[1], device=mask.device) < lengths[:, None]
    sound = (mask == from_the_left).all(1) & (lengths > 0)
    if not torch.compiler.is_compiling() and not sound.all():
        rows = (~sound).nonzero().flatten().tolist()
        raise ValueError(
            f"in {name} of {tuple(mask.shape)} the rows {rows} are empty, or have padding before a word"
        )


def reverse(source: Int[Tensor, "b k"]) -> Int[Tensor, "b k"]:
    """Each sentence from its last word to its first; its padding stays at the end.

    Raises:
        ValueError: as :func:`source_mask`.
    """
    lengths = source_mask(source).sum(1, keepdim=True)
    places = torch.arange(source.shape[1], device=source.device)
    return source.gather(1, torch.where(places < lengths, lengths - 1 - places, places))


def check_even(**sizes: int) -> None:
    """Raise a ``ValueError`` unless every size is at least 1 and can be halved."""
    check_positive(**sizes)
    for name, size in sizes.items():
        if size % 2:
            raise ValueError(f"{name} must be even, to be halved, but is {size}")


def check_target(target: Int[Tensor, "b t"], hidden: Float[Tensor, "s ..."]) -> None:
    """Raise a ``ValueError`` unless a target has words, and as many sentences as the state has."""
    if target.shape[1] == 0 or len(target) != len(hidden):
        raise ValueError(
            f"a target of shape {tuple(target.shape)} does not fit {len(hidden)} source sentences"
        )


def run_packed(
    rnn: nn.GRU | nn.LSTM, inputs: Float[Tensor, "b k d"], mask: Bool[Tensor, "b k"]
) -> tuple[Float[Tensor, "b k h"], Tensor | tuple[Tensor, Tensor]]:
    """Run a recurrence over each sentence and never over its padding.

    Returns the states, zero at the padding, and what the network calls its final state: the one after the
    last word of each sentence. A backward direction starts at the last word.
    """
    packed = pack_padded_sequence(inputs, mask.sum(1).cpu(), batch_first=True, enforce_sorted=False)
    states, final = rnn(packed)
    return pad_packed_sequence(states, batch_first=True, total_length=inputs.shape[1])[0], final


def deep_lstm(input_size: int, hidden_size: int, layers: int, dropout: float) -> nn.LSTM:
    """A deep LSTM with dropout between its layers; of a single one there is no between, and PyTorch warns.

    Raises:
        ValueError: a size or the number of layers is below 1.
    """
    check_positive(hidden_size=hidden_size, layers=layers)
    between = dropout if layers > 1 else 0.0
    return nn.LSTM(input_size, hidden_size, layers, batch_first=True, dropout=between)


def check_layers(
    lstm: nn.LSTM, hidden: Float[Tensor, "b layers h"], cell: Float[Tensor, "b layers h"]
) -> None:
    """Raise a ``ValueError`` unless a decoder's LSTM can begin from these states of an encoder's."""
    announced = (lstm.num_layers, lstm.hidden_size)
    if not hidden.shape[1:] == cell.shape[1:] == announced:
        raise ValueError(
            f"the encoder's states {tuple(hidden.shape)} and {tuple(cell.shape)} are not of "
            f"{announced[0]} layers with {announced[1]} features, as the decoder's"
        )


def run_lstm(
    lstm: nn.LSTM,
    inputs: Float[Tensor, "b t d"],
    hidden: Float[Tensor, "b layers h"],
    cell: Float[Tensor, "b layers h"],
) -> tuple[Float[Tensor, "b t h"], Float[Tensor, "b layers h"], Float[Tensor, "b layers h"]]:
    """All steps of a deep LSTM: the last layer's states, then what every layer shows and keeps at the end."""
    before = [x.transpose(0, 1).contiguous() for x in (hidden, cell)]  # PyTorch has the layers first
    states, (hidden, cell) = lstm(inputs, tuple(before))
    return states, hidden.transpose(0, 1), cell.transpose(0, 1)


def stack_size(layers: Sequence[Any]) -> int:
    """The size of the layers of a stack, which all have the same.

    Raises:
        ValueError: there is no layer, or the layers have different sizes.
    """
    sizes = [layer.size for layer in layers]
    if len(set(sizes)) != 1:
        raise ValueError(f"a stack needs layers of one size, but there are {len(sizes)}, of sizes {sizes}")
    return sizes[0]


class PiecewiseDecoder(nn.Module, ABC):
    """A decoder that reads a sentence in pieces of any length: all of it in training, or word by word.

    Both are one method: a subclass says in ``start`` where it begins, and in :meth:`run` how it goes on. A
    step does not say where it looked, for the decoder looks nowhere, or in every layer; see
    :func:`~companion.attention.record_weights`.
    """

    @abstractmethod
    def run(self, tokens: Int[Tensor, "b t"], state: Any) -> tuple[Float[Tensor, "b t vocabulary"], Any]:
        """Scores of the word after each of ``tokens``, and the state after the last of them."""

    def forward(self, target: Int[Tensor, "b t"], state: Any) -> Float[Tensor, "b t vocabulary"]:
        """Scores of the word after each word of ``target``, all steps in one call.

        Raises:
            ValueError: the target has no word, or another number of sentences than the source.
        """
        check_target(target, tensors(state)[0])
        return self.run(target, state)[0]

    def step(self, token: Int[Tensor, " b"], state: Any) -> Step:
        """Scores of the word after ``token``."""
        logits, state = self.run(token[:, None], state)
        return Step(logits.squeeze(1), state, None)


class DeepOutput(nn.Module):
    """The scores of the next word, by one hidden layer of maxout units.

    ::

        t̃ = U_o s + V_o y + C_o c
        t = [max(t̃_1, t̃_2), max(t̃_3, t̃_4), …]
        logits = W_o t

    Source: Bahdanau et al. 2015, appendix A.2.2; the same in Cho et al. 2014, appendix A.1.2. Our ``state``,
    ``embedded`` and ``context`` are the papers' s, E y and c; ``size`` is l, the number of maxout units.
    U_o, V_o and C_o stand side by side in one matrix. Deviation: a bias in both layers.

    Raises:
        ValueError: ``size`` or ``vocabulary_size`` is below 1.
    """

    def __init__(
        self, state_size: int, embedding_size: int, context_size: int, size: int, vocabulary_size: int
    ):
        super().__init__()
        check_positive(size=size, vocabulary_size=vocabulary_size)
        self.hidden = nn.Linear(state_size + embedding_size + context_size, 2 * size)
        self.W = nn.Linear(size, vocabulary_size)

    def forward(
        self,
        state: Float[Tensor, "*b s"],
        embedded: Float[Tensor, "*b e"],
        context: Float[Tensor, "*b c"],
    ) -> Float[Tensor, "*b vocabulary"]:
        """Unnormalised log-probabilities of the next word, for one step or for all steps at once."""
        pairs = self.hidden(torch.cat([state, embedded, context], -1)).unflatten(-1, (-1, 2))
        return self.W(pairs.amax(-1))
