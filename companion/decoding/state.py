"""What a decoder remembers between two steps, and how to rearrange it."""

from collections.abc import Callable
from typing import Any, NamedTuple

from jaxtyping import Bool, Float
from torch import Tensor


class Memory(NamedTuple):
    """A source, projected once, that any number of queries can attend to; with heads, an axis for them."""

    key: Float[Tensor, "b *h k d"]
    value: Float[Tensor, "b *h k v"]
    mask: Bool[Tensor, "b k"]


class DecoderStep(NamedTuple):
    """What a decoder answers to one token: scores of the next one, its new state, where it looked."""

    logits: Float[Tensor, "b vocabulary"]
    state: Any
    weights: Float[Tensor, "b k"] | None


def map_state(function: Callable[[Tensor], Any], state: Any) -> Any:
    """Apply ``function`` to every tensor of a state: nested tuples of tensors, the batch axis first.

    Reordering hypotheses, say, is ``map_state(lambda x: x[rows], state)``. ``None`` stays ``None``.

    Raises:
        TypeError: the state holds something that is neither a tensor, a tuple nor ``None``.
    """
    if state is None:
        return None
    if isinstance(state, Tensor):
        return function(state)
    if isinstance(state, tuple):
        parts = [map_state(function, part) for part in state]
        return type(state)(*parts) if hasattr(state, "_fields") else tuple(parts)
    raise TypeError(
        f"a state is made of tensors and tuples, but holds a {type(state).__name__}"
    )


def tensors(state: Any) -> list[Tensor]:
    """Every tensor of a state, in order.

    Raises:
        TypeError: as :func:`map_state`.
    """
    found: list[Tensor] = []
    map_state(found.append, state)
    return found


class KVCache(NamedTuple):
    """The words so far, as a decoder layer's heads look at them: it grows with every word."""

    key: Float[Tensor, "b h n d"]
    value: Float[Tensor, "b h n v"]
