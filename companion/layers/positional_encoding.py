"""Where a word stands, as a vector: attention by itself does not see it."""

import math

import torch
from jaxtyping import Float, Int, Num
from torch import Tensor, nn

from companion._checks import check_positive, check_size

_First = int | Int[Tensor, " b"]


def positions(embedded: Float[Tensor, "b n d"], first: _First) -> Int[Tensor, "#b n"]:
    """The positions of the columns, which follow each other from ``first`` on."""
    columns = torch.arange(embedded.shape[1], device=embedded.device)[None]
    return columns + (first[:, None] if isinstance(first, Tensor) else first)


def sinusoids(positions: Num[Tensor, "*n"], size: int) -> Float[Tensor, "*n d"]:
    """Sines and cosines of each position; each pair of features is slower than the one before.

    ::

        PE(pos, 2i) = sin(pos / 10000^(2i/d)),   PE(pos, 2i + 1) = cos(pos / 10000^(2i/d))

    ``size`` is the paper's d_model; an odd one ends with a sine. Wavelengths grow by a fixed factor, from 2π
    towards 10000 · 2π positions. Positions may be fractions. They are computed in 32 bits, or in 64 if the
    positions are so given.

    Source: Vaswani et al. 2017, section 3.5.

    Raises:
        ValueError: ``size`` is below 1.
    """
    check_positive(size=size)
    positions = positions.to(
        torch.float64 if positions.dtype == torch.float64 else torch.float32
    )
    feature = torch.arange(size, device=positions.device)
    rate = torch.exp(
        (feature - feature % 2).to(positions.dtype) * (-math.log(10000) / size)
    )
    angle = positions[..., None] * rate
    return torch.where(feature % 2 == 0, angle.sin(), angle.cos())


def sinusoids_like(
    embedded: Float[Tensor, "b n d"], first: _First, size: int
) -> Float[Tensor, "#b n s"]:
    """The sinusoids of the columns' positions, in its type, computed in at least 32 bits."""
    exact = torch.promote_types(embedded.dtype, torch.float32)
    return sinusoids(positions(embedded, first).to(exact), size).to(embedded.dtype)


class SinusoidalPositionalEncoding(nn.Module):
    """Adds the sinusoids of its position to each vector, which keeps its size.

    ::

        x_pos + PE(pos)

    Source: Vaswani et al. 2017, section 3.5. There is no longest length, for nothing is learned.
    """

    def forward(
        self, embedded: Float[Tensor, "b n d"], first: _First = 0
    ) -> Float[Tensor, "b n d"]:
        """Vectors that say where they stand; ``first`` is the position of the first, or that of each row."""
        return embedded + sinusoids_like(embedded, first, embedded.shape[-1])


class ConcatenatedPositionalEncoding(nn.Module):
    """Appends the sinusoids of its position to each vector, which grows by ``size`` features.

    ::

        [x_pos; PE(pos)]

    A following linear layer then meets word and position with a matrix of their own:
    W [x; p] = W_x x + W_p p, while a sum gets W (x + p). The papers, Gehring et al. 2017 and Vaswani et
    al. 2017, add.

    Raises:
        ValueError: ``size`` is below 1.
    """

    def __init__(self, size: int):
        super().__init__()
        check_positive(size=size)
        self.size = size

    def forward(
        self, embedded: Float[Tensor, "b n d"], first: _First = 0
    ) -> Float[Tensor, "b n e"]:
        """Vectors with their position beside them; ``first`` as in :class:`Sinusoidal`."""
        position = sinusoids_like(embedded, first, self.size)
        return torch.cat([embedded, position.expand(len(embedded), -1, -1)], -1)


class LearnedPositionalEncoding(nn.Module):
    """Adds to each vector another, learned for its position.

    ::

        x_pos + P[pos],   0 ≤ pos < max_length

    Source: Gehring et al. 2017, section 3.1. The table starts small, with a standard deviation of 0.1. Of a
    position that never occurs in training it learns nothing, and past its end it has nothing to say.

    Raises:
        ValueError: a size is below 1, the vectors have another one than announced, or a position is outside
            the table. Where ``first`` is a tensor on a GPU, which would have to wait, and under
            ``torch.compile``, only more vectors than positions are noticed; the rest is PyTorch's own error.
    """

    def __init__(self, max_length: int, size: int):
        super().__init__()
        check_positive(max_length=max_length, size=size)
        self.embedding = nn.Embedding(max_length, size)
        nn.init.normal_(self.embedding.weight, std=0.1)

    def forward(
        self, embedded: Float[Tensor, "b n d"], first: _First = 0
    ) -> Float[Tensor, "b n d"]:
        """Vectors that say where they stand; ``first`` is the position of the first, or that of each row."""
        check_size("embedded", embedded, self.embedding.embedding_dim)
        self._check(embedded.shape[1], first)
        return embedded + self.embedding(positions(embedded, first))

    def _check(self, length: int, first: _First) -> None:
        if not isinstance(first, Tensor):
            smallest = largest = first
        elif first.device.type == "cpu" and not torch.compiler.is_compiling():
            smallest, largest = int(first.min()), int(first.max())
        else:
            smallest = largest = 0  # at least: to know it we would have to wait
        if smallest < 0 or largest + length > self.embedding.num_embeddings:
            raise ValueError(
                f"positions {smallest} to {largest + length - 1} are asked for, "
                f"but the table has {self.embedding.num_embeddings}, 0 to {self.embedding.num_embeddings - 1}"
            )
