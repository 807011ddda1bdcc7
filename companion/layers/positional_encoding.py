"""Positional encodings: vectors for positions, which attention by itself does not know.

In all of them ``first`` is the position of the first vector, one number or one for each row.
"""

import math
from typing import Any

import torch
from jaxtyping import Float, Int, Num
from torch import Tensor, nn

from companion._checks import check_positions, check_positive
from companion._transforms import in_transform
from companion.attention.rotary import next_positions

_First = int | Int[Tensor, " b"]


def sinusoids(positions: Num[Tensor, "*n"], size: int) -> Float[Tensor, "*n d"]:
    """Sines and cosines of each position, in pairs of falling frequency.

    ::

        PE(pos, 2i) = sin(pos / 10000^(2i/d)),   PE(pos, 2i + 1) = cos(pos / 10000^(2i/d))

    The wavelengths grow geometrically from 2π towards 10000 · 2π.

    Args:
        positions: any real numbers. float64 is kept; all else is computed in float32.
        size: d, the paper's d_model. An odd size ends with a sine.

    Source: Vaswani et al. 2017, section 3.5.

    Example:
        >>> sinusoids(torch.tensor([0, 1]), size=2)
        tensor([[0.0000, 1.0000],
                [0.8415, 0.5403]])
    """
    check_positive(size=size)
    positions = positions.to(
        torch.float64 if positions.dtype == torch.float64 else torch.float32
    )
    even = torch.arange(0, size, 2, dtype=positions.dtype, device=positions.device)
    frequency = torch.exp(even * (-math.log(10000) / size))
    angle = positions[..., None] * frequency  # (*n, ⌈d/2⌉)
    pairs = torch.stack([angle.sin(), angle.cos()], -1)  # (*n, ⌈d/2⌉, 2)
    return pairs.flatten(-2)[..., :size]


def sinusoids_like(
    embedded: Float[Tensor, "b n d"], first: _First, size: int
) -> Float[Tensor, "*#b n s"]:
    """The sinusoids of the positions, in the vectors' dtype, from at least 32 bits."""
    check_positions(embedded, first)
    exact = torch.promote_types(embedded.dtype, torch.float32)
    return sinusoids(next_positions(embedded, first).to(exact), size).to(embedded.dtype)


class SinusoidalPositionalEncoding(nn.Module):
    """Adds the sinusoids of its position to each vector.

    ::

        x_pos + PE(pos)

    There is no longest length, because nothing is learned.

    Source: Vaswani et al. 2017, section 3.5.

    Example:
        >>> embedded = torch.zeros(2, 5, 8)
        >>> encoding = SinusoidalPositionalEncoding()
        >>> whole, end = encoding(embedded), encoding(embedded[:, 3:], first=3)
        >>> torch.equal(end, whole[:, 3:])
        True
    """

    _known: Tensor | None = None  # the sinusoids of the first positions

    def forward(
        self, embedded: Float[Tensor, "b n d"], first: _First = 0
    ) -> Float[Tensor, "b n d"]:
        """The vectors plus their sinusoids; ``first`` is the position of the first one."""
        plain = not in_transform() and type(embedded) is Tensor
        if isinstance(first, Tensor) or not plain:
            return embedded + sinusoids_like(embedded, first, embedded.shape[-1])
        check_positions(embedded, first)
        end = first + embedded.shape[1]
        return embedded + self._first_sinusoids(embedded, end)[first:end]

    def _first_sinusoids(
        self, embedded: Float[Tensor, "b n d"], length: int
    ) -> Float[Tensor, "m d"]:
        """The sinusoids of at least the first ``length`` positions, computed once for all calls."""
        known = self._known
        if (
            known is None
            or known.shape[0] < length
            or known.shape[1] != embedded.shape[2]
            or known.dtype != embedded.dtype
            or known.device != embedded.device
        ):
            ahead = embedded.new_empty(1, 2 * length, embedded.shape[2])
            known = self._known = sinusoids_like(ahead, 0, embedded.shape[2])
        return known

    def __getstate__(self) -> dict[str, Any]:
        """The state of a copy or of a file, without the table."""
        return {name: x for name, x in vars(self).items() if name != "_known"}


class ConcatenatedPositionalEncoding(nn.Module):
    """Appends ``size`` sinusoids of its position to each vector.

    ::

        [x_pos; PE(pos)]

    A linear layer after it has a matrix of its own for token and for position,
    W [x; p] = W_x x + W_p p, where a sum gets W (x + p).

    Args:
        size: dimension of the sinusoids.

    Deviation: Gehring et al. 2017 and Vaswani et al. 2017 add; we concatenate to
    compare.

    Example:
        >>> ConcatenatedPositionalEncoding(4)(torch.zeros(2, 5, 8)).shape
        torch.Size([2, 5, 12])
    """

    def __init__(self, size: int):
        super().__init__()
        check_positive(size=size)
        self.size = size

    def forward(
        self, embedded: Float[Tensor, "b n d"], first: _First = 0
    ) -> Float[Tensor, "b n e"]:
        """The vectors beside their sinusoids."""
        encoding = sinusoids_like(embedded, first, self.size)
        return torch.cat([embedded, encoding.expand(embedded.shape[0], -1, -1)], -1)


class LearnedPositionalEncoding(nn.Module):
    """Adds a learned vector for its position to each vector.

    ::

        x_pos + P[pos],   0 ≤ pos < max_length

    The table is initialised with a standard deviation of 0.1. A row whose position
    never occurs in training learns nothing. A position beyond the table is an error;
    where ``first`` is a tensor on a GPU or in a compiled graph, it is PyTorch's own.

    Args:
        max_length, size: the number of positions, and the dimension of the vectors.

    Source: Gehring et al. 2017, section 3.1.

    Example:
        >>> LearnedPositionalEncoding(100, size=8)(torch.zeros(2, 5, 8)).shape
        torch.Size([2, 5, 8])
    """

    def __init__(self, max_length: int, size: int):
        super().__init__()
        check_positive(max_length=max_length, size=size)
        self.embedding = nn.Embedding(max_length, size)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise the table again."""
        nn.init.normal_(self.embedding.weight, std=0.1)

    def forward(
        self, embedded: Float[Tensor, "b n d"], first: _First = 0
    ) -> Float[Tensor, "b n d"]:
        """The vectors plus the table's rows of their positions."""
        check_positions(embedded, first, self.embedding.num_embeddings)
        if embedded.shape[2] != self.embedding.embedding_dim:
            raise ValueError(
                f"embedded has {embedded.shape[2]} features, but the table has "
                f"{self.embedding.embedding_dim}"
            )
        return embedded + self.embedding(next_positions(embedded, first))


class NoPositionalEncoding(nn.Module):
    """Leaves each vector as it is: the model has no positions, or its attention has.

    Source: Kazemnejad et al. 2023, who compare it with other encodings.

    Example:
        >>> embedded = torch.randn(2, 5, 8)
        >>> NoPositionalEncoding()(embedded, first=3) is embedded
        True
    """

    def forward(
        self, embedded: Float[Tensor, "b n d"], first: _First = 0
    ) -> Float[Tensor, "b n d"]:
        """The vectors themselves."""
        check_positions(embedded, first)
        return embedded
