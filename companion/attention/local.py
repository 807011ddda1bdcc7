"""Location-based and local attention (Luong, Pham and Manning 2015): location, local-m, local-p."""

from abc import ABC, abstractmethod
from math import prod

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import embedding

from companion._checks import (
    check_independent,
    check_max_length,
    check_positive,
    query_positions,
    score_shape,
)
from companion.attention.base import (
    Attention,
    masked_softmax,
    precise_matmul,
    reset_uniform,
    uniform_parameter,
)
from companion.attention.types import Mask, Positions
from companion.attention.wrappers import Wrapper


class Location(Attention):
    """Scores each position from the query alone, whatever the key there contains.

    ::

        a_t = softmax(W_a h_t):   e_tj = row j of W_a · h_t

    The query is the paper's h_t, ``W`` its W_a. A source shorter than ``max_length`` uses
    the first rows, and the softmax is over its own positions.

    Args:
        query_size: features of a query.
        max_length: the number of positions that have a score. The length of a source is
            that of the keys, with their padding.

    Source: Luong et al. 2015, section 3.1, equation (8).
    Deviation: the paper's note 6 ignores the end of a longer source; here it is an error,
    because positions without a score cannot be attended to.

    Example:
        >>> attention, query = Location(query_size=4, max_length=9), torch.randn(1, 2, 4)
        >>> attention.weights(query, torch.randn(1, 5, 6)).shape
        torch.Size([1, 2, 5])
    """

    uses_key_position = True

    def __init__(self, query_size: int, max_length: int):
        super().__init__()
        check_positive(query_size=query_size, max_length=max_length)
        self.max_length = max_length
        self.W = nn.Linear(query_size, max_length, bias=False)

    def score(
        self, query: Float[Tensor, "*b q d"], key: Float[Tensor, "*b k e"]
    ) -> Float[Tensor, "*b q k"]:
        """As many rows of ``W h`` as there are keys."""
        length = key.shape[-2]
        check_max_length("source", length, "location attention", self.max_length)
        return self.W(query)[..., :length]


class LocalWindow(Wrapper, ABC):
    """Attention within a window around a centre p_t, by the scores of another attention.

    ::

        a_t(s) = softmax over the window of e_ts,   0 outside
        window: |s − p_t| ≤ D,   0 ≤ s < S

    At most 2D + 1 keys are gathered and scored for each query, so the cost of a context
    does not grow with the source. ``weights`` gives the same weights over the
    whole source. Positions outside the source do not count, as in the paper. Where
    the window contains no position of the source, weights and context are zero.

    Args:
        attention: gives the scores; it may not depend on positions itself, or have a rule
            or noise of its own.
        radius: the paper's D. It may exceed the source, which is then the window.

    Source: Luong et al. 2015, section 3.2.
    Deviation: the paper does not say how p_t is rounded; here positions count from 0 and
    p_t is not rounded, so that a window around a centre between two positions has 2D
    positions instead of the paper's 2D + 1 (the authors' code rounds p_t down for the
    window alone).
    """

    uses_key_position = True
    has_own_weights = True
    settings = ("radius",)

    def __init__(self, attention: Attention, radius: int):
        super().__init__(attention)
        check_positive(radius=radius)
        check_independent(
            self,
            attention,
            "uses_query_position",
            "uses_key_position",
            because="it scores the keys of a window without their positions",
        )
        check_independent(
            self, attention, "has_own_weights", because="only its scores are used"
        )
        self.radius = radius

    @abstractmethod
    def centre(
        self,
        query: Float[Tensor, "*b q d"],
        lengths: Int[Tensor, "..."] | int,
        query_position: Positions = None,
    ) -> Float[Tensor, "*b q"]:
        """The centre p_t of each query's window.

        Args:
            query: the paper's h_t.
            lengths: S, the number of keys that each query may attend to, a number or a
                tensor that broadcasts to ``(*b, q)``.
            query_position: t, where ``uses_query_position`` is true.
        """

    def project(
        self, source: Float[Tensor, "*b k s"]
    ) -> tuple[Float[Tensor, "*b k d"], Float[Tensor, "*b k v"]]:
        """Key and value of the inner attention, from a contiguous copy of the source.

        Without it, every step would have to copy the source.
        """
        return self.attention.project(source.contiguous())

    def window_indices(
        self, centre: Float[Tensor, "*b q"], keys: int
    ) -> Int[Tensor, "*b q w"]:
        """Neighbouring positions of the source that include each window."""
        width = min(2 * self.radius + 1, keys)
        first = (centre - self.radius).ceil().nan_to_num().clamp(0, keys - width)
        return first.long().unsqueeze(-1) + torch.arange(width, device=centre.device)

    def window_weights(
        self,
        query: Float[Tensor, "*b q d"],
        key: Float[Tensor, "*b k e"],
        mask: Mask,
        query_position: Positions,
    ) -> tuple[Float[Tensor, "*b q w"], Int[Tensor, "*b q w"]]:
        """The weights of each window, and its :meth:`window_indices`."""
        keys = key.shape[-2]
        if mask is not None:
            shape = score_shape(query, key)
            mask = mask.expand(*mask.shape[:-1], keys)
        if self.uses_query_position:
            query_position = query_positions(query, keys, query_position)
        lengths = keys if mask is None else mask.sum(-1)
        centre = self.centre(query, lengths, query_position)
        indices = self.window_indices(centre, keys)  # (*b, q, w)
        distance = indices - centre.unsqueeze(-1)
        inside = distance.abs() <= self.radius
        if mask is not None:
            indices = indices.expand(*shape[:-1], -1)
            inside = inside & mask.expand(shape).gather(-1, indices)
        scores = self.attention.score(
            query.unsqueeze(-2), _gather(key, indices)
        ).squeeze(-2)
        weights = masked_softmax(scores, inside)
        return self.distance_weights(weights, distance).to(query.dtype), indices

    def distance_weights(
        self, weights: Float[Tensor, "*b q w"], distance: Float[Tensor, "*b q w"]
    ) -> Float[Tensor, "*b q w"]:
        """The weights with an effect of the distance from the centre; by default none."""
        return weights

    def compute_weights(
        self, query: Tensor, key: Tensor, mask: Mask, position: Positions
    ) -> Tensor:
        """The weights of each window, and zero in the rest of the source."""
        found = self.window_weights(query, key, mask, position)
        return _scatter(*found, key.shape[-2])

    def compute_both(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Mask, position: Positions
    ) -> tuple[Tensor, Tensor]:
        """The context of each window, and its weights over the whole source."""
        weights, indices = self.window_weights(query, key, mask, position)
        context = _weighted_sum(weights, value, indices)
        return context, _scatter(weights, indices, key.shape[-2])

    def compute_context(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Mask, position: Positions
    ) -> Tensor:
        """The context of each window."""
        weights, indices = self.window_weights(query, key, mask, position)
        return _weighted_sum(weights, value, indices)


class LocalM(LocalWindow):
    """*Monotonic* local attention: source and target are taken to be aligned one to one.

    ::

        p_t = t

    t is the ``query_position``. ``LocalM(Dot(), 10)`` is the paper's local-m (dot).
    Beyond the end of the source the windows contain fewer positions, and then none.

    Args:
        attention, radius: as in :class:`LocalWindow`.

    Source: Luong et al. 2015, section 3.2.
    Deviation: beyond the end of the source the authors' code keeps the window at the last
    word; the paper does not, and neither do we.

    Example:
        >>> from companion.attention import Dot
        >>> x = torch.randn(1, 6, 4)
        >>> (LocalM(Dot(), radius=1).weights(x, x)[0, 3] > 0).int()
        tensor([0, 0, 1, 1, 1, 0], dtype=torch.int32)
    """

    uses_query_position = True

    def centre(
        self,
        query: Float[Tensor, "*b q d"],
        lengths: Int[Tensor, "..."] | int,
        query_position: Positions = None,
    ) -> Float[Tensor, "*b q"]:
        """The query's own position."""
        wide = torch.promote_types(query.dtype, torch.float32)
        position = torch.as_tensor(query_position, dtype=wide, device=query.device)
        return position.expand(query.shape[:-1])


class LocalP(LocalWindow):
    """*Predictive* local attention: each query predicts the centre of its window.

    ::

        p_t = S σ(v_pᵀ tanh(W_p h_t))
        a_t(s) = softmax over the window of e_ts · exp(−(s − p_t)² / 2σ²),   σ = D / 2

    The Gaussian is applied after the softmax, so the weights sum to less than 1. The
    gradient reaches p_t through the Gaussian alone. S is the length of each sequence, the
    number of keys that the mask allows. ``LocalP(Bilinear(d, d), 10, d)`` is the paper's
    local-p (general). p_t is computed in at least 32 bits: 16 bits could not tell
    neighbours in a long source apart.

    Args:
        attention, radius: as in :class:`LocalWindow`.
        query_size: features of a query.
        hidden_size: rows of W_p, which the paper takes to be square; ``query_size``, if
            not given.

    Source: Luong et al. 2015, section 3.2, equations (9) and (10).
    Deviation: as the paper says, p_t is between 0 and S; because our positions count
    from 0, the authors' 1 + (S − 1) σ(…) on positions from 1 is another reading.

    Example:
        >>> from companion.attention import Dot
        >>> attention, x = LocalP(Dot(), radius=2, query_size=4), torch.randn(1, 6, 4)
        >>> bool((attention.weights(x, x).sum(-1) < 1).all())
        True
    """

    def __init__(
        self,
        attention: Attention,
        radius: int,
        query_size: int,
        hidden_size: int | None = None,
    ):
        super().__init__(attention, radius)
        hidden_size = query_size if hidden_size is None else hidden_size
        check_positive(query_size=query_size, hidden_size=hidden_size)
        self.W_p = nn.Linear(query_size, hidden_size, bias=False)
        self.v_p = uniform_parameter(hidden_size)

    def reset_parameters(self) -> None:
        """Initialise v_p again; W_p has a method of its own."""
        reset_uniform(self.v_p)

    def centre(
        self,
        query: Float[Tensor, "*b q d"],
        lengths: Int[Tensor, "..."] | int,
        query_position: Positions = None,
    ) -> Float[Tensor, "*b q"]:
        """A fraction of the sequence's length, predicted from the query."""
        hidden = torch.tanh(self.W_p(query))
        return lengths * precise_matmul(hidden, self.v_p).sigmoid()

    def distance_weights(
        self, weights: Float[Tensor, "*b q w"], distance: Float[Tensor, "*b q w"]
    ) -> Float[Tensor, "*b q w"]:
        """The weights times a Gaussian of the distance."""
        gaussian = torch.exp(-2 * (distance / self.radius).square())
        return weights * gaussian.to(weights.dtype)


def _gather(
    source: Float[Tensor, "*b k d"], indices: Int[Tensor, "*b q w"]
) -> Float[Tensor, "*b q w d"]:
    """The vectors at some positions of a source, as whole rows of an embedding table."""
    *batch, keys, size = source.shape
    first = keys * torch.arange(prod(batch), device=source.device).view(*batch, 1, 1)
    return embedding(first + indices, source.reshape(-1, size))


def _weighted_sum(
    weights: Float[Tensor, "*b q w"],
    value: Float[Tensor, "*b k v"],
    indices: Int[Tensor, "*b q w"],
) -> Float[Tensor, "*b q v"]:
    """The sum of the values of each window, by its weights."""
    return (weights.unsqueeze(-2) @ _gather(value, indices)).squeeze(-2)


def _scatter(
    weights: Float[Tensor, "*b q w"], indices: Int[Tensor, "*c q w"], keys: int
) -> Float[Tensor, "*b q k"]:
    """The weights of each window at their positions of the source, and zero elsewhere."""
    full = weights.new_zeros(*weights.shape[:-1], keys)
    return full.scatter(-1, indices.expand_as(weights), weights)
