"""Sliding windows with a cache of constant size, and attention sinks (Xiao et al. 2024)."""

from companion._checks import check_positive
from companion.attention import masks
from companion.attention.kernels.tiling import TileGroup, Tiles, WindowTiles
from companion.attention.sparse import WindowAttention


class SlidingWindowAttention(WindowAttention):
    """Each position attends to the last ``window`` positions, itself included.

    ::

        0 ≤ i − j < window

    Time and memory grow with n · window. In decoding the cache has the last ``window`` − 1
    positions and no more.

    Args:
        window: the number of positions.

    Source: Beltagy et al. 2020 (Longformer), section 3.1; with the cache, Jiang et al. 2023
    (Mistral 7B), section 2.

    Example:
        >>> x = torch.randn(1, 5, 8)
        >>> (SlidingWindowAttention(2).weights(x, x)[0, 4] > 0).int()
        tensor([0, 0, 0, 1, 1], dtype=torch.int32)
    """

    settings: tuple[str, ...] = ("window",)

    def __init__(self, window: int):
        check_positive(window=window)
        super().__init__(masks.sliding_window(window), window - 1, 0)
        self.window = window


class SinkAttention(SlidingWindowAttention):
    """A sliding window, and the first positions, the *attention sinks*.

    ::

        j ≤ i  and  (i − j < window  or  j < sinks)

    A language model trained with dense attention puts weight that it does not need on the
    first positions. A window that drops them breaks it; a window that keeps a few of them
    does not. In decoding the cache has ``sinks + window − 1`` positions at most.

    Args:
        window: the number of last positions, the query's own included.
        sinks: the number of first positions; 4 in the paper.

    Source: Xiao et al. 2024 (StreamingLLM), section 3.2.
    Deviation: they count positions within the cache; that is
    :class:`~companion.attention.rotary.CacheRotary` around this attention.

    Example:
        >>> x = torch.randn(1, 6, 8)
        >>> (SinkAttention(window=2, sinks=1).weights(x, x)[0, 5] > 0).int()
        tensor([1, 0, 0, 0, 1, 1], dtype=torch.int32)
    """

    settings = ("window", "sinks")

    def __init__(self, window: int, sinks: int = 4):
        super().__init__(window)
        self.rule = masks.sink_window(window, sinks)
        self.sinks = sinks

    def tile_groups(self, queries: int, keys: int) -> list[TileGroup]:
        """A group of windows, and one tile of the sinks without those in a window."""
        near = masks.sliding_window(self.window)
        (windows,) = super().tile_groups(queries, keys)
        sinks = min(self.sinks, keys)
        tile = Tiles(
            WindowTiles(0, queries, queries, 1), WindowTiles(0, sinks, sinks, 1)
        )
        return [
            windows._replace(rule=near),
            TileGroup([tile], masks.difference(masks.causal(), near)),
        ]
