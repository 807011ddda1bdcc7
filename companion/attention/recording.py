"""Record the attention weights that a model computes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from threading import Lock
from typing import Any

from torch import Tensor, nn

from companion.attention.base import Attention

_METHODS = ("weights", "attend", "forward", "forward_grouped")
_lock = Lock()  # of the recorders of all modules


@contextmanager
def record_weights(model: nn.Module) -> Iterator[dict[str, list[Tensor]]]:
    """Collect the weights of every :class:`~companion.attention.base.Attention` of a model.

    Inside the block each attention is computed by its definition, ``weights · value``,
    even where its ``forward`` is fused. Outside the block nothing is stored and nothing
    is slower. A module that the model holds under two names is listed under the first.
    A copy made inside the block, by ``deepcopy`` or ``torch.save``, is independent of the
    model and is not recorded. Blocks may overlap, also those of several threads: each
    collects every call while it is open, whichever thread makes it.

    In decoding, each ``extend`` is one more call, with the weights of the new positions
    over the cache; those of :class:`~companion.attention.rotary.Rotary` and of
    :class:`~companion.attention.query_key_norm.QueryKeyNorm` are found at the attention
    inside. :class:`~companion.attention.linear.CausalLinearAttention` decodes from sums,
    without weights, so nothing is recorded.

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
    with _lock:
        for name, module in attentions.items():
            _start(module, maps[name])
    try:
        yield maps
    finally:
        with _lock:
            for name, module in attentions.items():
                _stop(module, maps[name])


class _Recorder:
    """Shadows the methods of one attention as long as a list collects its weights.

    ``weights`` stores its result, and the other methods use it. All of them are partials
    and not closures: a deep copy of one refers to the copied module.
    """

    records_weights = True  # so that copies of the module leave it out

    def __init__(self, module: Attention):
        self.module = module
        self.weights: Callable[..., Tensor] = module.weights
        self.before = {x: vars(module)[x] for x in _METHODS if x in vars(module)}
        self.lists: tuple[list[Tensor], ...] = ()

    def collect(self, *lists: list[Tensor]) -> None:
        """Shadow the methods for these lists; without one, they are as they were before."""
        self.lists = lists
        state = vars(self.module)
        if not lists:
            for name in (*_METHODS, "_recorder"):
                del state[name]
            state.update(self.before)
            return
        weights = self.weights
        for found in lists:
            weights = partial(_store, weights, found)
        methods: dict[str, Any] = {
            "weights": weights,
            "attend": partial(Attention.attend, self.module),
            "forward": partial(Attention.forward, self.module),
            "forward_grouped": partial(Attention.forward_grouped, self.module),
        }
        for method in methods.values():
            method.records_weights = True
        state.update(methods, _recorder=self)


def _start(module: Attention, found: list[Tensor]) -> None:
    """Collect the weights of a module in one more list."""
    recorder = vars(module).get("_recorder") or _Recorder(module)
    recorder.collect(*recorder.lists, found)


def _stop(module: Attention, found: list[Tensor]) -> None:
    """Leave a list out that was given to :func:`_start`."""
    recorder = vars(module)["_recorder"]
    recorder.collect(*(x for x in recorder.lists if x is not found))


def _store(
    weights: Callable[..., Tensor], found: list[Tensor], *args: Any, **named: Any
) -> Tensor:
    """Call ``weights`` and append its result, detached."""
    result = weights(*args, **named)
    found.append(result.detach())
    return result
