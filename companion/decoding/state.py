"""What a decoder keeps between two steps: nested tuples of tensors, the batch axis first."""

from collections.abc import Callable
from typing import Any, NamedTuple

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
    """A state of the same structure, with ``function`` applied to every tensor.

    Args:
        function: takes one tensor, for example ``lambda x: x[rows]`` to reorder the
            hypotheses.
        state: nested tuples and named tuples of tensors; ``None`` stays ``None``.

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

    Example:
        >>> len(tensors((torch.zeros(2), (torch.ones(2), None))))
        2
    """
    found: list[Tensor] = []
    map_state(found.append, state)
    return found
