"""Gated recurrent units: PyTorch's, and the one of the papers, which resets before the matrix."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from companion._checks import check_positive


def pytorch_gru(
    input_size: int, hidden_size: int, bidirectional: bool = False
) -> nn.GRU:
    """PyTorch's GRU, with the batch axis first.

    ::

        r = σ(W_r x_t + U_r h_{t−1} + b_r),   z = σ(W_z x_t + U_z h_{t−1} + b_z)
        n = tanh(W x_t + b + r ∘ (U h_{t−1} + c))
        h_t = (1 − z) ∘ n + z ∘ h_{t−1}

    The reset gate r comes after the matrix U. So all products with h_{t−1} are one
    matrix product, which is faster than :class:`ResetBeforeGRU`.

    Args:
        input_size, hidden_size: dimensions of an input and of a hidden state.
        bidirectional: whether a second direction reads from the last input to the first.
    """
    check_positive(input_size=input_size, hidden_size=hidden_size)
    return nn.GRU(
        input_size, hidden_size, batch_first=True, bidirectional=bidirectional
    )


class ResetBeforeGRUCell(nn.Module):
    """One step of the papers' gated recurrent unit, which resets before the matrix.

    ::

        r = σ(W_r x + U_r h + b_r),   z = σ(W_z x + U_z h + b_z)
        n = tanh(W x + U (r ∘ h) + b)
        h' = (1 − z) ∘ n + z ∘ h

    ``W`` holds W_r, W_z and W, one above the other, and their biases; ``U_gates`` holds
    U_r and U_z. The update gate z keeps the old state, as in Cho et al. and in PyTorch.
    Bahdanau et al. call 1 − z the update gate.

    Args:
        input_size, hidden_size: dimensions of x and h.

    Source: Cho et al. 2014, section 2.3, equations (5) to (8); Bahdanau et al. 2015,
    appendix A.1.1.

    Example:
        >>> ResetBeforeGRUCell(4, 8)(torch.randn(2, 4), torch.zeros(2, 8)).shape
        torch.Size([2, 8])
    """

    def __init__(self, input_size: int, hidden_size: int):
        super().__init__()
        check_positive(input_size=input_size, hidden_size=hidden_size)
        self.W = nn.Linear(input_size, 3 * hidden_size)
        self.U_gates = nn.Linear(hidden_size, 2 * hidden_size, bias=False)
        self.U = nn.Linear(hidden_size, hidden_size, bias=False)

    def forward(
        self, inputs: Float[Tensor, "b d"], hidden: Float[Tensor, "b h"]
    ) -> Float[Tensor, "b h"]:
        """The next hidden state."""
        x_r, x_z, x_n = self.W(inputs).chunk(3, -1)
        h_r, h_z = self.U_gates(hidden).chunk(2, -1)
        r, z = (x_r + h_r).sigmoid(), (x_z + h_z).sigmoid()
        n = (x_n + self.U(r * hidden)).tanh()
        return (1 - z) * n + z * hidden


class ResetBeforeGRU(nn.Module):
    """The papers' GRU over sequences, with the interface of a batch-first ``nn.GRU``.

    It has one layer. A model can be given it in place of :func:`pytorch_gru`; its loop
    over time steps is in Python, which is slower.

    Args:
        input_size, hidden_size: dimensions of an input and of a hidden state.
        bidirectional: whether a second cell reads from the last input to the first. Its
            states come beside the first one's.

    Source: as :class:`ResetBeforeGRUCell`.

    Example:
        >>> states, final = ResetBeforeGRU(4, 8, bidirectional=True)(torch.randn(2, 5, 4))
        >>> states.shape, final.shape
        (torch.Size([2, 5, 16]), torch.Size([2, 2, 8]))
    """

    def __init__(self, input_size: int, hidden_size: int, bidirectional: bool = False):
        super().__init__()
        self.hidden_size = hidden_size
        self.cells = nn.ModuleList(
            ResetBeforeGRUCell(input_size, hidden_size)
            for _ in range(2 if bidirectional else 1)
        )

    def forward(
        self, inputs: Tensor | PackedSequence, hidden: Tensor | None = None
    ) -> tuple[Tensor | PackedSequence, Float[Tensor, "directions b h"]]:
        """The hidden states, packed if the inputs are, and each direction's final one.

        Args:
            inputs: ``(b, t, d)``, or packed.
            hidden: the initial states ``(directions, b, h)``; zero, if not given.
        """
        if isinstance(inputs, Tensor):
            every = torch.full(inputs.shape[:1], inputs.shape[1], device=inputs.device)
            return self._run(inputs, every, hidden)
        padded, lengths = pad_packed_sequence(inputs, batch_first=True)
        states, final = self._run(padded, lengths.to(padded.device), hidden)
        packed = pack_padded_sequence(
            states, lengths, batch_first=True, enforce_sorted=False
        )
        return packed, final

    def _run(
        self,
        inputs: Float[Tensor, "b t d"],
        lengths: Int[Tensor, " b"],
        hidden: Float[Tensor, "directions b h"] | None,
    ) -> tuple[Float[Tensor, "b t all_h"], Float[Tensor, "directions b h"]]:
        if hidden is None:
            batch = inputs.shape[0]
            hidden = inputs.new_zeros(len(self.cells), batch, self.hidden_size)
        states, final = [], []
        for number, (cell, h) in enumerate(zip(self.cells, hidden, strict=True)):
            direction, outputs = -1 if number else 1, []
            for t in range(inputs.shape[1])[::direction]:
                h = torch.where((t < lengths)[:, None], cell(inputs[:, t], h), h)
                outputs.append(h)  # beyond its end, a sequence keeps its state
            states.append(torch.stack(outputs[::direction], 1))
            final.append(h)
        return torch.cat(states, -1), torch.stack(final)
