"""Hard attention: sample one position instead of averaging over all (Xu et al. 2015, section 4)."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from companion._checks import check_kind
from companion.attention.base import Attention


class SampledAttention(NamedTuple):
    """Where each query looked, how probable it was that it looked there, and how open that had been."""

    weights: Float[Tensor, "*b q k"]
    log_prob: Float[Tensor, "*b q"]
    entropy: Float[Tensor, "*b q"]


def entropy(probabilities: Float[Tensor, "*b k"]) -> Float[Tensor, "*b"]:
    """How open a choice is: ``H = − Σ_i α_i log α_i``, from 0 to ``log k``."""
    return -(probabilities * _log(probabilities)).sum(-1)


def _log(probabilities: Tensor) -> Tensor:
    """Finite, and without gradient, at zero."""
    return probabilities.clamp_min(torch.finfo(probabilities.dtype).tiny).log()


def one_hot(x: Float[Tensor, "*b k"]) -> Float[Tensor, "*b k"]:
    """1 at the largest of each row, 0 elsewhere; a row of zeros, where all is masked, stays one."""
    return (
        torch.zeros_like(x)
        .scatter(-1, x.argmax(-1, keepdim=True), 1)
        .masked_fill(x == 0, 0)
    )


class HardAttention(nn.Module):
    """Looks at one position, drawn by the weights of another attention; at evaluation, the most probable.

    ::

        s ~ Multinoulli(α),   weights_i = [i = s],   log_prob = log α_s,   entropy = − Σ_i α_i log α_i

    Source: Xu et al. 2015, section 4.1, equations (8) and (9). No gradient flows through the weights; through
    log_prob and entropy it does. A row in which all is masked draws nothing: weights and log_prob are zero.
    Any other row of α must sum to 1, as those of :class:`~companion.attention.local.LocalP` do not.
    :func:`~companion.attention.recording.record_weights` sees α, as the weights of the attention inside.

    Raises:
        TypeError: the other attention is no :class:`~companion.attention.base.Attention`, or is hard itself.
    """

    def __init__(self, attention: Attention):
        super().__init__()
        check_kind(self, attention, Attention)
        self.attention = attention

    def project(
        self, source: Float[Tensor, "*b k s"]
    ) -> tuple[Float[Tensor, "*b k d"], Float[Tensor, "*b k v"]]:
        """Key and value, as the attention inside has them."""
        return self.attention.project(source)

    def forward(
        self,
        query: Float[Tensor, "*b q d"],
        key: Float[Tensor, "*b k e"],
        mask: Bool[Tensor, "..."] | None = None,
        query_position: Int[Tensor, "..."] | None = None,
    ) -> SampledAttention:
        """One position for each query.

        Raises:
            ValueError: sizes do not fit, the source is empty, or the mask does not fit ``(*b, q, k)``.
            TypeError: the mask is not boolean.
        """
        return self.sample(self.attention.weights(query, key, mask, query_position))

    def sample(self, probabilities: Float[Tensor, "*b q k"]) -> SampledAttention:
        """One position for each row of α."""
        weights = self.choose(probabilities.detach())
        return SampledAttention(
            weights, (weights * _log(probabilities)).sum(-1), entropy(probabilities)
        )

    def choose(self, probabilities: Float[Tensor, "*b q k"]) -> Float[Tensor, "*b q k"]:
        """The position as a row with a single 1."""
        if not self.training:
            return one_hot(probabilities)
        # Each position sets an alarm to E/α, with E exponential: the first to ring is i with probability α_i.
        precision = torch.promote_types(probabilities.dtype, torch.float32)
        alarm = torch.empty_like(probabilities, dtype=precision).exponential_()
        return one_hot(probabilities / alarm).to(probabilities.dtype)


class HalfAndHalf(HardAttention):
    """Hard attention that, with probability ½, takes the expectation α itself instead of a position.

    Nothing was drawn then: log_prob is 0, and the gradient flows through the weights as in soft attention.
    Source: Xu et al. 2015, end of section 4.1. Deviation: the paper tosses once an image, we once a look.
    At evaluation there is no toss.
    """

    def sample(self, probabilities: Float[Tensor, "*b q k"]) -> SampledAttention:
        """For each row of α, one position or the row itself."""
        drawn = super().sample(probabilities)
        if not self.training:
            return drawn
        expected = torch.rand_like(drawn.log_prob) < 0.5
        weights = torch.where(expected[..., None], probabilities, drawn.weights)
        return SampledAttention(
            weights, drawn.log_prob.masked_fill(expected, 0), drawn.entropy
        )
