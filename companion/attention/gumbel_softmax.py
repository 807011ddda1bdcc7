"""Differentiable samples: the Gumbel-softmax and its straight-through estimator."""

import torch
from jaxtyping import Float
from torch import Tensor

from companion._checks import check_above_zero, check_independent, check_scores
from companion.attention.base import Attention, at_least_float32, masked_softmax
from companion.attention.hard import one_hot
from companion.attention.types import Mask, Positions
from companion.attention.wrappers import Wrapper


class GumbelSoftmax(Wrapper):
    """The Gumbel-softmax: a continuous relaxation of a sample from attention weights.

    ::

        weights = masked_softmax((score + g) / temperature),   g = − log E,   E exponential

    The largest of score + g is position i with probability α_i. As the temperature goes to
    0, the weights become one-hot at that position. In evaluation mode g is 0.

    Args:
        attention: its scores are used, and nothing else of it: it must have no rule or
            noise of its own.
        temperature: how smooth the weights are.
        generator: the source of randomness, on the device of the inputs; by default
            PyTorch's global one. Copies and pickles of the module copy its state.

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
        super().__init__(attention)
        check_independent(
            self, attention, "has_own_weights", because="only its scores are used"
        )
        check_above_zero(temperature=temperature)
        self.temperature, self.generator = temperature, generator

    def add_noise(self, scores: Float[Tensor, "*b q k"]) -> Float[Tensor, "*b q k"]:
        """The scores, plus Gumbel noise in training mode, in at least 32 bits."""
        scores = at_least_float32(scores)
        if not self.training:
            return scores
        noise = torch.empty_like(scores).exponential_(generator=self.generator)
        return scores - noise.log()

    def relax(
        self, scores: Float[Tensor, "*b q k"], mask: Mask
    ) -> Float[Tensor, "*b q k"]:
        """The weights of scores with noise."""
        return tempered_softmax(scores, mask, self.temperature)

    def compute_weights(
        self, query: Tensor, key: Tensor, mask: Mask, position: Positions
    ) -> Tensor:
        """The softmax of scores with noise, at the temperature."""
        scores = self.score(query, key, position)
        return self.relax(self.add_noise(scores), mask).to(query.dtype)


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

    def relax(
        self, scores: Float[Tensor, "*b q k"], mask: Mask
    ) -> Float[Tensor, "*b q k"]:
        """The position of the largest score, with the gradient of the relaxation."""
        relaxed = super().relax(scores, mask)
        sample = one_hot(masked_softmax(scores.detach(), mask))
        return sample + (relaxed - relaxed.detach())


def tempered_softmax(
    scores: Float[Tensor, "*b k"], mask: Mask, temperature: float
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
