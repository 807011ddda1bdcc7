"""Record the attention weights that a model computes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from torch import Tensor, nn

from companion.attention.base import Attention


@contextmanager
def record_weights(model: nn.Module) -> Iterator[dict[str, list[Tensor]]]:
    """Collect the weights of every :class:`~companion.attention.base.Attention` of a model.

    Inside the block each attention is computed by its definition, ``weights · value``,
    even where its ``forward`` is fused. Outside the block nothing is stored and nothing
    is slower. A module that the model holds under two names is listed under the first.
    A copy made inside the block, by ``deepcopy`` or ``torch.save``, is independent of the
    model and is not recorded.

    Args:
        model: a mechanism, or a module that holds some.

    Yields:
        A dictionary from the name of each module to its weights: one tensor
        ``(*b, q, k)`` a call, detached.

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
    maps: dict[str, list[Tensor]] = {name: [] for name in attentions}
    before = {name: dict(vars(module)) for name, module in attentions.items()}
    for name, module in attentions.items():
        vars(module).update(_recorded_methods(module, maps[name]))
    try:
        yield maps
    finally:
        for name, module in attentions.items():
            _restore(module, before[name])


def _recorded_methods(
    module: Attention, found: list[Tensor]
) -> dict[str, Callable[..., Any]]:
    """Methods to shadow those of a module: ``weights`` stores its result, the others use it.

    They are partials and not closures: a deep copy of one refers to the copied module.
    """
    methods: dict[str, Any] = {
        "weights": partial(_store, module.weights, found),
        "attend": partial(Attention.attend, module),
        "forward": partial(Attention.forward, module),
    }
    for method in methods.values():
        method.records_weights = True  # so that copies of the module leave it out
    return methods


def _store(
    weights: Callable[..., Tensor], found: list[Tensor], *args: Any, **named: Any
) -> Tensor:
    """Call ``weights`` and append its result, detached."""
    result = weights(*args, **named)
    found.append(result.detach())
    return result


def _restore(module: Attention, before: dict[str, Any]) -> None:
    """Take back the shadowing methods; a method that was shadowed before is so again."""
    for name in ("weights", "attend", "forward"):
        del vars(module)[name]
        if name in before:
            vars(module)[name] = before[name]
