"""Where to look, said by position (Luong, Pham and Manning 2015): location, local-m and local-p."""

from abc import ABC, abstractmethod
from math import prod

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import embedding, linear

from companion._checks import check_kind, check_mask, check_positive, check_size
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

    keys_placed = True

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

    keys_placed = True
    hides = True

    def __init__(self, attention: Attention, radius: int):
        super().__init__()
        check_kind(self, attention, Attention)
        check_positive(radius=radius)
        for part in attention.modules():
            if isinstance(part, Attention) and (part.placed or part.keys_placed):
                raise TypeError(
                    f"{type(self).__name__} needs an attention that scores what is in a key, "
                    f"not {type(part).__name__}, which goes by its position"
                )
        self.attention = attention
        self.radius = radius

    @abstractmethod
    def centre(
        self,
        query: Float[Tensor, "*b q d"],
        lengths: Int[Tensor, "..."] | int,
        position: Int[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "*b q"]:
        """The centre p_t for each query.

        ``lengths`` holds S, how many words each query may attend to; ``position`` holds t, the place of each
        query in its own sentence: 0, 1, 2, … if it is not given. Both broadcast to ``(*b, q)``.
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

    def places(self, centre: Float[Tensor, "*b q"], keys: int) -> Int[Tensor, "*b q w"]:
        """Neighbouring positions that hold the window around each centre, all of them in the source."""
        width = min(2 * self.radius + 1, keys)
        first = (centre - self.radius).ceil().clamp(0, keys - width).long()
        return first.unsqueeze(-1) + torch.arange(width, device=centre.device)

    def near(
        self,
        query: Float[Tensor, "*b q d"],
        key: Float[Tensor, "*b k e"],
        mask: Bool[Tensor, "..."] | None,
        centre: Float[Tensor, "*b q"] | None,
    ) -> tuple[Float[Tensor, "*b q w"], Int[Tensor, "*b q w"]]:
        """The weights of each window and its :meth:`places`; the centres are found here if not given."""
        shape = torch.Size((*query.shape[:-1], key.shape[-2]))
        if mask is not None:
            check_mask(mask, shape)
            mask = mask.expand(*mask.shape[:-1], shape[-1])
        if centre is None:
            centre = self.centre(query, shape[-1] if mask is None else mask.sum(-1))
        places = self.places(centre, shape[-1])
        distance = places - centre.unsqueeze(-1)
        inside = distance.abs() <= self.radius
        if mask is not None:
            inside = inside & mask.expand(shape).gather(-1, places)
        scores = self.attention.score(
            query.unsqueeze(-2), _gather(key, places)
        ).squeeze(-2)
        return self.fade(masked_softmax(scores, inside), distance), places

    def fade(
        self, weights: Float[Tensor, "*b q w"], distance: Float[Tensor, "*b q w"]
    ) -> Float[Tensor, "*b q w"]:
        """What becomes of a weight at a distance from the centre: here it stays as it is."""
        return weights

    def average(
        self,
        weights: Float[Tensor, "*b q k"],
        value: Float[Tensor, "*b k v"],
        centre: Float[Tensor, "*b q"],
    ) -> Float[Tensor, "*b q v"]:
        """``weights · value``, but of each window alone: all other weights are zero."""
        places = self.places(centre, value.shape[-2])
        return _average(
            weights.gather(-1, places.expand(*weights.shape[:-1], -1)), value, places
        )

    def weights(
        self,
        query: Float[Tensor, "*b q d"],
        key: Float[Tensor, "*b k e"],
        mask: Bool[Tensor, "..."] | None = None,
        centre: Float[Tensor, "*b q"] | None = None,
    ) -> Float[Tensor, "*b q k"]:
        """The weights of each window, and zero in the rest of the source."""
        if key.shape[-2] == 0:
            return super().weights(query, key, mask)  # which says what is wrong
        weights, places = self.near(query, key, mask, centre)
        everywhere = weights.new_zeros(*weights.shape[:-1], key.shape[-2])
        return everywhere.scatter(-1, places.expand_as(weights), weights)

    def forward(
        self,
        query: Float[Tensor, "*b q d"],
        key: Float[Tensor, "*b k e"],
        value: Float[Tensor, "*b k v"],
        mask: Bool[Tensor, "..."] | None = None,
        centre: Float[Tensor, "*b q"] | None = None,
    ) -> Float[Tensor, "*b q v"]:
        """The context of each query, from its window alone."""
        if not 0 < key.shape[-2] == value.shape[-2]:
            return super().forward(query, key, value, mask)  # which says what is wrong
        weights, places = self.near(query, key, mask, centre)
        return _average(weights, value, places)


class LocalM(LocalWindow):
    """*Monotonic*: the words of both languages are taken to stand in the same order, one for one.

    ::

        p_t = t

    Source: Luong et al. 2015, section 3.2. ``LocalM(Dot(), 10)`` is the paper's local-m (dot). Beyond the end
    of the source the window empties, word by word; the authors' code stays at the last word.

    Raises:
        ValueError, TypeError: as :class:`LocalWindow`.
    """

    placed = True

    def centre(
        self,
        query: Float[Tensor, "*b q d"],
        lengths: Int[Tensor, "..."] | int,
        position: Int[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "*b q"]:
        """Each query's own place, whatever is in it."""
        if position is None:
            position = torch.arange(query.shape[-2], device=query.device)
        return position.to(torch.promote_types(query.dtype, torch.float32)).expand(
            query.shape[:-1]
        )


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
        position: Int[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "*b q"]:
        """A share of the sentence's length, which the query chooses; its own place does not matter."""
        check_size("query", query, self.W_p.in_features)
        hidden = torch.tanh(self.W_p(query))
        wide = torch.promote_types(hidden.dtype, torch.float32)
        with torch.autocast(query.device.type, enabled=False):
            return lengths * (hidden.to(wide) @ self.v_p.to(wide)).sigmoid()

    def fade(
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
