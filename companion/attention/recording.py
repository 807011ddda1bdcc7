"""Record the attention weights that a model computes."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor, nn

from companion.attention.base import Attention


@contextmanager
def record_weights(model: nn.Module) -> Iterator[dict[str, list[Tensor]]]:
    """Collect the weights of every :class:`Attention` in ``model`` while the block runs.

    Yields a dictionary from a module's name to its weights, detached, one ``(*b, q, k)`` a call::

        with record_weights(model) as maps:
            model(source, target)
        maps["decoder.attention"]  # a list: one entry a step

    Inside the block each attention is computed by its definition, ``weights · value``, even where its
    ``forward`` is fused. Outside, nothing is kept and nothing is slower. A module that the model holds under
    two names is listed under the first.
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
            for method in ("weights", "forward"):
                del vars(module)[method]
                if method in before[name]:
                    vars(module)[method] = before[name][method]


def _record(module: Attention, found: list[Tensor]) -> None:
    """Shadow two methods of one module: ``weights`` notes its result, ``forward`` is the definition."""
    define = module.weights

    def weights(*args, **kwargs) -> Tensor:
        result = define(*args, **kwargs)
        found.append(result.detach())
        return result

    def forward(query, key, value, mask=None, *more, **named) -> Tensor:
        return weights(query, key, mask, *more, **named) @ value

    vars(module).update(weights=weights, forward=forward)
