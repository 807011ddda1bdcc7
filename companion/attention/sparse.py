"""Attention by patterns of positions, without the scores that a pattern leaves out: local, atrous, sparse."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from companion._checks import (
    check_sequence,
    query_positions,
)
from companion.attention import masks
from companion.attention.kernels.merging import MergedAttention
from companion.attention.kernels.tiling import Tiles, atrous_tiles, local_tiles
from companion.attention.masks import RuleFunction
from companion.attention.scores import ScaledDot

#: Pieces that hold each query once, and the rule inside them.
TileGroup = tuple[Sequence[Tiles], RuleFunction | None]


class PatternAttention(ScaledDot):
    """Scaled dot-product attention of a sequence to itself, where a rule says who may look at whom.

    ::

        weights_ij = softmax of q_iᵀ k_j / √d among the j that rule(i, j) and the mask allow

    Where there are fewer queries than keys, they are the last of the sequence, as in cached decoding. With
    ``causal`` no position looks ahead: ``j ≤ i``, too; say it also of a rule that looks back by itself, as
    :func:`~companion.attention.masks.strided`, for a model asks this attribute. Any rule will do, but a dense mask
    of n² entries hides scores that are computed all the same: it saves nothing, which is left to the
    subclasses.

    Raises:
        ValueError: there are more queries than keys, or their shapes do not fit.
    """

    uses_query_position = True
    has_own_mask = True

    def __init__(self, rule: RuleFunction, causal: bool = False):
        super().__init__()
        self.rule = masks.intersection(rule, masks.causal()) if causal else rule
        self.causal = causal

    def weights(
        self,
        query: Float[Tensor, "*b q d"],
        key: Float[Tensor, "*b k e"],
        mask: Bool[Tensor, "..."] | None = None,
        query_position: Int[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "*b q k"]:
        """A softmax under the rule and the mask."""
        visible = self._visible(query, key, mask, query_position)
        return super().weights(query, key, visible)

    def forward(
        self,
        query: Float[Tensor, "*b q d"],
        key: Float[Tensor, "*b k e"],
        value: Float[Tensor, "*b k v"],
        mask: Bool[Tensor, "..."] | None = None,
        query_position: Int[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "*b q v"]:
        """The context of each query; zero where everything is masked."""
        visible = self._visible(query, key, mask, query_position)
        return super().forward(query, key, value, visible)

    def _visible(
        self, query: Tensor, key: Tensor, mask: Tensor | None, position: Tensor | None
    ) -> Tensor | None:
        """The dense mask of the rule and the mask together."""
        shape = check_sequence(query, key, mask)
        position = query_positions(query, shape[-1], position)
        if not shape.numel():
            return mask
        visible = masks.visible_keys(self.rule, position, shape[-1])
        if visible.ndim < len(shape):
            visible = visible[(None,) * (len(shape) - visible.ndim)]
        return visible if mask is None else visible & mask


class TiledAttention(PatternAttention, ABC):
    """A pattern that comes apart into small dense attentions, so that no n² scores are ever held.

    Raises:
        ValueError: as :class:`PatternAttention`; or keys and values have other leading axes.
    """

    @abstractmethod
    def parts(self, queries: int, keys: int) -> list[TileGroup]:
        """How to cut up the sequence: the keys of each query, each of them in one part."""

    def forward(
        self,
        query: Float[Tensor, "*b q d"],
        key: Float[Tensor, "*b k e"],
        value: Float[Tensor, "*b k v"],
        mask: Bool[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "*b q v"]:
        """The context of each query; zero where it sees nothing. Scores that the rule hides are left out."""
        if not 0 < key.shape[-2] == value.shape[-2]:
            return super().forward(
                query, key, value, mask
            )  # the definition says what is wrong
        shape = check_sequence(query, key, mask)
        if value.shape[:-2] != key.shape[:-2]:
            axes = f"{tuple(key.shape[:-2])} and {tuple(value.shape[:-2])}"
            raise ValueError(f"keys and values need the same leading axes, not {axes}")
        query, key, value = _alike(query, key, value)
        parts = self.parts(*shape[-2:])
        biases = [
            _bias(piece, rule, mask, shape, query)
            for pieces, rule in parts
            for piece in pieces
        ]
        batch = math.prod(shape[:-2])
        flat = (
            x.reshape(batch, *x.shape[-2:]).contiguous() for x in (query, key, value)
        )
        with torch.autocast(
            query.device.type, enabled=False
        ):  # each part chooses its precision itself
            context = MergedAttention.apply(
                *flat, [pieces for pieces, _ in parts], *biases
            )
        return context.reshape(*query.shape[:-1], value.shape[-1])


class LocalAttention(TiledAttention):
    """Each position looks at its neighbours, ``radius`` to both sides.

    ::

        |i − j| ≤ radius

    Blocks of queries share a window of keys, so time and memory grow with n · radius. A radius beyond the
    sequence means all of it. (:class:`~companion.attention.local.LocalM` is such a window for any score.) Source: Su
    2019; the blocks are ours.

    Raises:
        ValueError: the radius is below 1; or as :class:`TiledAttention`.
    """

    def __init__(self, radius: int, causal: bool = False):
        super().__init__(masks.local(radius), causal)
        self.radius = radius

    def parts(self, queries: int, keys: int) -> list[TileGroup]:
        """Windows alone."""
        return [
            (
                local_tiles(
                    queries, keys, self.radius, 0 if self.causal else self.radius
                ),
                self.rule,
            )
        ]


class AtrousAttention(TiledAttention):
    """Each position looks at every ``rate``-th one, counted from itself.

    ::

        (i − j) mod rate = 0

    Positions a multiple of the rate apart are a dense attention of their own, so time and memory grow with
    n · n / rate. With a rate beyond the sequence each position sees itself alone. Source: Su 2019.

    Raises:
        ValueError: the rate is below 1; or as :class:`TiledAttention`.
    """

    def __init__(self, rate: int, causal: bool = False):
        super().__init__(masks.atrous(rate), causal)
        self.rate = rate

    def parts(self, queries: int, keys: int) -> list[TileGroup]:
        """Classes alone; inside, all see all, if they may look ahead."""
        return [
            (atrous_tiles(queries, keys, self.rate), self.rule if self.causal else None)
        ]


class SparseAttention(TiledAttention):
    """Each position looks at its neighbours and at every ``rate``-th one: local or atrous, in one softmax.

    ::

        |i − j| ≤ radius or (i − j) mod rate = 0

    The two parts are computed apart and joined, where each key counts once. Source: Su 2019. If ``causal``,
    and with radius and rate alike, it is the strided attention of Child et al. 2019, section 4.3.

    Raises:
        ValueError: the radius or the rate is below 1; or as :class:`TiledAttention`.
    """

    def __init__(self, radius: int, rate: int, causal: bool = False):
        super().__init__(masks.union(masks.local(radius), masks.atrous(rate)), causal)
        self.radius = radius
        self.rate = rate

    def parts(self, queries: int, keys: int) -> list[TileGroup]:
        """Windows, and classes without what the windows hold."""
        near = masks.local(self.radius)
        right = 0 if self.causal else self.radius
        return [
            (
                local_tiles(queries, keys, self.radius, right),
                masks.intersection(self.rule, near),
            ),
            (atrous_tiles(queries, keys, self.rate), masks.difference(self.rule, near)),
        ]


def _alike(*inputs: Tensor) -> Sequence[Tensor]:
    """Query, key and value in one precision, autocast's where they differ, as when only some were cast."""
    dtypes, device = {x.dtype for x in inputs}, inputs[0].device.type
    if len(dtypes) == 1:
        return inputs
    if not torch.is_autocast_enabled(device):
        raise TypeError(
            f"query, key and value need one dtype, not {', '.join(sorted(map(str, dtypes)))}"
        )
    return [x.to(torch.get_autocast_dtype(device)) for x in inputs]


def _bias(
    piece: Tiles,
    rule: RuleFunction | None,
    mask: Tensor | None,
    shape: torch.Size,
    query: Tensor,
) -> Float[Tensor, "#b #t #l w"] | None:
    """What is added to the scores of a piece: 0, or −∞ where rule or mask hide a key."""
    *batch, queries, keys = shape
    seen = (
        None if rule is None else piece.pattern(rule, queries, keys, query.device)[None]
    )
    if mask is not None:
        tiles = piece.mask(mask.expand(*mask.shape[:-2], queries, keys))
        if mask.shape[-2:-1] != (queries,):
            tiles = tiles[..., :1, :]  # one row is for all queries: padding
        seen = tiles if seen is None else tiles & seen
        if tiles[..., 0, 0, 0].numel() > 1:  # one mask for all is left as it is
            seen = seen.expand(*batch, *seen.shape[-3:])
    if seen is None:
        return None
    seen = seen.reshape(
        -1, *seen.shape[-3:]
    ).contiguous()  # or the kernel would copy what is wider
    return query.new_zeros(()).where(seen, -torch.inf)
