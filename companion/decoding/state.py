"""What a decoder keeps between two steps: nested tuples of tensors, the batch axis first."""

import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor


class Memory(NamedTuple):
    """A source projected to keys and values once, for all queries.

    With several heads, keys and values have an axis for them. Without a mask, every
    query may attend to every key.

    Example:
        >>> states, mask = torch.randn(2, 5, 8), torch.ones(2, 5, dtype=torch.bool)
        >>> Memory(states, states, mask).key.shape
        torch.Size([2, 5, 8])
    """

    key: Float[Tensor, "b *h k d"]
    value: Float[Tensor, "b *h k v"]
    mask: Bool[Tensor, "b k"] | None

    @property
    def query_mask(self) -> Bool[Tensor, "b 1 k"] | None:
        """The mask with an axis for the queries, as an attention takes it."""
        return None if self.mask is None else self.mask[:, None]


class DecoderStep(NamedTuple):
    """The result of one decoding step.

    ``logits`` are the scores of the next token, ``state`` is what the next step takes, and
    ``weights`` are the attention weights over the source, if the decoder reports them.
    """

    logits: Float[Tensor, "b vocabulary"]
    state: Any
    weights: Float[Tensor, "b k"] | None


def map_state(function: Callable[[Tensor], Any], state: Any) -> Any:
    """Apply ``function`` to every tensor of a state.

    Args:
        function: takes one tensor, for example ``lambda x: x[rows]`` to reorder the
            hypotheses.
        state: nested tuples and named tuples of tensors; ``None`` stays ``None``.

    Returns:
        A new state of the same structure.

    Raises:
        TypeError: the state contains something else.

    Example:
        >>> map_state(lambda x: x[[1, 0]], (torch.tensor([3, 5]), None))
        (tensor([5, 3]), None)
    """
    if state is None:
        return None
    if isinstance(state, Tensor):
        return function(state)
    if isinstance(state, tuple):
        parts = [map_state(function, part) for part in state]
        return type(state)(*parts) if hasattr(state, "_fields") else tuple(parts)
    raise TypeError(
        f"a state consists of tensors in tuples and NamedTuples, but contains a "
        f"{type(state).__name__}"
    )


def tensors(state: Any) -> list[Tensor]:
    """Every tensor of a state, in order.

    Args:
        state: tensors, in any nesting that :func:`map_state` accepts.

    Raises:
        TypeError: as :func:`map_state`.

    Example:
        >>> len(tensors((torch.zeros(2), (torch.ones(2), None))))
        2
    """
    found: list[Tensor] = []
    map_state(found.append, state)
    return found


class KeysAndValues(NamedTuple):
    """Keys and values of the same positions, for each head."""

    key: Float[Tensor, "b h n d"]
    value: Float[Tensor, "b h n v"]


class KVCache(KeysAndValues):
    """The keys and values of the tokens so far, to which the next tokens attend."""

    _buffer: "_Buffer | None" = None  # map_state returns a cache without one


def extend_cache(
    past: KVCache, key: Float[Tensor, "b h m d"], value: Float[Tensor, "b h m v"]
) -> KVCache:
    """A cache with the keys and values of ``m`` more positions behind those of ``past``.

    The old cache stays valid. Still, the tokens so far are not copied at every step: where
    no gradient is needed, memory is allocated ahead, and the newest cache writes behind
    its own positions, which no other cache contains, in whatever thread.

    Args:
        past: the keys ``(b, h, n, d)`` and values ``(b, h, n, v)`` so far; n may be 0.
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
        self.key[:, :, start:end] = key
        self.value[:, :, start:end] = value
        cache = KVCache(self.visible_key[:, :, :end], self.visible_value[:, :, :end])
        cache._buffer = self
        return cache


def _differ_in_length_only(x: Tensor, y: Tensor) -> bool:
    """Whether both have one dtype, one device, and one size on every axis but the positions'."""
    return (
        (x.shape[:-2], x.shape[-1:]) == (y.shape[:-2], y.shape[-1:])
        and x.dtype == y.dtype
        and x.device == y.device
    )


def _with_room(x: Float[Tensor, "b h n d"], room: int) -> Float[Tensor, "b h m d"]:
    """A copy followed by memory for more positions; ``x`` itself if there are none."""
    if not room:
        return x
    return torch.cat([x, x.new_empty(*x.shape[:-2], room, x.shape[-1])], -2)
