"""From a sequence to one vector: the last state, the mean, the maximum, or attention with a learned query."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from companion._checks import (
    check_independent,
    check_kind,
    check_positive,
    check_states,
)
from companion.attention.base import Attention, masked_softmax, uniform_parameter


def last_pooling(
    states: Float[Tensor, "*b n d"], mask: Bool[Tensor, "*b n"]
) -> Float[Tensor, "*b d"]:
    """The last state that is not masked: what a recurrent network has read when the sequence ends.

    A sequence with nothing unmasked gives zero, here and in every pooling of this file.

    Raises:
        TypeError: the mask is not boolean.
        ValueError: there is no position, or the mask has another shape than ``(*b, n)``.
    """
    check_states("sequence", states, mask)
    places = torch.arange(1, states.shape[-2] + 1, device=states.device)
    last = (
        (places * mask)
        .argmax(-1)[..., None, None]
        .expand(*states.shape[:-2], 1, states.shape[-1])
    )
    return (
        states.gather(-2, last).squeeze(-2).masked_fill(~mask.any(-1, keepdim=True), 0)
    )


def mean_pooling(
    states: Float[Tensor, "*b n d"], mask: Bool[Tensor, "*b n"]
) -> Float[Tensor, "*b d"]:
    """The mean of the states that are not masked: attention whose scores are all equal.

    Raises:
        TypeError: the mask is not boolean.
        ValueError: there is no position, or the mask has another shape than ``(*b, n)``.
    """
    check_states("sequence", states, mask)
    weights = masked_softmax(states.new_zeros(mask.shape), mask)
    return (weights.unsqueeze(-2) @ states).squeeze(-2)


def max_pooling(
    states: Float[Tensor, "*b n d"], mask: Bool[Tensor, "*b n"]
) -> Float[Tensor, "*b d"]:
    """The largest value of each feature among the states that are not masked.

    Raises:
        TypeError: the mask is not boolean.
        ValueError: there is no position, or the mask has another shape than ``(*b, n)``.
    """
    check_states("sequence", states, mask)
    largest = states.masked_fill(~mask.unsqueeze(-1), -torch.inf).amax(-2)
    return largest.masked_fill(~mask.any(-1, keepdim=True), 0)


class AttentionPooling(nn.Module):
    """The states averaged by attention, whose one query is learned: what is worth keeping, whatever is read.

    ::

        pooled = Σ_j α_j value_j,   α = attention.weights(u, key),   key, value = attention.project(states)

    ``query`` is u. Any :class:`~companion.attention.base.Attention` serves that takes ``query_size`` features and
    does not go by the query's place, for this query has none.
    Source: Yang et al. 2016, section 2.2, whose score is :class:`~companion.attention.scores.HiddenDot`.

    Raises:
        ValueError: ``query_size`` is below 1.
        TypeError: the attention is no :class:`~companion.attention.base.Attention`, or goes by the query's place.
    """

    def __init__(self, attention: Attention, query_size: int):
        super().__init__()
        check_kind(self, attention, Attention)
        check_independent(
            self, attention, "uses_query_position", because="its learned query has none"
        )
        check_positive(query_size=query_size)
        self.attention = attention
        self.query = uniform_parameter(query_size)

    def forward(
        self, states: Float[Tensor, "*b n d"], mask: Bool[Tensor, "*b n"]
    ) -> Float[Tensor, "*b v"]:
        """One vector a sequence.

        Raises:
            TypeError: the mask is not boolean.
            ValueError: there is no position, the mask has another shape, or sizes do not fit the attention.
        """
        check_states("sequence", states, mask)
        query = self.query.expand(*states.shape[:-2], 1, -1)
        return self.attention(
            query, *self.attention.project(states), mask.unsqueeze(-2)
        ).squeeze(-2)
