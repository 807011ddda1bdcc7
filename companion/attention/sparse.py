"""Attention restricted by position patterns, without computing what they mask: local, atrous, sparse."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from companion._checks import (
    check_heads_divide,
    check_last_positions,
    check_rule,
    score_shape,
)
from companion._transforms import functorch_is_active
from companion.attention import masks
from companion.attention.base import without_autocast
from companion.attention.cache import WindowCache
from companion.attention.functional import fused_attention
from companion.attention.kernels.merging import (
    BiasedTiles,
    MergedAttention,
    attend_groups,
    attend_groups_backward,
    empty_results,
)
from companion.attention.kernels.tiling import (
    TileGroup,
    Tiles,
    atrous_tiles,
    local_tiles,
)
from companion.attention.masks import RuleFunction
from companion.attention.scores import ScaledDot
from companion.attention.types import Mask, Positions

_HAS_TRITON = find_spec("triton") is not None


class PatternAttention(ScaledDot):
    """Scaled dot-product attention of a sequence to itself, in which a rule masks pairs of positions.

    ::

        weights_ij = softmax of q_iᵀ k_j / √d over the j that rule(i, j) and the mask allow

    Any rule will do. But it becomes a dense mask of n² entries, and masked scores are
    computed nevertheless: nothing is saved, which is left to the subclasses.

    Args:
        rule: which positions may attend to which, see :mod:`companion.attention.masks`.
            A rule of that module can be pickled with the attention; a lambda cannot.
        causal: whether to mask later keys as well, ``j ≤ i``. Models read this
            attribute, so set it even if the rule, such as
            :func:`~companion.attention.masks.strided`, masks them already.

    Example:
        >>> attention = PatternAttention(masks.fixed(3), causal=True)
        >>> x = torch.randn(1, 6, 8)
        >>> (attention.weights(x, x)[0, 5] > 0).int()
        tensor([0, 0, 1, 1, 1, 1], dtype=torch.int32)
    """

    uses_query_position = True
    has_own_weights = True
    fuses_dropout = False
    settings: tuple[str, ...] = ("rule", "causal")

    def __init__(self, rule: RuleFunction, causal: bool = False):
        super().__init__()
        check_rule(rule)
        self.rule = masks.intersection(rule, masks.causal()) if causal else rule
        self.causal = causal

    def score(
        self,
        query: Float[Tensor, "*b q d"],
        key: Float[Tensor, "*b k e"],
        query_position: Positions = None,
    ) -> Float[Tensor, "*b q k"]:
        """``qᵀ k / √d``; positions have an effect through the mask alone."""
        return super().score(query, key)

    def compute_weights(
        self, query: Tensor, key: Tensor, mask: Mask, position: Positions
    ) -> Tensor:
        """The softmax over what mask and rule allow."""
        visible = self.visible(query, key, mask, position)
        return super().compute_weights(query, key, visible, position)

    def compute_context(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Mask, position: Positions
    ) -> Tensor:
        """By PyTorch's fused kernel, under mask and rule."""
        visible = self.visible(query, key, mask, position)
        return super().compute_context(query, key, value, visible, position)

    def visible(
        self, query: Tensor, key: Tensor, mask: Mask, position: Positions
    ) -> Mask:
        """What mask and rule allow, as a mask of the scores."""
        return masks.for_scores(self.rule, query, key, mask, position)

    def attends_to_all(self, keys: int) -> bool:
        """Whether the last of so many positions attends to each of them."""
        return False

    def parts(self) -> list[tuple[RuleFunction, int]]:
        """Rules that allow each pair of positions once, and how FlexAttention computes them.

        It gets the sequence sorted by position mod the number beside the rule.
        """
        return [(self.rule, 1)]

    def last_contexts(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """The contexts; of one position that attends to all without copies for shared heads.

        The heads that share keys become as many queries of one head, without a mask.
        """
        shared = query.shape[:-2] != key.shape[:-2]
        alone = query.shape[-2] == 1 and self.attends_to_all(key.shape[-2])
        drops = self.dropout and self.training
        if not shared or not alone or self._recorded or drops:
            return super().last_contexts(query, key, value)
        heads, groups = query.shape[-3], key.shape[-3]
        check_heads_divide(heads, groups)
        rows = query.unflatten(-3, (groups, heads // groups)).squeeze(-2)
        context = fused_attention(rows, key, value, scale=self.scale)  # (*b, g, h/g, v)
        return context.flatten(-3, -2).unsqueeze(-2)


class KernelAttention(PatternAttention, ABC):
    """A pattern computed by a kernel of its own wherever the definition is not needed.

    With a ``query_position``, under a ``torch.func`` transform and in ``torch.export`` it
    is: the same result, with n² scores. A subclass defines :meth:`compute_by_kernel`.
    """

    def compute_context(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Mask, position: Positions
    ) -> Tensor:
        """By the kernel, or by the definition if the queries' positions are given."""
        shape = score_shape(query, key, value)
        if position is not None or 0 in shape or needs_definition():
            return self.compute_both(query, key, value, mask, position)[0]
        check_last_positions(*shape[-2:])
        query, key, value = _with_one_dtype(query, key, value)
        with without_autocast(query.device):  # the kernel chooses its precision itself
            if shape[-2] == 1 and self.attends_to_all(shape[-1]):
                return fused_attention(query, key, value, mask)
            return self.compute_by_kernel(query, key, value, mask)

    @abstractmethod
    def compute_by_kernel(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Mask
    ) -> Tensor:
        """The contexts of queries that are the last positions of the keys, of one dtype."""


_COMPILABLE: dict[str, Any] = {}  # the classes of this package that compute by tiles


class TiledAttention(KernelAttention, ABC):
    """A pattern whose masked scores are not computed: on CUDA by FlexAttention, else by tiles.

    Tiles are many small dense attentions, so that n² scores are never held; a subclass
    says in :meth:`tile_groups` how to cut the sequence. FlexAttention takes seconds to
    compile at the first call; tiles compute what it does not, float64 and heads of fewer
    than 16 features. The gradient of either can be taken once: PyTorch has no second
    derivative of a fused kernel.

    A compiled graph computes tiles, and serves all lengths. Of a subclass that is not
    part of this package it is for one length: after as many as PyTorch's
    ``recompile_limit``, 8, new ones run uncompiled, or are an error with
    ``fullgraph=True``.

    Raises:
        ValueError: the rule of a tile group does not depend on i − j alone.
        TypeError: query, key and value have different dtypes outside autocast.
    """

    def __init_subclass__(cls) -> None:
        """Note the classes of this package, which a compiled graph builds by name."""
        super().__init_subclass__()
        if cls.__module__.startswith("companion."):
            _COMPILABLE[cls.__name__] = cls

    @abstractmethod
    def tile_groups(self, queries: int, keys: int) -> list[TileGroup]:
        """How to cut the sequence: each allowed pair of positions is in one group's tiles.

        The queries are the last positions of the keys.
        """

    def compute_by_kernel(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Mask
    ) -> Tensor:
        """By FlexAttention on CUDA, by tiles elsewhere."""
        shape = score_shape(query, key, value)
        if uses_flex(query, value):
            from companion.attention.kernels.flex import flex_contexts  # slow to import

            return flex_contexts(self.parts(), query, key, value, mask)
        flat = [
            x.expand(*shape[:-2], *x.shape[-2:]).reshape(-1, *x.shape[-2:]).contiguous()
            for x in (query, key, value)
        ]
        name = type(self).__name__
        if torch.compiler.is_compiling() and _COMPILABLE.get(name) is type(self):
            settings = [int(getattr(self, x)) for x in self.settings]
            context, _ = tiled_attention(*flat, mask, shape, name, settings)
        else:
            context = MergedAttention.apply(
                *flat, self.biased_tiles(query, mask, shape)
            )
        return context.reshape(*shape[:-1], value.shape[-1])

    def biased_tiles(
        self, query: Tensor, mask: Mask, shape: Sequence[int]
    ) -> list[list[BiasedTiles]]:
        """The tiles, each with what is added to its scores."""
        return [
            [
                (tiles, _masking_bias(tiles, group.rule, mask, shape, query))
                for tiles in group.tiles
            ]
            for group in self.tile_groups(*shape[-2:])
        ]


class WindowAttention(TiledAttention):
    """A pattern of one window around each position, and sinks: what its subclasses share.

    If it is causal, it decodes with a cache of what later positions may attend to.

    Args:
        rule: which positions may attend to which.
        before, after: how many positions the window has on each side of the query.
    """

    state_type = WindowCache
    sinks = 0  #: how many first positions stay visible

    def __init__(self, rule: RuleFunction, before: int, after: int):
        super().__init__(rule)
        self.causal = after == 0
        self.before, self.after = before, after

    def tile_groups(self, queries: int, keys: int) -> list[TileGroup]:
        """One group of windows."""
        return [
            TileGroup(local_tiles(queries, keys, self.before, self.after), self.rule)
        ]

    def attends_to_all(self, keys: int) -> bool:
        """Whether the last window and the sinks are all of so many positions."""
        return keys <= self.sinks + self.before + 1

    def start(
        self, key: Float[Tensor, "b *g n e"], value: Float[Tensor, "b *g n v"]
    ) -> Any:
        """An empty cache, which :meth:`forget` will keep small."""
        empty = super().start(key, value)
        seen = torch.zeros(key.shape[0], dtype=torch.int64, device=key.device)
        return WindowCache(empty.key, empty.value, seen)

    def forget(self, cache: WindowCache) -> WindowCache:
        """The sinks, if there are any, and the positions that are in the next window."""
        return cache.trimmed(self.sinks, self.before)


class LocalAttention(WindowAttention):
    """Each position attends to its neighbours, up to ``radius`` positions away.

    ::

        |i − j| ≤ radius

    Blocks of neighbouring queries have one window of keys in common, so time and memory
    grow with n · radius. A radius beyond the sequence allows every pair.
    :class:`~companion.attention.local.LocalM` restricts any score to such a window.

    Args:
        radius: how far a key may be from its query.
        causal: whether to mask later keys as well. It is then
            ``SlidingWindowAttention(radius + 1)``, with its bounded cache.

    Source: Su 2019.
    Deviation: the article cuts no blocks; they make the products large enough to be fast.

    Example:
        >>> x = torch.randn(1, 6, 8)
        >>> (LocalAttention(1).weights(x, x)[0, 3] > 0).int()
        tensor([0, 0, 1, 1, 1, 0], dtype=torch.int32)
    """

    settings = ("radius", "causal")

    def __init__(self, radius: int, causal: bool = False):
        rule = masks.local(radius)
        if causal:
            super().__init__(masks.intersection(rule, masks.causal()), radius, 0)
        else:
            super().__init__(rule, radius, radius)
        self.radius = radius


class AtrousAttention(TiledAttention):
    """Each position attends to every ``rate``-th position, counted from itself.

    ::

        (i − j) mod rate = 0

    The positions that are multiples of the rate apart form a class, a dense attention of
    its own, so time and memory grow with n · n / rate. With a rate beyond the sequence,
    each position attends to itself alone.

    Args:
        rate: the distance between neighbouring positions of a class.
        causal: whether to mask later keys as well.

    Source: Su 2019.

    Example:
        >>> x = torch.randn(1, 6, 8)
        >>> (AtrousAttention(2).weights(x, x)[0, 3] > 0).int()
        tensor([0, 1, 0, 1, 0, 1], dtype=torch.int32)
    """

    settings = ("rate", "causal")

    def __init__(self, rate: int, causal: bool = False):
        super().__init__(masks.atrous(rate), causal)
        self.rate = rate

    def tile_groups(self, queries: int, keys: int) -> list[TileGroup]:
        """One group of classes. Only a causal class needs a rule inside."""
        rule = self.rule if self.causal else None
        return [TileGroup(atrous_tiles(queries, keys, self.rate), rule)]

    def parts(self) -> list[tuple[RuleFunction, int]]:
        """The rule; sorted, positions that attend to each other are neighbours."""
        return [(self.rule, self.rate)]


class SparseAttention(TiledAttention):
    """Each position attends to its neighbours and to every ``rate``-th position, in one softmax.

    ::

        |i − j| ≤ radius or (i − j) mod rate = 0

    The local and the atrous part are computed separately and merged by log-sum-exp; each
    key counts once.

    Args:
        radius: how far a neighbour may be.
        rate: the distance between the other positions.
        causal: whether to mask later keys as well. With ``radius`` = ``rate``, it is
            then the strided attention of Child et al. 2019, section 4.3.

    Source: Su 2019.

    Example:
        >>> x = torch.randn(1, 8, 4)
        >>> (SparseAttention(radius=1, rate=3).weights(x, x)[0, 3] > 0).int()
        tensor([1, 0, 1, 1, 1, 0, 1, 0], dtype=torch.int32)
    """

    settings = ("radius", "rate", "causal")

    def __init__(self, radius: int, rate: int, causal: bool = False):
        super().__init__(masks.union(masks.local(radius), masks.atrous(rate)), causal)
        self.radius = radius
        self.rate = rate

    def tile_groups(self, queries: int, keys: int) -> list[TileGroup]:
        """A group of windows, and one of classes without the keys of the windows."""
        (near, _), (far, rate) = self.parts()
        right = 0 if self.causal else self.radius
        return [
            TileGroup(local_tiles(queries, keys, self.radius, right), near),
            TileGroup(atrous_tiles(queries, keys, rate), far),
        ]

    def parts(self) -> list[tuple[RuleFunction, int]]:
        """The neighbours, and the other positions, sorted."""
        near = masks.local(self.radius)
        return [
            (masks.intersection(self.rule, near), 1),
            (masks.difference(self.rule, near), self.rate),
        ]


def needs_definition() -> bool:
    """Whether a ``torch.func`` transform or an export is active, which cannot enter a kernel."""
    if torch.compiler.is_compiling():
        return torch.compiler.is_exporting()
    return functorch_is_active()


def uses_flex(query: Tensor, value: Tensor) -> bool:
    """Whether FlexAttention computes these: on CUDA, where Triton is, and not in a graph."""
    small = min(query.shape[-1], value.shape[-1]) < 16 or query.dtype == torch.float64
    usable = query.device.type == "cuda" and not small and _HAS_TRITON
    return usable and not torch.compiler.is_compiling()


@torch.library.custom_op("companion::tiled_attention", mutates_args=())
def tiled_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    shape: Sequence[int],
    name: str,
    settings: Sequence[int],
) -> tuple[Tensor, Tensor]:
    """Contexts and log-sum-exps by tiles, as one operation of a graph.

    A graph of what is inside would be for one length. It knows the attention by its
    ``name`` in this package and its ``settings``, which a graph can contain.
    """
    groups = _attention_named(name, *settings).biased_tiles(query, mask, shape)
    return attend_groups(query, key, value, groups)


@torch.library.custom_op("companion::tiled_attention_backward", mutates_args=())
def tiled_attention_backward(
    gradient: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    context: Tensor,
    lse: Tensor,
    mask: Tensor | None,
    shape: Sequence[int],
    name: str,
    settings: Sequence[int],
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of query, key and value."""
    groups = _attention_named(name, *settings).biased_tiles(query, mask, shape)
    tiles = (x for group in groups for x in group)
    return attend_groups_backward(gradient, query, key, value, context, lse, tiles)


@tiled_attention.register_fake
def _(query: Tensor, key: Tensor, value: Tensor, *others: Any) -> tuple[Tensor, Tensor]:
    return empty_results(query, value)


@tiled_attention_backward.register_fake
def _(gradient: Tensor, *others: Any) -> tuple[Tensor, ...]:
    return tuple(torch.empty_like(x) for x in others[:3])


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    query, key, value, mask, *ctx.others = inputs
    ctx.save_for_backward(query, key, value, *output, mask)


def _backward(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    found = tiled_attention_backward(gradient, *ctx.saved_tensors, *ctx.others)
    return *found, None, None, None, None


tiled_attention.register_autograd(_backward, setup_context=_save)


@lru_cache(maxsize=256)
def _attention_named(name: str, *settings: int) -> TiledAttention:
    """The attention of this package with such a name and settings."""
    return _COMPILABLE[name](*settings)


def _with_one_dtype(*inputs: Tensor) -> Sequence[Tensor]:
    """Query, key and value in one dtype: autocast's, if autocast was applied to some of them."""
    dtypes, device = {x.dtype for x in inputs}, inputs[0].device.type
    if len(dtypes) == 1:
        return inputs
    if not torch.is_autocast_enabled(device):
        raise TypeError(
            f"query, key and value need one dtype, not {', '.join(sorted(map(str, dtypes)))}"
        )
    return [x.to(torch.get_autocast_dtype(device)) for x in inputs]


def _masking_bias(
    tiles: Tiles,
    rule: RuleFunction | None,
    mask: Mask,
    shape: Sequence[int],
    query: Tensor,
) -> Float[Tensor, "#b #t #l w"] | None:
    """What is added to the scores of the tiles: 0, or −∞ where rule or mask hide a key."""
    *batch, queries, keys = shape
    visible = None
    if rule is not None:
        visible = tiles.pattern(rule, queries, keys, query.device)[None]  # (1, l, w)
    if mask is not None:
        masked = tiles.mask(mask.expand(*mask.shape[:-2], queries, keys))
        if mask.shape[-2:-1] != (queries,):
            masked = masked[..., :1, :]  # one row for all queries: padding
        visible = masked if visible is None else masked & visible
        if masked[..., 0, 0, 0].numel() > 1:  # one mask for the batch stays one
            visible = visible.expand(*batch, *visible.shape[-3:])
    if visible is None:
        return None
    # The kernel would copy a bias that is not contiguous as a wider one.
    visible = visible.reshape(-1, *visible.shape[-3:]).contiguous()
    return query.new_zeros(()).where(visible, -torch.inf)
