"""Where to look, said by position (Luong, Pham and Manning 2015): location, local-m and local-p."""

from abc import ABC, abstractmethod
from math import prod

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import embedding, linear

from companion._checks import (
    check_independent,
    check_inputs,
    check_kind,
    check_mask,
    check_positive,
    check_size,
    query_positions,
)
from companion.attention.base import Attention, masked_softmax, uniform_parameter


class Location(Attention):
    """Scores positions without looking at what stands there, up to a greatest length.

    ::

        a_t = softmax(W_a h_t):   e_tj = row j of W_a · h_t

    Source: Luong et al. 2015, section 3.1, equation (8). Our query is the paper's h_t, our W its W_a. A
    shorter sentence uses the first rows: the softmax is among its own positions. Deviation: of a longer
    source the paper's note 6 ignores the end; here it is an error, for what is not seen cannot be
    translated. The length that counts is that of the keys, with their padding.

    Raises:
        ValueError: a size is below 1, the source is longer than ``max_length``, or the query has another
            number of features than announced.
    """

    uses_key_position = True

    def __init__(self, query_size: int, max_length: int):
        super().__init__()
        check_positive(query_size=query_size, max_length=max_length)
        self.W = nn.Linear(query_size, max_length, bias=False)

    def score(
        self, query: Float[Tensor, "*b q d"], key: Float[Tensor, "*b k e"]
    ) -> Float[Tensor, "*b q k"]:
        """As many rows of ``W h`` as there are keys; what is in the keys does not matter."""
        check_size("query", query, self.W.in_features)
        length, longest = key.shape[-2], self.W.out_features
        if length > longest:
            raise ValueError(
                f"the source has {length} positions, but location attention only {longest}"
            )
        return linear(query, self.W.weight[:length])


class LocalWindow(Attention, ABC):
    """Attention in a window, ``radius`` D to both sides of a centre p_t, by the scores of another attention.

    ::

        a_t(s) = softmax over the window of e_ts,   0 outside;   window: |s − p_t| ≤ D,   0 ≤ s < S

    Source: Luong et al. 2015, section 3.2. At most the 2D + 1 keys of a window are gathered and scored, so
    the cost of a context does not grow with the source. :meth:`weights` spreads the same weights over the
    whole source. Where the window leaves the sentence, what is outside does not count, as in the paper;
    where it holds no word at all, weights and context are zero.

    An open reading: positions count from 0, and p_t is not rounded, so that a window holds 2D words where p_t
    lies between two of them, though the paper has 2D + 1 weights (the authors' code rounds p_t down, for the
    window alone). ``radius`` may be larger than the source: then the window is all of it.

    Raises:
        ValueError: ``radius`` is below 1.
        TypeError: the other attention is no :class:`~companion.attention.base.Attention`, or goes by positions
            itself.
    """

    uses_key_position = True
    has_own_mask = True

    def __init__(self, attention: Attention, radius: int):
        super().__init__()
        check_kind(self, attention, Attention)
        check_positive(radius=radius)
        check_independent(
            self,
            attention,
            "uses_query_position",
            "uses_key_position",
            because="it sees the keys of a window alone, not where they stand",
        )
        self.attention = attention
        self.radius = radius

    @abstractmethod
    def centre(
        self,
        query: Float[Tensor, "*b q d"],
        lengths: Int[Tensor, "..."] | int,
        query_position: Int[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "*b q"]:
        """The centre p_t of each query's window.

        ``lengths`` holds S, how many keys each query may attend to, and
        ``query_position`` t, where it stands. Both broadcast to ``(*b, q)``.
        """

    def project(
        self, source: Float[Tensor, "*b k s"]
    ) -> tuple[Float[Tensor, "*b k d"], Float[Tensor, "*b k v"]]:
        """As the attention that gives the scores, of a source in one piece, or each look would copy it."""
        return self.attention.project(source.contiguous())

    def score(
        self, query: Float[Tensor, "*b q d"], key: Float[Tensor, "*b k e"]
    ) -> Float[Tensor, "*b q k"]:
        """The scores of every key, without a window."""
        return self.attention.score(query, key)

    def window_indices(
        self, centre: Float[Tensor, "*b q"], keys: int
    ) -> Int[Tensor, "*b q w"]:
        """Neighbouring positions that hold the window around each centre, all of them in the source."""
        width = min(2 * self.radius + 1, keys)
        first = (centre - self.radius).ceil().clamp(0, keys - width).long()
        return first.unsqueeze(-1) + torch.arange(width, device=centre.device)

    def window_weights(
        self,
        query: Float[Tensor, "*b q d"],
        key: Float[Tensor, "*b k e"],
        mask: Bool[Tensor, "..."] | None,
        query_position: Int[Tensor, "..."] | None,
    ) -> tuple[Float[Tensor, "*b q w"], Int[Tensor, "*b q w"]]:
        """The weights of each window, and its :meth:`window_indices`."""
        check_inputs(query, key)
        shape = torch.Size((*query.shape[:-1], key.shape[-2]))
        if mask is not None:
            check_mask(mask, shape)
            mask = mask.expand(*mask.shape[:-1], shape[-1])
        if self.uses_query_position:
            query_position = query_positions(query, shape[-1], query_position)
        lengths = shape[-1] if mask is None else mask.sum(-1)
        centre = self.centre(query, lengths, query_position)
        places = self.window_indices(centre, shape[-1])
        distance = places - centre.unsqueeze(-1)
        inside = distance.abs() <= self.radius
        if mask is not None:
            inside = inside & mask.expand(shape).gather(-1, places)
        scores = self.attention.score(
            query.unsqueeze(-2), _gather(key, places)
        ).squeeze(-2)
        return self.distance_weights(masked_softmax(scores, inside), distance), places

    def distance_weights(
        self, weights: Float[Tensor, "*b q w"], distance: Float[Tensor, "*b q w"]
    ) -> Float[Tensor, "*b q w"]:
        """What becomes of a weight at a distance from the centre: here it stays as it is."""
        return weights

    def weights(
        self,
        query: Float[Tensor, "*b q d"],
        key: Float[Tensor, "*b k e"],
        mask: Bool[Tensor, "..."] | None = None,
        query_position: Int[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "*b q k"]:
        """The weights of each window, and zero in the rest of the source."""
        if key.shape[-2] == 0:
            return super().weights(query, key, mask)  # which says what is wrong
        weights, places = self.window_weights(query, key, mask, query_position)
        return _spread(weights, places, key.shape[-2])

    def attend(
        self,
        query: Float[Tensor, "*b q d"],
        key: Float[Tensor, "*b k e"],
        value: Float[Tensor, "*b k v"],
        mask: Bool[Tensor, "..."] | None = None,
        query_position: Int[Tensor, "..."] | None = None,
    ) -> tuple[Float[Tensor, "*b q v"], Float[Tensor, "*b q k"]]:
        """The context of each window, and its weights spread over the whole source."""
        check_inputs(query, key, value)
        if key.shape[-2] == 0:
            return super().attend(query, key, value, mask)  # which says what is wrong
        weights, places = self.window_weights(query, key, mask, query_position)
        return _average(weights, value, places), _spread(weights, places, key.shape[-2])


class LocalM(LocalWindow):
    """*Monotonic*: the words of both languages are taken to stand in the same order, one for one.

    ::

        p_t = t

    Source: Luong et al. 2015, section 3.2. ``LocalM(Dot(), 10)`` is the paper's local-m (dot). Beyond the end
    of the source the window empties, word by word; the authors' code stays at the last word.

    Raises:
        ValueError, TypeError: as :class:`LocalWindow`.
    """

    uses_query_position = True

    def centre(
        self,
        query: Float[Tensor, "*b q d"],
        lengths: Int[Tensor, "..."] | int,
        query_position: Int[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "*b q"]:
        """Each query's own place, whatever is in it."""
        if query_position is None:
            query_position = torch.arange(query.shape[-2], device=query.device)
        wide = torch.promote_types(query.dtype, torch.float32)
        return query_position.to(wide).expand(query.shape[:-1])


class LocalP(LocalWindow):
    """*Predictive*: each query says where to look, and words nearer to that place weigh more.

    ::

        p_t = S σ(v_pᵀ tanh(W_p h_t))
        a_t(s) = softmax over the window of e_ts · exp(−(s − p_t)² / 2σ²),   σ = D / 2

    Source: Luong et al. 2015, section 3.2, equations (9) and (10). The Gaussian comes after the softmax, so
    the weights sum to less than 1, and through it alone p_t is learnt. S is each sentence's own length: how
    many keys the mask leaves. ``LocalP(Bilinear(d, d), 10, d)`` is the paper's local-p (general). p_t is
    computed in at least 32 bits: with 16, neighbours in a long source could not be told apart.

    Another open reading: p_t lies between 0 and S, as the paper says, on positions that count from 0; the
    authors' code takes 1 + (S − 1) σ(…) on positions that count from 1.

    Raises:
        ValueError: as :class:`LocalWindow`; or a size is below 1, or not the query's.
        TypeError: as :class:`LocalWindow`.
    """

    def __init__(self, attention: Attention, radius: int, query_size: int):
        super().__init__(attention, radius)
        check_positive(query_size=query_size)
        self.W_p = nn.Linear(query_size, query_size, bias=False)
        self.v_p = uniform_parameter(query_size)

    def centre(
        self,
        query: Float[Tensor, "*b q d"],
        lengths: Int[Tensor, "..."] | int,
        query_position: Int[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "*b q"]:
        """A share of the sentence's length, which the query chooses; its own place does not matter."""
        check_size("query", query, self.W_p.in_features)
        hidden = torch.tanh(self.W_p(query))
        wide = torch.promote_types(hidden.dtype, torch.float32)
        with torch.autocast(query.device.type, enabled=False):
            return lengths * (hidden.to(wide) @ self.v_p.to(wide)).sigmoid()

    def distance_weights(
        self, weights: Float[Tensor, "*b q w"], distance: Float[Tensor, "*b q w"]
    ) -> Float[Tensor, "*b q w"]:
        """Times a Gaussian of the distance."""
        return weights * torch.exp(-2 * (distance / self.radius).square()).to(
            weights.dtype
        )


def _gather(
    source: Float[Tensor, "*b k d"], places: Int[Tensor, "*b q w"]
) -> Float[Tensor, "*b q w d"]:
    """The vectors at some places of a source, copied in whole rows, as from an embedding's table."""
    *batch, keys, size = source.shape
    first = keys * torch.arange(prod(batch), device=source.device).view(*batch, 1, 1)
    return embedding(first + places, source.reshape(-1, size))


def _average(
    weights: Float[Tensor, "*b q w"],
    value: Float[Tensor, "*b k v"],
    places: Int[Tensor, "*b q w"],
) -> Float[Tensor, "*b q v"]:
    """The sum of the values at some places, each times its weight."""
    return (weights.unsqueeze(-2) @ _gather(value, places)).squeeze(-2)


def _spread(
    weights: Float[Tensor, "*b q w"], places: Int[Tensor, "*b q w"], keys: int
) -> Float[Tensor, "*b q k"]:
    """The weights of windows over all keys: zero outside."""
    everywhere = weights.new_zeros(*weights.shape[:-1], keys)
    return everywhere.scatter(-1, places.expand_as(weights), weights)
