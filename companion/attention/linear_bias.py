"""Attention with linear biases, ALiBi (Press et al. 2022): the farther a key, the lower its score."""

import torch
from jaxtyping import Float
from torch import Tensor

from companion._checks import (
    check_at_least_zero,
    check_head_axis,
    check_positive,
    query_positions,
)
from companion.attention import masks
from companion.attention.base import Attention
from companion.attention.masks import RuleFunction
from companion.attention.sparse import PatternAttention
from companion.attention.types import Positions


def alibi_slopes(heads: int) -> list[float]:
    """The slopes of ALiBi: a geometric sequence from 2^(−8/h) to 2^(−8).

    ::

        m_i = 2^(−8 i / h),   i = 1, …, h

    Args:
        heads: h, any number.

    Source: Press et al. 2022, section 3: "for n heads".
    Deviation: for a number that is no power of two, the authors' code takes the slopes of
    the next lower power of two and every other slope of the next higher one; the paper
    gives the formula above for every number.

    Example:
        >>> alibi_slopes(4)
        [0.25, 0.0625, 0.015625, 0.00390625]
    """
    check_positive(heads=heads)
    return [2 ** (-8 * i / heads) for i in range(1, heads + 1)]


class LinearBias(PatternAttention):
    """Scaled dot-product attention whose scores fall with the distance, by one slope.

    ::

        e_ij = q_iᵀ k_j / √d − m |i − j|

    Nothing is learned, and no distance is new to it: the bias continues the line.
    :class:`ALiBi` has a slope for each head. All scores are stored.

    Args:
        slope: m, at least 0.
        rule: which positions may attend to which, see :mod:`companion.attention.masks`;
            by default all to all.
        causal: whether to mask later keys as well.

    Source: Press et al. 2022, section 3. Their attention is causal, so that the
    distance is i − j.

    Example:
        >>> x = torch.zeros(1, 4, 8)
        >>> LinearBias(slope=1.0).score(x, x)[0, 3]
        tensor([-3., -2., -1.,  0.])
    """

    uses_key_position = True
    settings: tuple[str, ...] = ("slope", "rule", "causal")

    def __init__(
        self, slope: float, rule: RuleFunction | None = None, causal: bool = False
    ):
        check_at_least_zero(slope=slope)
        super().__init__(masks.anywhere() if rule is None else rule, causal)
        self.slope = slope

    def score(
        self,
        query: Float[Tensor, "*b q d"],
        key: Float[Tensor, "*b k e"],
        query_position: Positions = None,
    ) -> Float[Tensor, "*b q k"]:
        """``q_iᵀ k_j / √d − m |i − j|``."""
        scores = super().score(query, key)
        i = query_positions(query, key.shape[-2], query_position)
        j = torch.arange(key.shape[-2], device=key.device)
        distance = (i[..., None] - j).abs().to(scores.dtype)
        return scores - self._times_slope(distance)

    #: By the definition, because the bias is added to the scores.
    compute_context = Attention.compute_context

    def _times_slope(self, distance: Float[Tensor, "*b q k"]) -> Float[Tensor, "..."]:
        return self.slope * distance


class ALiBi(LinearBias):
    """Attention with linear biases: a slope for each head, from steep to nearly flat.

    ::

        e_ij = q_iᵀ k_j / √d − m_h |i − j|

    It replaces positional encodings, and is made to be inside
    :class:`~companion.attention.multihead.MultiHeadAttention`: heads are the axis before
    the positions.

    Args:
        heads: the number of heads; their slopes are :func:`alibi_slopes`.
        rule: which positions may attend to which; by default all to all.
        causal: whether to mask later keys as well; by default it does.

    Source: Press et al. 2022, section 3.

    Example:
        >>> attention, x = ALiBi(heads=2), torch.zeros(1, 2, 3, 8)
        >>> attention.score(x, x)[0, :, 2]
        tensor([[-0.1250, -0.0625,  0.0000],
                [-0.0078, -0.0039,  0.0000]])
    """

    settings = ("heads", "rule", "causal")

    def __init__(
        self, heads: int, rule: RuleFunction | None = None, causal: bool = True
    ):
        super().__init__(0.0, rule, causal)
        check_positive(heads=heads)
        self.heads = heads

    def score(
        self,
        query: Float[Tensor, "*b h q d"],
        key: Float[Tensor, "*b h k e"],
        query_position: Positions = None,
    ) -> Float[Tensor, "*b h q k"]:
        """``q_iᵀ k_j / √d − m_h |i − j|``."""
        check_head_axis(query, self.heads)
        return super().score(query, key, query_position)

    def _times_slope(self, distance: Float[Tensor, "*b q k"]) -> Float[Tensor, "..."]:
        slopes = distance.new_tensor(alibi_slopes(self.heads))
        return slopes[:, None, None] * distance
