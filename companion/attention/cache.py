"""What causal attention keeps between two calls: the keys and values so far, or fewer of them."""

from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from companion._transforms import in_transform, readable


class KeysAndValues(NamedTuple):
    """Keys and values of the same positions, for each head if there are heads."""

    key: Float[Tensor, "b *h n d"]
    value: Float[Tensor, "b *h n v"]


class KVCache(KeysAndValues):
    """The keys and values of the tokens so far, to which the next tokens attend.

    Example:
        >>> past = KVCache(torch.zeros(1, 2, 3, 4), torch.zeros(1, 2, 3, 4))
        >>> longer = past.extended(torch.ones(1, 2, 1, 4), torch.ones(1, 2, 1, 4))
        >>> longer.key.shape, past.key.shape
        (torch.Size([1, 2, 4, 4]), torch.Size([1, 2, 3, 4]))
    """

    _buffer: "_Buffer | None" = None  # map_state returns a cache without one

    @property
    def seen(self) -> int:
        """How many positions were given to the attention so far."""
        return self.key.shape[-2]

    def extended(
        self, key: Float[Tensor, "b *h m d"], value: Float[Tensor, "b *h m v"]
    ) -> "KVCache":
        """The cache with m more positions behind its own; this one stays valid.

        Still, the tokens so far are not copied at every step: where no gradient is
        needed, memory is allocated ahead, and the first cache to be continued writes
        behind its own positions, which no other cache contains.
        """
        if not self.seen:
            return KVCache(key, value)
        alone = torch.is_grad_enabled() or in_transform()
        buffer = self._buffer
        if alone or buffer is None or not buffer.accepts(key, value):
            longer = KVCache(
                torch.cat([self.key, key], -2), torch.cat([self.value, value], -2)
            )
            if not alone:
                # A beam search reorders after every step, so memory ahead would be wasted.
                longer._buffer = _Buffer(longer)
            return longer
        new = key.shape[-2]
        if not buffer.claim(self.seen, new):
            buffer = _Buffer(self, room=self.seen + new)
            buffer.claim(self.seen, new)
        return buffer.write(self.seen, key, value)

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy or a pickle has the tensors, without the memory behind them."""
        return KVCache, (self.key.clone(), self.value.clone())


class _Buffer:
    """Memory for the caches of one sequence, each of which has its first positions."""

    def __init__(self, cache: KVCache, room: int = 0):
        self.key, self.value = (_with_room(x, room) for x in cache)
        self.claims: dict[int, object] = {}  # who continues the first positions

    def accepts(self, key: Tensor, value: Tensor) -> bool:
        """Whether these may be written here.

        Anything else is left to ``torch.cat``, which raises or promotes.
        """
        return (
            _differ_in_length_only(key, self.key)
            and _differ_in_length_only(value, self.value)
            and key.shape[-2] == value.shape[-2]
            and self.key.shape[-2] == self.value.shape[-2]
            and self.key.is_inference() == torch.is_inference_mode_enabled()
        )

    def claim(self, start: int, new: int) -> bool:
        """Reserve new positions behind the first, if they fit and no thread was sooner."""
        claim, fits = object(), start + new <= self.key.shape[-2]
        return fits and self.claims.setdefault(start, claim) is claim

    def write(self, start: int, key: Tensor, value: Tensor) -> KVCache:
        """Write the claimed positions, and return the cache that ends with them."""
        end = start + key.shape[-2]
        # What a cache contains never changes, so gradients need not know of this writing.
        self.key.data[..., start:end, :] = key
        self.value.data[..., start:end, :] = value
        cache = KVCache(self.key[..., :end, :], self.value[..., :end, :])
        cache._buffer = self
        return cache


class WindowCache(NamedTuple):
    """The keys and values that a window keeps, and how many positions there were.

    The attention that owns it drops what no later position may attend to, so that its
    size is bounded. ``first`` says how many first positions were kept when others were
    dropped; while all are there, it is ``None``.

    Example:
        >>> keys, seen = torch.arange(6.0).view(1, 1, 6, 1), torch.tensor([6])
        >>> WindowCache(keys, keys, seen).trimmed(first=1, last=2).key.flatten()
        tensor([0., 4., 5.])
    """

    key: Float[Tensor, "b *h n d"]
    value: Float[Tensor, "b *h n v"]
    seen: Int[Tensor, " b"]
    first: Int[Tensor, " b"] | None = None

    def extended(
        self, key: Float[Tensor, "b *h m d"], value: Float[Tensor, "b *h m v"]
    ) -> "WindowCache":
        """The cache with m more positions behind its own."""
        return WindowCache(
            torch.cat([self.key, key], -2),
            torch.cat([self.value, value], -2),
            self.seen + key.shape[-2],
            self.first,
        )

    def trimmed(self, first: int, last: int) -> "WindowCache":
        """The cache with its ``first`` and its ``last`` positions only.

        Raises:
            ValueError: it has dropped some of them before. On a GPU and in a graph,
                where the numbers cannot be read, that is not noticed.
        """
        length = self.key.shape[-2]
        if self.first is not None and readable(self.first):
            for held in self.first.tolist():
                if held < first or length - held < last:
                    raise ValueError(
                        f"a window that needs the first {first} and the last {last} "
                        f"positions cannot continue a cache that kept the first {held} "
                        f"and the last {length - held}"
                    )
        if length <= first + last:
            return self
        return WindowCache(
            _ends(self.key, first, last),
            _ends(self.value, first, last),
            self.seen,
            torch.full_like(self.seen, first),
        )


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
    """The first and the last positions, with memory for at most one other."""
    length = x.shape[-2]
    kept = x[..., length - last :, :]
    # A step drops one position. A copy would double what it costs.
    one_step = not first and length == last + 1
    return kept if one_step else torch.cat([x[..., :first, :], kept], -2)
