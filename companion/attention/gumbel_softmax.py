"""Draws with a derivative: the Gumbel-softmax and the straight-through estimator, around any attention."""

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from companion._checks import check_independent, check_inputs, check_kind
from companion.attention.base import Attention, masked_softmax
from companion.attention.hard import one_hot


class GumbelSoftmax(Attention):
    """A smooth draw: the softmax of the scores of another attention, with noise added.

    ::

        weights = masked_softmax((score + g) / temperature),   g = − log E,   E exponential

    The largest of score + g is position i with probability α_i; as the temperature falls to 0, the weights
    become that position's alone. At evaluation g is 0. Only the other attention's scores are used. Source:
    Jang, Gu and Poole 2017, section 2; Maddison, Mnih and Teh 2017, section 3.

    Raises:
        ValueError: the temperature is not a finite number above 0.
        TypeError: the other attention is no :class:`~companion.attention.base.Attention`, or one that hides keys
            by a rule of its own, as a window does, which would be lost.
    """

    def __init__(self, attention: Attention, temperature: float = 1.0):
        super().__init__()
        check_kind(self, attention, Attention)
        check_independent(
            self,
            attention,
            "has_own_mask",
            because="only its scores are used, so the rule would be lost",
        )
        if not 0 < temperature < math.inf:
            raise ValueError(
                f"the temperature must be a finite number above 0, not {temperature}"
            )
        self.attention, self.temperature = attention, temperature
        self.uses_query_position = attention.uses_query_position
        self.uses_key_position = attention.uses_key_position

    def project(
        self, source: Float[Tensor, "*b k s"]
    ) -> tuple[Float[Tensor, "*b k d"], Float[Tensor, "*b k v"]]:
        """Key and value, as the attention inside has them."""
        return self.attention.project(source)

    def score(
        self,
        query: Float[Tensor, "*b q d"],
        key: Float[Tensor, "*b k e"],
        query_position: Int[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "*b q k"]:
        """The scores of the attention inside, without noise."""
        return self.attention.score_at(query, key, query_position)

    def weights(
        self,
        query: Float[Tensor, "*b q d"],
        key: Float[Tensor, "*b k e"],
        mask: Bool[Tensor, "..."] | None = None,
        query_position: Int[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "*b q k"]:
        """Another draw at every call; a row sums to 1, or to 0 where all is masked."""
        check_inputs(query, key)
        scores = self.score(query, key, query_position)
        if self.training:
            precision = torch.promote_types(scores.dtype, torch.float32)
            noise = -torch.empty_like(scores, dtype=precision).exponential_().log()
            scores = scores + noise.to(scores.dtype)
        return masked_softmax(scores / self.temperature, mask)


class StraightThroughGumbel(GumbelSoftmax):
    """Looks at the largest of the Gumbel-softmax's weights alone, but sends back the gradient of them all.

    ::

        weights = one_hot(argmax r) + r − stop_gradient(r),   r = the Gumbel-softmax's weights

    So a draw is as hard attention's, and its gradient wrong by a little (biased). At evaluation, the most
    probable position. Source: Jang, Gu and Poole 2017, section 2.2.
    """

    def weights(
        self,
        query: Float[Tensor, "*b q d"],
        key: Float[Tensor, "*b k e"],
        mask: Bool[Tensor, "..."] | None = None,
        query_position: Int[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "*b q k"]:
        """A single 1 in each row, at another place at every call; none where all is masked."""
        relaxed = super().weights(query, key, mask, query_position)
        return one_hot(relaxed.detach()) + (relaxed - relaxed.detach())
