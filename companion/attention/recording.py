"""Record the attention weights that a model computes."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

from torch import Tensor, nn

from companion.attention.base import Attention

_lock = Lock()  # of the lists of all modules


@contextmanager
def record_weights(model: nn.Module) -> Iterator[dict[str, list[Tensor]]]:
    """Collect the weights of every :class:`~companion.attention.base.Attention` of a model.

    Inside the block each attention is computed by its definition, ``weights · value``,
    even where its ``forward`` is fused. A module that the model holds under two names is
    listed under the first. A copy made inside the block is not recorded. Blocks may
    overlap, also those of several threads: each collects every call while it is open,
    whichever thread makes it.

    In decoding, each ``extend`` is one more call, with the weights of the new positions
    over the cache; those of :class:`~companion.attention.rotary.Rotary` and of
    :class:`~companion.attention.query_key_norm.QueryKeyNorm` are found at the attention
    inside. :class:`~companion.attention.linear.CausalLinearAttention`, attention with decay
    and that by the delta rule decode from a matrix, without weights, so nothing is recorded.

    Args:
        model: a mechanism, or a module that holds some.

    Yields:
        A dictionary from the name of each module to its weights: one tensor
        ``(*b, q, k)`` a call, detached.

    Raises:
        ValueError: the model has no module of this package, so nothing would be recorded.
        TypeError: a mechanism overrides what records, instead of ``compute_weights``.

    Example:
        >>> from companion.attention import MultiHeadAttention
        >>> model = MultiHeadAttention(d_model=8, heads=2)
        >>> x = torch.randn(1, 3, 8)
        >>> with record_weights(model) as maps:
        ...     y = model(x, *model.project(x))
        >>> maps["attention"][0].shape
        torch.Size([1, 2, 3, 3])
    """
    attentions = {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, Attention)
    }
    if not attentions and not any(map(_is_ours, model.modules())):
        raise ValueError(
            f"{type(model).__name__} has no attention of companion.attention, so nothing "
            f"would be recorded"
        )
    for name, module in attentions.items():
        for method in ("weights", "attend", "forward"):
            if getattr(type(module), method) is not getattr(Attention, method):
                raise TypeError(
                    f"{type(module).__name__} ({name or 'the model'}) overrides {method}, "
                    f"which records: override compute_weights or compute_context"
                )
    maps: dict[str, list[Tensor]] = {name: [] for name in attentions}
    with _lock:
        for name, module in attentions.items():
            module._recorded = _Lists((*module._recorded, maps[name]))
    try:
        yield maps
    finally:
        with _lock:
            for name, module in attentions.items():
                others = [x for x in module._recorded if x is not maps[name]]
                if others:
                    module._recorded = _Lists(others)
                else:
                    del module._recorded


def _is_ours(module: nn.Module) -> bool:
    """Whether a module's class is of this package, which has models without attention too."""
    return type(module).__module__.startswith("companion.")


class _Lists(tuple[list[Tensor], ...]):
    """The lists that collect the weights of one module; a copy of the module has none."""

    def __reduce__(self) -> tuple[Any, ...]:
        return tuple, ()
