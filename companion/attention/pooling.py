"""One vector for a sequence: its last state, its mean, its maximum, or attention pooling."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from companion._checks import (
    check_independent,
    check_kind,
    check_positive,
    check_states,
)
from companion.attention.base import Attention, masked_softmax, reset_uniform


def last_pooling(
    states: Float[Tensor, "*b n d"], mask: Bool[Tensor, "*b n"]
) -> Float[Tensor, "*b d"]:
    """The last state that is not masked, which for an RNN has information from all inputs.

    Every pooling of this module returns zeros for a sequence that is masked everywhere.

    Args:
        states: the sequences.
        mask: boolean, ``True`` = a state to keep.

    Example:
        >>> last_pooling(torch.eye(3), torch.tensor([True, True, False]))
        tensor([0., 1., 0.])
    """
    check_states("sequence", states, mask)
    numbers = torch.arange(1, states.shape[-2] + 1, device=states.device)
    last = (numbers * mask).argmax(-1)[..., None, None]  # (*b, 1, 1)
    pooled = states.gather(-2, last.expand(*last.shape[:-1], states.shape[-1]))
    return pooled.squeeze(-2).masked_fill(~mask.any(-1, keepdim=True), 0)


def mean_pooling(
    states: Float[Tensor, "*b n d"], mask: Bool[Tensor, "*b n"]
) -> Float[Tensor, "*b d"]:
    """The mean of the states that are not masked: attention whose scores are all equal.

    Example:
        >>> mean_pooling(torch.eye(3), torch.tensor([True, True, False]))
        tensor([0.5000, 0.5000, 0.0000])
    """
    check_states("sequence", states, mask)
    weights = masked_softmax(states.new_zeros(mask.shape), mask)
    return (weights.unsqueeze(-2) @ states).squeeze(-2)


def max_pooling(
    states: Float[Tensor, "*b n d"], mask: Bool[Tensor, "*b n"]
) -> Float[Tensor, "*b d"]:
    """The maximum of each feature over the states that are not masked.

    Example:
        >>> max_pooling(torch.eye(3), torch.tensor([True, True, False]))
        tensor([1., 1., 0.])
    """
    check_states("sequence", states, mask)
    largest = states.masked_fill(~mask.unsqueeze(-1), -torch.inf).amax(-2)
    return largest.masked_fill(~mask.any(-1, keepdim=True), 0)


class AttentionPooling(nn.Module):
    """Attention pooling: the average of the states under attention by one learned query.

    ::

        pooled = Σ_j α_j value_j
        α = attention.weights(u, key),   key, value = attention.project(states)

    Args:
        attention: any :class:`~companion.attention.base.Attention` whose weights do not
            depend on the query's position, because the learned query has none.
        query_size: the number of features of the query u.

    Source: Yang et al. 2016, section 2.2, where the attention is
    :class:`~companion.attention.scores.HiddenDot`.

    Example:
        >>> from companion.attention import HiddenDot
        >>> pooling = AttentionPooling(HiddenDot(6, query_size=4), query_size=4)
        >>> pooling(torch.randn(2, 5, 6), torch.ones(2, 5) > 0).shape
        torch.Size([2, 6])
    """

    def __init__(self, attention: Attention, query_size: int):
        super().__init__()
        check_kind(self, attention, Attention)
        check_independent(
            self, attention, "uses_query_position", because="its learned query has none"
        )
        check_positive(query_size=query_size)
        self.attention = attention
        self.query = nn.Parameter(torch.empty(query_size))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise the query as in ``nn.Linear``; the attention is a module of its own."""
        reset_uniform(self.query)

    def forward(
        self, states: Float[Tensor, "*b n d"], mask: Bool[Tensor, "*b n"]
    ) -> Float[Tensor, "*b v"]:
        """One vector for each sequence."""
        check_states("sequence", states, mask)
        key, value = self.attention.project(states)
        query = self.query.expand(*states.shape[:-2], 1, -1)  # (*b, 1, query_size)
        return self.attention(query, key, value, mask.unsqueeze(-2)).squeeze(-2)
