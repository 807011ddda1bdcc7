"""A sparse pattern as many small dense attentions: equal tiles, cut from a sequence as views."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor

from companion.attention.masks import RuleFunction

# Measured on a CPU: smaller blocks are not faster, and a larger number of them takes
# memory in amounts that an allocator does not keep for the next call.
BLOCK = 32  #: queries that have one window in common, at least
TILES = 64  #: windows that are computed at once, at most


class WindowTiles(NamedTuple):
    """``number`` windows of ``width`` neighbouring positions, every ``step`` positions from ``begin`` on.

    Example:
        >>> x = torch.arange(12)[:, None]
        >>> WindowTiles(begin=1, width=4, step=3, number=3).cut(x).squeeze(-1)
        tensor([[ 1,  2,  3,  4],
                [ 4,  5,  6,  7],
                [ 7,  8,  9, 10]])
    """

    begin: int
    width: int
    step: int
    number: int

    def cut(self, x: Shaped[Tensor, "*b n d"]) -> Shaped[Tensor, "*b t w d"]:
        """The tiles as a view of ``x``, so that overlapping ones take no memory."""
        return (
            x[..., self.begin :, :]
            .unfold(-2, self.width, self.step)
            .mT[..., : self.number, :, :]
        )

    def put(self, x: Float[Tensor, "*b n d"], tiles: Float[Tensor, "*b t w d"]) -> None:
        """Write tiles that do not overlap to the positions they were cut from."""
        for target, source in self._slices(x, tiles):
            target.copy_(source)

    def add(self, x: Float[Tensor, "*b n d"], tiles: Float[Tensor, "*b t w d"]) -> None:
        """Add the tiles to the positions they were cut from, in ``x`` itself; overlaps add up."""
        for target, source in self._slices(x, tiles):
            target.add_(source)

    def _slices(self, x: Tensor, tiles: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Views of ``x`` to write to, with the slices of the tiles that belong there.

        No two windows overlap within a view. The views are not made by ``unfold``: a
        compiled graph that writes through those is silently wrong.
        """
        step = self.step if self.number > 1 else self.width
        for first in range(0, self.width, step):
            columns = tiles[..., first : first + step, :]
            begin, width = self.begin + first, columns.shape[-2]
            last = begin + (self.number - 1) * step
            rows = x[..., begin:last, :].unflatten(-2, (self.number - 1, step))
            yield rows[..., :width, :], columns[..., :-1, :, :]
            yield x[..., last : last + width, :], columns[..., -1, :, :]


class StridedTiles(WindowTiles):
    """``width`` tiles of ``number`` positions each, ``step`` apart, from ``begin``, ``begin + 1``, … on.

    Example:
        >>> x = torch.arange(12)[:, None]
        >>> StridedTiles(begin=0, width=3, step=3, number=4).cut(x).squeeze(-1)
        tensor([[ 0,  3,  6,  9],
                [ 1,  4,  7, 10],
                [ 2,  5,  8, 11]])
    """

    def cut(self, x: Shaped[Tensor, "*b n d"]) -> Shaped[Tensor, "*b t w d"]:
        """The tiles as a view of ``x``."""
        return super().cut(x).transpose(-3, -2)

    def _slices(self, x: Tensor, tiles: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        return super()._slices(x, tiles.transpose(-3, -2))


class Tiles(NamedTuple):
    """Small dense attentions of one size: the queries of tile t attend to the keys of tile t alone."""

    queries: WindowTiles
    keys: WindowTiles

    def pattern(
        self,
        rule: RuleFunction,
        queries: int,
        keys: int,
        device: torch.device | None = None,
    ) -> Bool[Tensor, "l w"]:
        """Where the rule lets the queries of a tile attend to its keys.

        It is found for the first tile and holds for all, which are shifted copies of it.

        Raises:
            ValueError: the rule does not promise to depend on i − j alone.
        """
        if not getattr(rule, "relative", False):
            raise ValueError(
                f"tiles share one mask, which needs a rule that depends on i − j alone and "
                f"sets `relative = True`, not {rule!r}: PatternAttention takes any rule"
            )
        i = self.queries.cut(
            torch.arange(keys - queries, keys, device=device)[:, None]
        )[0]
        j = self.keys.cut(torch.arange(keys, device=device)[:, None])[0]
        return rule(i, j.mT)

    def mask(self, mask: Bool[Tensor, "*b q k"]) -> Bool[Tensor, "*b t l w"]:
        """The mask of each tile, as a view of the whole one."""
        rows = self.queries.cut(mask)
        return self.keys.cut(rows.mT).diagonal(dim1=-4, dim2=-3).movedim(-1, -3).mT


class TileGroup(NamedTuple):
    """Tiles that hold each query exactly once, and the rule inside them; ``None`` masks nothing."""

    tiles: Sequence[Tiles]
    rule: RuleFunction | None = None


def local_tiles(queries: int, keys: int, left: int, right: int) -> list[Tiles]:
    """Windows with the ``left`` neighbours before and the ``right`` ones after each query.

    The queries are the last positions of the keys. Away from the ends of the sequence,
    each block of queries has one window, and all windows have one width.
    """
    first = keys - queries
    block = max(BLOCK, left // 2)
    # Earlier queries have windows that would begin before the sequence.
    start = min(max(left - first, 0), queries)
    blocks = max((queries - right - start) // block, 0)
    end = start + blocks * block
    inner = [
        (start + i * block, block, min(TILES, blocks - i))
        for i in range(0, blocks, TILES)
    ]
    found = []
    for begin, size, number in [(0, start, 1), *inner, (end, queries - end, 1)]:
        if size:
            low = max(first + begin - left, 0)
            width = min(first + begin + size + right, keys) - low
            found.append(
                Tiles(
                    WindowTiles(begin, size, size, number),
                    WindowTiles(low, width, size, number),
                )
            )
    return found


def atrous_tiles(queries: int, keys: int, rate: int) -> list[Tiles]:
    """One tile for each class of positions that are multiples of ``rate`` apart.

    The queries are the last positions of the keys. Where the rate does not divide a
    length, some classes have one position fewer and form :class:`Tiles` of their own.
    """
    bounds = sorted({0, -queries % rate, -keys % rate, rate})
    pairs = [
        (_strided_tiles(queries, rate, a, b), _strided_tiles(keys, rate, a, b))
        for a, b in pairwise(bounds)
    ]
    return [Tiles(*pair) for pair in pairs if pair[0].number]


def _strided_tiles(length: int, rate: int, first: int, end: int) -> StridedTiles:
    """The columns ``first`` to ``end`` of the sequence in rows of ``rate``, the last of them full."""
    begin = (first + length) % rate
    return StridedTiles(begin, end - first, rate, -(-(length - begin) // rate))
