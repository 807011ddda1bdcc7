"""Record the attention weights that a model computes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from companion.attention.base import Attention

_SHADOWED = ("weights", "attend", "forward")


@contextmanager
def record_weights(model: nn.Module) -> Iterator[dict[str, list[Tensor]]]:
    """Collect the weights of every :class:`~companion.attention.base.Attention` of a model.

    Inside the block each attention is computed by its definition, ``weights · value``,
    even where its ``forward`` is fused. Outside, nothing is kept and nothing is slower.
    A module that the model holds under two names is listed under the first. A copy of
    the model made inside the block, by ``deepcopy`` or ``torch.save``, is not recorded.

    Yields:
        A dictionary from each module's name to its weights, detached, one tensor
        ``(*b, q, k)`` a call.

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
        _record(module, maps[name])
    try:
        yield maps
    finally:
        for name, module in attentions.items():
            for method in _SHADOWED:
                del vars(module)[method]
                if method in before[name]:
                    vars(module)[method] = before[name][method]


def _record(module: Attention, found: list[Tensor]) -> None:
    """Shadow the methods of one module: ``weights`` notes its result, the others use it."""
    define = module.weights

    def weights(*args: Any, **named: Any) -> Tensor:
        result = define(*args, **named)
        found.append(result.detach())
        return result

    def attend(query, key, value, *args, **named) -> tuple[Tensor, Tensor]:  # type: ignore[no-untyped-def]
        result = weights(query, key, *args, **named)
        return result @ value, result

    def forward(*args: Any, **named: Any) -> Tensor:
        return attend(*args, **named)[0]

    shadows: dict[str, Callable[..., Any]] = {
        "weights": weights,
        "attend": attend,
        "forward": forward,
    }
    for shadow in shadows.values():
        shadow.records_weights = True  # type: ignore[attr-defined]
    vars(module).update(shadows)
