"""Hard attention: sample one position instead of averaging over all (Xu et al. 2015)."""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from companion._checks import check_kind
from companion.attention.base import Attention
from companion.attention.delta import DeltaAttention
from companion.attention.local import LocalP
from companion.attention.types import Mask, Positions


class SampledAttention(NamedTuple):
    """What :class:`HardAttention` returns for each query.

    ``weights`` is 1 at the sampled position, ``log_prob`` the log-probability of the
    sample, and ``entropy`` that of the distribution it was sampled from.
    """

    weights: Float[Tensor, "*b q k"]
    log_prob: Float[Tensor, "*b q"]
    entropy: Float[Tensor, "*b q"]


def entropy(probabilities: Float[Tensor, "*b k"]) -> Float[Tensor, "*b"]:
    """The entropy of each distribution: ``H = − Σ_i α_i log α_i``, from 0 to ``log k``.

    Args:
        probabilities: distributions over the last axis; zeros are allowed.

    Example:
        >>> entropy(torch.tensor([0.5, 0.5]))
        tensor(0.6931)
    """
    return -(probabilities * _log(probabilities)).sum(-1)


def _log(probabilities: Tensor) -> Tensor:
    """The logarithm; at zero it is finite and has no gradient."""
    return probabilities.clamp_min(torch.finfo(probabilities.dtype).tiny).log()


def one_hot(x: Float[Tensor, "*b k"]) -> Float[Tensor, "*b k"]:
    """1 at the maximum of each row, 0 elsewhere. A row of zeros, all masked, stays zero.

    Args:
        x: weights, 0 where masked; the maximum is taken over the last axis.

    Example:
        >>> one_hot(torch.tensor([[0.2, 0.5, 0.3], [0.0, 0.0, 0.0]]))
        tensor([[0., 1., 0.],
                [0., 0., 0.]])
    """
    largest = x.argmax(-1, keepdim=True)
    return torch.zeros_like(x).scatter(-1, largest, 1).masked_fill(x == 0, 0)


class HardAttention(nn.Module):
    """Hard attention: one position per query, sampled from the weights of an attention.

    ::

        s ~ Multinoulli(α),   weights_i = [i = s],   log_prob = log α_s
        entropy = − Σ_i α_i log α_i

    In evaluation mode the most probable position is chosen instead of sampled. No gradient
    flows through the weights; it flows through log_prob and entropy. For a query of which
    every key is masked nothing is sampled: weights, log_prob and entropy are zero.
    :func:`~companion.attention.recording.record_weights` records α, as the weights of
    the attention inside.

    Args:
        attention: defines α, whose rows must sum to 1. Of the package's attentions,
            :class:`~companion.attention.local.LocalP` and those by the delta rule are
            refused; the sums of your own are not checked.
        generator: the source of randomness, on the device of the inputs; by default
            PyTorch's global one. Copies and pickles of the module copy its state.

    Source: Xu et al. 2015, section 4.1, equations (8) and (9).

    Example:
        >>> from companion.attention import Dot
        >>> attention, source = HardAttention(Dot()), torch.randn(2, 5, 8)
        >>> sampled = attention(torch.randn(2, 1, 8), source)
        >>> sampled.weights.sum(-1)
        tensor([[1.],
                [1.]])
    """

    def __init__(self, attention: Attention, generator: torch.Generator | None = None):
        super().__init__()
        check_kind(self, attention, Attention)
        for part in attention.modules():
            if isinstance(part, LocalP | DeltaAttention):
                raise TypeError(
                    f"{type(self).__name__} cannot use {type(part).__name__}, which has "
                    f"weights whose sum is not 1: it samples from the weights"
                )
        self.attention = attention
        self.generator = generator

    def project(
        self, source: Float[Tensor, "*b k s"]
    ) -> tuple[Float[Tensor, "*b k d"], Float[Tensor, "*b k v"]]:
        """Key and value of the attention inside."""
        return self.attention.project(source)

    def forward(
        self,
        query: Float[Tensor, "*b q d"],
        key: Float[Tensor, "*b k e"],
        mask: Mask = None,
        query_position: Positions = None,
    ) -> SampledAttention:
        """One position for each query."""
        return self.sample(self.attention.weights(query, key, mask, query_position))

    def sample(self, probabilities: Float[Tensor, "*b q k"]) -> SampledAttention:
        """One position for each row of α."""
        weights = self.choose(probabilities.detach())
        return SampledAttention(
            weights, (weights * _log(probabilities)).sum(-1), entropy(probabilities)
        )

    def choose(self, probabilities: Float[Tensor, "*b q k"]) -> Float[Tensor, "*b q k"]:
        """The position as a one-hot row."""
        if not self.training:
            return one_hot(probabilities)
        # An exponential clock of rate α_i rings after E/α_i; i is the first with probability α_i.
        precision = torch.promote_types(probabilities.dtype, torch.float32)
        clock = torch.empty_like(probabilities, dtype=precision)
        clock.exponential_(generator=self.generator)
        return one_hot(probabilities / clock).to(probabilities.dtype)


class HalfAndHalf(HardAttention):
    """Hard attention that uses the expectation α itself, not a sample, with probability ½.

    Where it does, log_prob is 0 and the gradient flows through the weights, as in soft
    attention. In evaluation mode the most probable position is always chosen.

    Args:
        attention, generator: as in :class:`HardAttention`.

    Source: Xu et al. 2015, end of section 4.1.
    Deviation: the paper decides once for each image; we decide for each query, so that the
    module needs no memory between the steps of a decoder.

    Example:
        >>> from companion.attention import Dot
        >>> attention, source = HalfAndHalf(Dot()), torch.randn(2, 5, 8)
        >>> attention(torch.randn(2, 1, 8), source).weights.shape
        torch.Size([2, 1, 5])
    """

    def sample(self, probabilities: Float[Tensor, "*b q k"]) -> SampledAttention:
        """For each row of α, one position or the row itself."""
        sampled = super().sample(probabilities)
        if not self.training:
            return sampled
        uniform = torch.empty_like(sampled.log_prob).uniform_(generator=self.generator)
        expected = uniform < 0.5
        weights = torch.where(expected[..., None], probabilities, sampled.weights)
        return SampledAttention(
            weights, sampled.log_prob.masked_fill(expected, 0), sampled.entropy
        )
