"""Differentiable samples: the Gumbel-softmax and its straight-through estimator."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from companion._checks import (
    check_above_zero,
    check_independent,
    check_inputs,
    check_kind,
    check_scores,
)
from companion.attention.base import Attention, masked_softmax
from companion.attention.hard import one_hot


class GumbelSoftmax(Attention):
    """The Gumbel-softmax: a continuous relaxation of a sample from attention weights.

    ::

        weights = masked_softmax((score + g) / temperature),   g = − log E,   E exponential

    The largest of score + g is position i with probability α_i. As the temperature goes to
    0, the weights become one-hot at that position. In evaluation mode g is 0.

    Args:
        attention: its scores are used, and nothing else of it.
        temperature: how smooth the weights are.
        generator: the source of randomness, on the device of the inputs; by default
            PyTorch's global one. Copies and pickles of the module copy its state.

    Raises:
        ValueError: the temperature is not finite and above 0.
        TypeError: the temperature is not a number; or the attention is not an
            :class:`~companion.attention.base.Attention`, masks keys by a rule of its own,
            as a window does, or changes the softmax of its scores, as this class does.

    Source: Jang, Gu and Poole 2017, section 2; Maddison, Mnih and Teh 2017, section 3.

    Example:
        >>> from companion.attention import Dot
        >>> attention, source = GumbelSoftmax(Dot(), 0.5), torch.randn(2, 5, 8)
        >>> attention(torch.randn(2, 1, 8), *attention.project(source)).shape
        torch.Size([2, 1, 8])
    """

    has_own_weights = True
    settings = ("temperature",)

    def __init__(
        self,
        attention: Attention,
        temperature: float = 1.0,
        generator: torch.Generator | None = None,
    ):
        super().__init__()
        check_kind(self, attention, Attention)
        check_independent(
            self,
            attention,
            "has_own_mask",
            "has_own_weights",
            because="only its scores are used",
        )
        check_above_zero(temperature=temperature)
        self.attention, self.temperature = attention, temperature
        self.generator = generator
        self.uses_query_position = attention.uses_query_position
        self.uses_key_position = attention.uses_key_position

    def project(
        self, source: Float[Tensor, "*b k s"]
    ) -> tuple[Float[Tensor, "*b k d"], Float[Tensor, "*b k v"]]:
        """Key and value of the attention inside."""
        return self.attention.project(source)

    def score(
        self,
        query: Float[Tensor, "*b q d"],
        key: Float[Tensor, "*b k e"],
        query_position: Int[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "*b q k"]:
        """The scores of the attention inside, without noise."""
        return self.attention.score_at(query, key, query_position)

    def add_noise(self, scores: Float[Tensor, "*b q k"]) -> Float[Tensor, "*b q k"]:
        """The scores, plus Gumbel noise in training mode, in at least 32 bits."""
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
        if not self.training:
            return scores
        noise = torch.empty_like(scores).exponential_(generator=self.generator)
        return scores - noise.log()

    def weights(
        self,
        query: Float[Tensor, "*b q d"],
        key: Float[Tensor, "*b k e"],
        mask: Bool[Tensor, "..."] | None = None,
        query_position: Int[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "*b q k"]:
        """A new sample at each call; a row sums to 1, or to 0 where all is masked."""
        check_inputs(query, key)
        scores = self.score(query, key, query_position)
        perturbed = self.add_noise(scores)
        return tempered_softmax(perturbed, mask, self.temperature).to(scores.dtype)


class StraightThroughGumbel(GumbelSoftmax):
    """The straight-through Gumbel-softmax: a one-hot sample with the relaxation's gradient.

    ::

        weights = one_hot(argmax(score + g)) + r − stop_gradient(r)

    r are the weights of :class:`GumbelSoftmax`, whose largest is at the same position. The
    forward pass is that of hard attention; the gradient is biased. In evaluation mode the
    weights are 1 at the most probable position.

    Args:
        attention, temperature, generator: as in :class:`GumbelSoftmax`.

    Source: Jang, Gu and Poole 2017, section 2.2.

    Example:
        >>> from companion.attention import Dot
        >>> attention, source = StraightThroughGumbel(Dot()), torch.randn(2, 5, 8)
        >>> attention.weights(torch.randn(2, 1, 8), source).amax(-1)
        tensor([[1.],
                [1.]])
    """

    def weights(
        self,
        query: Float[Tensor, "*b q d"],
        key: Float[Tensor, "*b k e"],
        mask: Bool[Tensor, "..."] | None = None,
        query_position: Int[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "*b q k"]:
        """A new one-hot sample at each call; a row of zeros where all is masked."""
        check_inputs(query, key)
        scores = self.score(query, key, query_position)
        perturbed = self.add_noise(scores)
        relaxed = tempered_softmax(perturbed, mask, self.temperature)
        sample = one_hot(masked_softmax(perturbed.detach(), mask))
        return (sample + (relaxed - relaxed.detach())).to(scores.dtype)


def tempered_softmax(
    scores: Float[Tensor, "*b k"],
    mask: Bool[Tensor, "..."] | None,
    temperature: float,
) -> Float[Tensor, "*b k"]:
    """:func:`~companion.attention.base.masked_softmax` of ``scores / temperature``.

    The maximum is subtracted before the division, so that nothing overflows at any
    temperature.
    """
    check_scores(scores, mask)
    visible = scores if mask is None else scores.masked_fill(~mask, -torch.inf)
    maximum = visible.detach().amax(-1, keepdim=True)
    # Below the smallest normal number, 1 / temperature would be infinite.
    divisor = max(temperature, torch.finfo(scores.dtype).tiny)
    return masked_softmax((scores - maximum) / divisor, mask)
