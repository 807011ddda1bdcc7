"""The one idea of the book: score the keys, normalise under a mask, average the values."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

_POLARITY = "True = may attend, the opposite of nn.MultiheadAttention's"


def masked_softmax(
    scores: Float[Tensor, "*b k"], mask: Bool[Tensor, "..."] | None = None
) -> Float[Tensor, "*b k"]:
    """Softmax over the last axis, among the positions that may be attended to.

    ::

        weights_j = mask_j exp(scores_j) / Σ_l mask_l exp(scores_l)

    ``mask`` is boolean and broadcasts to ``scores``; ``True`` means *may attend*. A row in which nothing
    may be attended to gets zero weights, and sends back zero gradient.

    Raises:
        TypeError: the mask is not boolean.
        ValueError: there is no key to attend to (``k`` is 0), or the mask does not broadcast to the scores.
    """
    if scores.shape[-1] == 0:
        raise ValueError(f"nothing to attend to: the scores have shape {tuple(scores.shape)}, with no key")
    if mask is None:
        return scores.softmax(-1)
    check_mask(mask, scores.shape)
    empty = ~mask.any(-1, keepdim=True)  # a row of −∞ alone would give NaN, so it gets finite scores
    hidden = scores.new_full((), -torch.inf).masked_fill(empty, 0)
    return scores.where(mask, hidden).softmax(-1).masked_fill(empty, 0)


def check_mask(mask: Tensor, shape: torch.Size) -> None:
    """Raise a ``TypeError`` unless the mask is boolean, a ``ValueError`` unless it fits the scores' shape."""
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        kind = f"its dtype is {mask.dtype}" if isinstance(mask, Tensor) else f"it is a {type(mask).__name__}"
        raise TypeError(f"the mask must be a boolean tensor ({_POLARITY}), but {kind}")
    padded = (1,) * (len(shape) - mask.ndim) + tuple(mask.shape)
    if len(padded) != len(shape) or any(m not in (1, s) for m, s in zip(padded, shape, strict=True)):
        raise ValueError(
            f"a mask of shape {tuple(mask.shape)} does not broadcast to scores of {tuple(shape)} "
            f"({_POLARITY})"
        )


def check_size(name: str, tensor: Tensor, size: int) -> None:
    """Raise a ``ValueError`` unless the last axis of ``tensor`` has the size that a module was built for."""
    if tensor.shape[-1] != size:
        raise ValueError(f"the {name} has {tensor.shape[-1]} features, but {size} were announced")


def check_positive(**sizes: int) -> None:
    """Raise a ``ValueError`` unless every size is at least 1."""
    for name, size in sizes.items():
        if size < 1:
            raise ValueError(f"{name} must be at least 1, not {size}")


def check_places(queries: int, keys: int) -> None:
    """Raise a ``ValueError`` if there are more queries than keys, whose last positions they are."""
    if queries > keys > 0:
        raise ValueError(f"{queries} queries cannot be among the positions of {keys} keys")


def check_kind(owner: nn.Module, attention: nn.Module, kind: type) -> None:
    """Raise a ``TypeError`` unless the attention is of the kind that its owner needs."""
    if not isinstance(attention, kind):
        raise TypeError(f"{type(owner).__name__} needs {kind.__name__}, not {type(attention).__name__}")


def check_unplaced(owner: nn.Module, attention: nn.Module) -> None:
    """Raise a ``TypeError`` if the attention, or one inside it, goes by the place of a query."""
    for part in attention.modules():
        if getattr(part, "placed", False):
            asker, placed = type(owner).__name__, type(part).__name__
            raise TypeError(f"{asker} asks one query at a time, but {placed} goes by its place")


def check_hides_nothing(owner: nn.Module, attention: "Attention") -> None:
    """Raise a ``TypeError`` if the attention hides keys by a rule, of which its scores say nothing."""
    if attention.hides:
        asker, inside = type(owner).__name__, type(attention).__name__
        raise TypeError(f"{asker} uses scores alone, and would show what {inside} hides: give it a mask")


def uniform_parameter(*sizes: int) -> nn.Parameter:
    """A parameter that starts as ``nn.Linear`` starts its own: uniform within ±1/√n, n its last size."""
    bound = sizes[-1] ** -0.5
    return nn.Parameter(torch.empty(sizes).uniform_(-bound, bound))


class Attention(nn.Module, ABC):
    """Every mechanism of the book that scores keys: a subclass says how, in :meth:`score`.

    ::

        context = weights · value,   weights = masked_softmax(score(query, key), mask)

    :meth:`weights` is the definition. A subclass may compute :meth:`forward` in another way, if it is
    equal. Leading axes ``*b`` are batch, so heads are just more batch.
    """

    causal = False  #: whether no query sees, even without a mask, a key after its own position
    placed = False  #: whether a look depends on the query's own place, which one query alone does not tell
    keys_placed = False  #: whether a score depends on where its key stands, not only on what is in it
    hides = False  #: whether it hides keys by a rule of its own, which its scores do not tell

    def project(
        self, source: Float[Tensor, "*b k s"]
    ) -> tuple[Float[Tensor, "*b k d"], Float[Tensor, "*b k v"]]:
        """Key and value of a source, computed once however many queries follow. Here: the source itself."""
        return source, source

    @abstractmethod
    def score(self, query: Float[Tensor, "*b q d"], key: Float[Tensor, "*b k e"]) -> Float[Tensor, "*b q k"]:
        """How well each key answers each query, as any real number."""

    def weights(
        self,
        query: Float[Tensor, "*b q d"],
        key: Float[Tensor, "*b k e"],
        mask: Bool[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "*b q k"]:
        """The share of each key in each query's context; a row sums to 1, or to 0 where all is masked.

        Raises:
            TypeError, ValueError: as :func:`masked_softmax`, or sizes do not fit.
        """
        return masked_softmax(self.score(query, key), mask)

    def forward(
        self,
        query: Float[Tensor, "*b q d"],
        key: Float[Tensor, "*b k e"],
        value: Float[Tensor, "*b k v"],
        mask: Bool[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "*b q v"]:
        """The context of each query: the average of the values under :meth:`weights`.

        A mask of the source alone, ``(b, k)``, enters as ``mask[:, None]``. What is masked must still be a
        number: a NaN in a value stays one, even times zero.

        Raises:
            ValueError: sizes do not fit, the source is empty, or the mask does not fit ``(*b, q, k)``.
            TypeError: the mask is not boolean.
        """
        if key.shape[-2] != value.shape[-2]:
            raise ValueError(f"{key.shape[-2]} keys but {value.shape[-2]} values: each key needs one value")
        return self.weights(query, key, mask) @ value


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
    attentions = {name: module for name, module in model.named_modules() if isinstance(module, Attention)}
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
