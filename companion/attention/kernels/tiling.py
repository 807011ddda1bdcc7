"""A sparse pattern as small dense attentions: equal tiles of a sequence, cut out without a copy."""

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor

from companion.attention.masks import RuleFunction

# Measured on a CPU: smaller blocks are not faster, and larger pieces take memory in amounts that an allocator
# does not keep for the next piece.
BLOCK = 32  #: queries that share a window, at least
TILES = 64  #: such blocks in a piece, at most


class WindowTiles(NamedTuple):
    """Tiles of neighbours: ``number`` times ``width`` positions, from ``begin`` on, one each ``step``."""

    begin: int
    width: int
    step: int
    number: int

    def cut(self, x: Shaped[Tensor, "*b n d"]) -> Shaped[Tensor, "*b t w d"]:
        """The tiles as a view of ``x``, so that overlapping ones cost nothing."""
        return (
            x[..., self.begin :, :]
            .unfold(-2, self.width, self.step)
            .mT[..., : self.number, :, :]
        )

    def put(self, x: Float[Tensor, "*b n d"], tiles: Float[Tensor, "*b t w d"]) -> None:
        """Write tiles that do not overlap to where they were cut from."""
        for place, tile in self._places(x, tiles):
            place.copy_(tile)

    def add(self, x: Float[Tensor, "*b n d"], tiles: Float[Tensor, "*b t w d"]) -> None:
        """Add the tiles to where they were cut from, in place; where they overlap, their sum."""
        for place, tile in self._places(x, tiles):
            place.add_(tile)

    def _places(self, x: Tensor, tiles: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Where in ``x`` the tiles belong, to write to: no two in a portion overlap.

        Not by ``unfold``: written to through its views, a compiled graph is wrong without a word.
        """
        step = self.step if self.number > 1 else self.width
        for first in range(0, self.width, step):
            part = tiles[..., first : first + step, :]
            begin, width = self.begin + first, part.shape[-2]
            last = begin + (self.number - 1) * step
            rows = x[..., begin:last, :].unflatten(-2, (self.number - 1, step))
            yield rows[..., :width, :], part[..., :-1, :, :]
            yield x[..., last : last + width, :], part[..., -1, :, :]


class StridedTiles(NamedTuple):
    """Tiles of ``number`` positions, every ``step``-th: a tile from each of ``width`` neighbours on."""

    begin: int
    width: int
    step: int
    number: int

    def cut(self, x: Shaped[Tensor, "*b n d"]) -> Shaped[Tensor, "*b t w d"]:
        """The tiles as a view of ``x``."""
        return WindowTiles(*self).cut(x).transpose(-3, -2)

    def put(self, x: Float[Tensor, "*b n d"], tiles: Float[Tensor, "*b t w d"]) -> None:
        """Write the tiles to where they were cut from."""
        WindowTiles(*self).put(x, tiles.transpose(-3, -2))

    def add(self, x: Float[Tensor, "*b n d"], tiles: Float[Tensor, "*b t w d"]) -> None:
        """Add the tiles to where they were cut from, in place."""
        WindowTiles(*self).add(x, tiles.transpose(-3, -2))


class Tiles(NamedTuple):
    """Small dense attentions of one size: the queries of each tile look at its keys, and at no others."""

    queries: WindowTiles | StridedTiles
    keys: WindowTiles | StridedTiles

    def pattern(
        self,
        rule: RuleFunction,
        queries: int,
        keys: int,
        device: torch.device | None = None,
    ) -> Bool[Tensor, "l w"]:
        """Where the rule lets the first tile's queries look. It may only go by i − j: all tiles are alike."""
        i = self.queries.cut(
            torch.arange(keys - queries, keys, device=device)[:, None]
        )[0]
        j = self.keys.cut(torch.arange(keys, device=device)[:, None])[0]
        return rule(i, j.mT)

    def mask(self, mask: Bool[Tensor, "*b q k"]) -> Bool[Tensor, "*b t l w"]:
        """Each tile's part of a mask, as a view of it."""
        rows = self.queries.cut(mask)
        return self.keys.cut(rows.mT).diagonal(dim1=-4, dim2=-3).movedim(-1, -3).mT


def local_tiles(queries: int, keys: int, left: int, right: int) -> list[Tiles]:
    """Windows that hold ``left`` and ``right`` neighbours of each query; the last query is at the last key.

    Between the ends of the sequence, blocks of queries share windows of one width.
    """
    first = keys - queries
    block = max(BLOCK, left // 2)
    start = min(
        max(left - first, 0), queries
    )  # before it, windows would begin before the sequence
    blocks = max((queries - right - start) // block, 0)
    end = start + blocks * block
    shared = [
        (start + i * block, block, min(TILES, blocks - i))
        for i in range(0, blocks, TILES)
    ]
    pieces = []
    for begin, size, number in [(0, start, 1), *shared, (end, queries - end, 1)]:
        if size:
            low = max(first + begin - left, 0)
            width = min(first + begin + size + right, keys) - low
            pieces.append(
                Tiles(
                    WindowTiles(begin, size, size, number),
                    WindowTiles(low, width, size, number),
                )
            )
    return pieces


def atrous_tiles(queries: int, keys: int, rate: int) -> list[Tiles]:
    """The classes of positions a multiple of ``rate`` apart; the last query is at the last key.

    Where the rate does not divide a length, some classes hold one position fewer: a piece of their own.
    """
    bounds = sorted({0, -queries % rate, -keys % rate, rate})
    pairs = [
        (_strided_tiles(queries, rate, a, b), _strided_tiles(keys, rate, a, b))
        for a, b in pairwise(bounds)
    ]
    return [Tiles(*pair) for pair in pairs if pair[0].number]


def _strided_tiles(length: int, rate: int, first: int, end: int) -> StridedTiles:
    """The classes of some columns, if rows of ``rate`` positions are laid so that the last row is full."""
    begin = (first + length) % rate
    return StridedTiles(begin, end - first, rate, -(-(length - begin) // rate))
