"""Recurrence over padded batches."""

from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from companion._checks import (
    check_padding,
    check_positive,
    check_sentences,
    check_states,
)
from companion._transforms import functorch_is_active, is_traced, without_data


def is_token(tokens: Int[Tensor, "*b"], pad: int | None) -> Bool[Tensor, "*b"]:
    """Where there is no padding: everywhere, if ``pad`` is ``None``."""
    if pad is None:
        return torch.ones_like(tokens, dtype=torch.bool)
    return tokens.long() != pad


def source_mask(
    source: Int[Tensor, "b k"], pad: int | None = None
) -> Bool[Tensor, "b k"]:
    """The mask of a padded batch: ``True`` for a token, ``False`` for padding.

    Args:
        source: token numbers, one sentence a row, padded at the end.
        pad: the token that is padding; ``None`` if there is none.

    Raises:
        ValueError: a sentence is empty or has padding before a token. This is not
            checked on a GPU, and an assertion of PyTorch's in a compiled graph.

    Example:
        >>> source_mask(torch.tensor([[5, 6, 7], [8, 0, 0]]), pad=0)
        tensor([[ True,  True,  True],
                [ True, False, False]])
    """
    check_sentences("a source", source)
    if source.numel() == 0:
        raise ValueError(f"a source of shape {tuple(source.shape)} has no words")
    mask = is_token(source, pad)
    check_padding(mask, "a source")
    return mask


def reverse(source: Int[Tensor, "b k"], pad: int | None = None) -> Int[Tensor, "b k"]:
    """Each sentence from its last token to its first; the padding stays at the end.

    Args:
        source, pad: as in :func:`~companion.layers.recurrent.source_mask`.

    Example:
        >>> reverse(torch.tensor([[5, 6, 7], [8, 9, 0]]), pad=0)
        tensor([[7, 6, 5],
                [9, 8, 0]])
    """
    lengths = source_mask(source, pad).sum(1, keepdim=True)
    positions = torch.arange(source.shape[1], device=source.device)
    reversed_ = torch.where(positions < lengths, lengths - 1 - positions, positions)
    return source.long().gather(1, reversed_)


def run_packed(
    rnn: nn.Module, inputs: Float[Tensor, "b k d"], mask: Bool[Tensor, "b k"]
) -> tuple[Float[Tensor, "b k h"], Any]:
    """Run a recurrent network over each sequence without its padding.

    Packing needs the lengths on the CPU, so a GPU is waited for. PyTorch can neither
    compile, export nor transform it: a NotImplementedError says so where PyTorch's own
    error does not. Tensors without numbers, on the meta device or fake, are not packed.

    Args:
        rnn: ``nn.GRU``, ``nn.LSTM`` or a network like them, with ``batch_first=True``.
        inputs: the padded sequences.
        mask: ``False`` for padding, which comes after the inputs.

    Returns:
        The hidden states, zero at the padding; and the network's own final state, the
        one after the last input of each sequence. A backward direction starts there.

    Example:
        >>> mask = torch.tensor([[True, True, True], [True, False, False]])
        >>> rnn = nn.GRU(4, 5, batch_first=True)
        >>> states, final = run_packed(rnn, torch.randn(2, 3, 4), mask)
        >>> states.shape, final.shape
        (torch.Size([2, 3, 5]), torch.Size([1, 2, 5]))
    """
    check_states("inputs", inputs, mask)
    if without_data(mask):
        return rnn(inputs)
    if functorch_is_active() or (
        is_traced() and not torch.compiler.is_dynamo_compiling()
    ):
        raise NotImplementedError(
            "PyTorch can neither export packed sequences nor transform them by torch.func, "
            "and a recurrent network that does not pack its inputs would read their padding"
        )
    mask = mask.cpu()
    check_padding(mask, "the inputs")
    packed = pack_padded_sequence(
        inputs, mask.sum(1), batch_first=True, enforce_sorted=False
    )
    packed_states, final = rnn(packed)
    states, _ = pad_packed_sequence(
        packed_states, batch_first=True, total_length=inputs.shape[1]
    )
    return states, final


def deep_lstm(
    input_size: int, hidden_size: int, layers: int, dropout: float
) -> nn.LSTM:
    """A stack of LSTM layers, with dropout between them.

    ::

        i, f, o = σ(W x_t + U h_{t−1} + b), each with its own W, U and b
        g = tanh(W_g x_t + U_g h_{t−1} + b_g)
        c_t = f ∘ c_{t−1} + i ∘ g,   h_t = o ∘ tanh(c_t)

    The next layer's x_t is h_t.

    Args:
        input_size, hidden_size, layers: dimensions of an input, and of a layer's h and
            c; the number of layers.
        dropout: dropout probability between layers; a single layer has none.

    Source: Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al. 2000.
    """
    check_positive(input_size=input_size, hidden_size=hidden_size, layers=layers)
    between = dropout if layers > 1 else 0.0  # PyTorch warns about dropout in one layer
    return nn.LSTM(input_size, hidden_size, layers, batch_first=True, dropout=between)


def run_lstm(
    lstm: nn.LSTM,
    inputs: Float[Tensor, "b t d"],
    hidden: Float[Tensor, "b layers h"],
    cell: Float[Tensor, "b layers h"],
) -> tuple[
    Float[Tensor, "b t h"], Float[Tensor, "b layers h"], Float[Tensor, "b layers h"]
]:
    """Run a stack of LSTM layers from given states, whose batch axis is first here.

    Args:
        lstm: the layers, with ``batch_first=True``.
        inputs: the inputs of every time step.
        hidden, cell: h and c of every layer before the first time step.

    Returns:
        The hidden states of the last layer at every step; then the hidden state and the
        cell state of every layer after the last step.
    """
    initial = [x.transpose(0, 1).contiguous() for x in (hidden, cell)]  # (layers, b, h)
    states, (hidden, cell) = lstm(inputs, tuple(initial))
    return states, hidden.transpose(0, 1), cell.transpose(0, 1)
