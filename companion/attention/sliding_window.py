"""Sliding windows with a cache of constant size, and attention sinks (Xiao et al. 2024)."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from companion._checks import check_positive
from companion.attention import masks
from companion.attention.cache import WindowCache
from companion.attention.sparse import PatternAttention


class SlidingWindowAttention(PatternAttention):
    """Each position attends to the last ``window`` positions, itself included.

    ::

        0 ≤ i − j < window

    In decoding the cache has the last ``window`` − 1 positions and no more. Over a whole
    sequence it is a dense mask; :class:`~companion.attention.sparse.LocalAttention` with
    ``radius=window - 1`` and ``causal=True`` computes the same by tiles.

    Args:
        window: the number of positions.

    Source: Beltagy et al. 2020 (Longformer), section 3.1; with the cache, Jiang et al. 2023
    (Mistral 7B), section 2.

    Example:
        >>> x = torch.randn(1, 5, 8)
        >>> (SlidingWindowAttention(2).weights(x, x)[0, 4] > 0).int()
        tensor([0, 0, 0, 1, 1], dtype=torch.int32)
    """

    state_type = WindowCache
    settings: tuple[str, ...] = ("window",)
    sinks = 0  #: how many first positions stay visible

    def __init__(self, window: int):
        check_positive(window=window)
        super().__init__(masks.sliding_window(window))
        self.window = window
        self.causal = True

    def start(
        self, key: Float[Tensor, "b *g n e"], value: Float[Tensor, "b *g n v"]
    ) -> Any:
        """An empty cache, which :meth:`forget` will keep small."""
        seen = torch.zeros(key.shape[0], dtype=torch.int64, device=key.device)
        return WindowCache(key[..., :0, :], value[..., :0, :], seen)

    def forget(self, cache: WindowCache) -> WindowCache:
        """The sinks, if there are any, and the last ``window`` − 1 positions."""
        return cache.trimmed(self.sinks, self.window - 1)


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
