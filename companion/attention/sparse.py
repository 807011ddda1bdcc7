"""Attention restricted by position patterns, without computing what they mask: local, atrous, sparse."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from companion._checks import (
    check_last_positions,
    check_rule,
    query_positions,
    score_shape,
)
from companion._transforms import functorch_is_active
from companion.attention import masks
from companion.attention.base import without_autocast
from companion.attention.kernels.merging import MergedAttention
from companion.attention.kernels.tiling import (
    TileGroup,
    Tiles,
    atrous_tiles,
    local_tiles,
)
from companion.attention.masks import RuleFunction
from companion.attention.scores import ScaledDot
from companion.attention.types import Mask, Positions


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
        visible = self._visible(query, key, mask, position)
        return super().compute_weights(query, key, visible, position)

    def compute_context(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Mask, position: Positions
    ) -> Tensor:
        """By PyTorch's fused kernel, under mask and rule."""
        visible = self._visible(query, key, mask, position)
        return super().compute_context(query, key, value, visible, position)

    def _visible(
        self, query: Tensor, key: Tensor, mask: Mask, position: Positions
    ) -> Mask:
        """The mask and the rule as one dense mask."""
        shape = score_shape(query, key)
        position = query_positions(query, shape[-1], position)
        if 0 in shape:
            return mask
        return masks.with_mask(self.rule, mask, position, shape)


class TiledAttention(PatternAttention, ABC):
    """A pattern computed as many small dense attentions, so that n² scores are never held.

    A subclass says in :meth:`tile_groups` how to cut the sequence. The tiles are computed
    where the queries are the last positions of the sequence. With a ``query_position``,
    under a ``torch.func`` transform and in ``torch.export`` the definition is used: the
    same result, with n² scores. The gradient can be taken once.

    A compiled graph is for one length. After as many lengths as PyTorch's
    ``recompile_limit``, 8, it runs new ones uncompiled; with ``fullgraph=True`` it raises
    an error instead, unless that limit is set higher.

    Raises:
        ValueError: the rule of a tile group does not depend on i − j alone.
        TypeError: query, key and value have different dtypes outside autocast.
    """

    @abstractmethod
    def tile_groups(self, queries: int, keys: int) -> list[TileGroup]:
        """How to cut the sequence: each allowed pair of positions is in one group's tiles.

        The queries are the last positions of the keys.
        """

    def compute_context(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Mask, position: Positions
    ) -> Tensor:
        """By tiles of the sequence; by the definition if the queries' positions are given."""
        shape = score_shape(query, key, value)
        if position is not None or 0 in shape[-2:] or needs_definition():
            return self.compute_both(query, key, value, mask, position)[0]
        check_last_positions(*shape[-2:])
        query, key, value = _with_one_dtype(query, key, value)
        groups = [
            [
                (tiles, _bias(tiles, group.rule, mask, shape, query))
                for tiles in group.tiles
            ]
            for group in self.tile_groups(*shape[-2:])
        ]
        flat = (
            x.expand(*shape[:-2], *x.shape[-2:]).reshape(-1, *x.shape[-2:]).contiguous()
            for x in (query, key, value)
        )
        # Each tile chooses its precision itself.
        with without_autocast(query.device):
            context = MergedAttention.apply(*flat, groups)
        return context.reshape(*shape[:-1], value.shape[-1])


class LocalAttention(TiledAttention):
    """Each position attends to its neighbours, up to ``radius`` positions away.

    ::

        |i − j| ≤ radius

    Blocks of neighbouring queries have one window of keys in common, so time and memory
    grow with n · radius. A radius beyond the sequence allows every pair.
    :class:`~companion.attention.local.LocalM` restricts any score to such a window.

    Args:
        radius: how far a key may be from its query.
        causal: whether to mask later keys as well.

    Source: Su 2019.
    Deviation: the article cuts no blocks; they make the products large enough to be fast.

    Example:
        >>> x = torch.randn(1, 6, 8)
        >>> (LocalAttention(1).weights(x, x)[0, 3] > 0).int()
        tensor([0, 0, 1, 1, 1, 0], dtype=torch.int32)
    """

    settings = ("radius", "causal")

    def __init__(self, radius: int, causal: bool = False):
        super().__init__(masks.local(radius), causal)
        self.radius = radius

    def tile_groups(self, queries: int, keys: int) -> list[TileGroup]:
        """One group of windows."""
        right = 0 if self.causal else self.radius
        return [TileGroup(local_tiles(queries, keys, self.radius, right), self.rule)]


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
        near = masks.local(self.radius)
        right = 0 if self.causal else self.radius
        return [
            TileGroup(
                local_tiles(queries, keys, self.radius, right),
                masks.intersection(self.rule, near),
            ),
            TileGroup(
                atrous_tiles(queries, keys, self.rate),
                masks.difference(self.rule, near),
            ),
        ]


def needs_definition() -> bool:
    """Whether a ``torch.func`` transform or an export is active, which cannot enter a kernel."""
    if torch.compiler.is_compiling():
        return torch.compiler.is_exporting()
    return functorch_is_active()


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


def _bias(
    tiles: Tiles,
    rule: RuleFunction | None,
    mask: Mask,
    shape: torch.Size,
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
