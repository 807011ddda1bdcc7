"""What causal attention keeps between two calls: the keys and values so far, or fewer of them."""

import threading
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor


class KeysAndValues(NamedTuple):
    """Keys and values of the same positions, for each head if there are heads."""

    key: Float[Tensor, "b *h n d"]
    value: Float[Tensor, "b *h n v"]


class KVCache(KeysAndValues):
    """The keys and values of the tokens so far, to which the next tokens attend."""

    _buffer: "_Buffer | None" = None  # map_state returns a cache without one

    @property
    def seen(self) -> int:
        """How many positions were given to the attention so far."""
        return self.key.shape[-2]

    def extended(
        self, key: Float[Tensor, "b *h m d"], value: Float[Tensor, "b *h m v"]
    ) -> "KVCache":
        """The cache with m more positions, see :func:`extend_cache`."""
        return extend_cache(self, key, value)


class WindowCache(NamedTuple):
    """The keys and values that a window keeps, and how many positions there were.

    The attention that owns it drops what no later position may attend to, so that its
    size is bounded.

    Example:
        >>> keys, seen = torch.arange(6.0).view(1, 1, 6, 1), torch.tensor([6])
        >>> WindowCache(keys, keys, seen).trimmed(first=1, last=2).key.flatten()
        tensor([0., 4., 5.])
    """

    key: Float[Tensor, "b *h n d"]
    value: Float[Tensor, "b *h n v"]
    seen: Int[Tensor, " b"]

    def extended(
        self, key: Float[Tensor, "b *h m d"], value: Float[Tensor, "b *h m v"]
    ) -> "WindowCache":
        """The cache with m more positions behind its own."""
        return WindowCache(
            torch.cat([self.key, key], -2),
            torch.cat([self.value, value], -2),
            self.seen + key.shape[-2],
        )

    def trimmed(self, first: int, last: int) -> "WindowCache":
        """The cache with its ``first`` and its ``last`` positions only."""
        return WindowCache(
            _ends(self.key, first, last), _ends(self.value, first, last), self.seen
        )


def extend_cache(
    past: KVCache, key: Float[Tensor, "b *h m d"], value: Float[Tensor, "b *h m v"]
) -> KVCache:
    """A cache with the keys and values of ``m`` more positions behind those of ``past``.

    The old cache stays valid. Still, the tokens so far are not copied at every step: where
    no gradient is needed, memory is allocated ahead, and the newest cache writes behind
    its own positions, which no other cache contains, in whatever thread.

    Args:
        past: the keys ``(b, *h, n, d)`` and values ``(b, *h, n, v)`` so far; n may be 0.
        key, value: those of the m positions that follow.

    Example:
        >>> past = KVCache(torch.zeros(1, 2, 3, 4), torch.zeros(1, 2, 3, 4))
        >>> longer = extend_cache(past, torch.ones(1, 2, 1, 4), torch.ones(1, 2, 1, 4))
        >>> longer.key.shape, past.key.shape
        (torch.Size([1, 2, 4, 4]), torch.Size([1, 2, 3, 4]))
    """
    length, new = past.key.shape[-2], key.shape[-2]
    if not length:
        return KVCache(key, value)
    if torch.is_grad_enabled() or torch.compiler.is_compiling():
        return _concatenate(past, key, value)
    buffer = past._buffer
    if buffer is None or not buffer.accepts(key, value):
        # A beam search reorders after every step, so memory ahead would be wasted.
        longer = _concatenate(past, key, value)
        longer._buffer = _Buffer(longer)
        return longer
    if not buffer.claim(length, new):
        buffer = _Buffer(past, room=length + new)
        buffer.claim(length, new)
    return buffer.write(length, key, value)


def _concatenate(past: KVCache, key: Tensor, value: Tensor) -> KVCache:
    return KVCache(torch.cat([past.key, key], -2), torch.cat([past.value, value], -2))


_claims = threading.Lock()  # one for all buffers, so that each can be copied


class _Buffer:
    """Memory for the caches of one sequence, each of which has its first positions."""

    def __init__(self, cache: KVCache, room: int = 0):
        self.length = cache.key.shape[-2]
        self.key, self.value = (_with_room(x, room) for x in cache)
        # What a cache contains never changes, so its tensors do not count later writing:
        # .data has a version counter of its own.
        self.visible_key, self.visible_value = self.key.data, self.value.data

    def accepts(self, key: Tensor, value: Tensor) -> bool:
        """Whether these may be written here: all else raises or is promoted by ``torch.cat``."""
        return (
            _differ_in_length_only(key, self.key)
            and _differ_in_length_only(value, self.value)
            and key.shape[-2] == value.shape[-2]
            and self.key.shape[-2] == self.value.shape[-2]
            and self.key.is_inference() == torch.is_inference_mode_enabled()
        )

    def claim(self, length: int, new: int) -> bool:
        """Reserve the positions behind a cache of this length, if they are free and fit."""
        with _claims:
            if length != self.length or length + new > self.key.shape[-2]:
                return False
            self.length += new
            return True

    def write(self, start: int, key: Tensor, value: Tensor) -> KVCache:
        """Write the claimed positions, and return the cache that ends with them."""
        end = start + key.shape[-2]
        self.key[..., start:end, :] = key
        self.value[..., start:end, :] = value
        cache = KVCache(
            self.visible_key[..., :end, :], self.visible_value[..., :end, :]
        )
        cache._buffer = self
        return cache


def _differ_in_length_only(x: Tensor, y: Tensor) -> bool:
    """Whether both have one dtype, one device, and one size on every axis but the positions'."""
    return (
        (x.shape[:-2], x.shape[-1:]) == (y.shape[:-2], y.shape[-1:])
        and x.dtype == y.dtype
        and x.device == y.device
    )


def _with_room(x: Float[Tensor, "b *h n d"], room: int) -> Float[Tensor, "b *h m d"]:
    """A copy followed by memory for more positions; ``x`` itself if there are none."""
    if not room:
        return x
    return torch.cat([x, x.new_empty(*x.shape[:-2], room, x.shape[-1])], -2)


def _ends(x: Float[Tensor, "*b n d"], first: int, last: int) -> Float[Tensor, "*b m d"]:
    """The first and the last positions; all of them where there are no more."""
    length = x.shape[-2]
    if length <= first + last:
        return x
    return torch.cat([x[..., :first, :], x[..., length - last :, :]], -2)
