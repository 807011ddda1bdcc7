"""Hard attention, which looks at one place only, and how REINFORCE trains it (Xu et al. 2015, section 4).

A drawn place has no derivative, so places that turned out well are made more probable. There are other ways:
see :mod:`companion.gumbel`.
"""

import math
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from companion.attention import Attention, check_kind, check_positive


class Look(NamedTuple):
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
    return torch.zeros_like(x).scatter(-1, x.argmax(-1, keepdim=True), 1).masked_fill(x == 0, 0)


class HardAttention(nn.Module):
    """Looks at one position, drawn by the weights of another attention; at evaluation, the most probable.

    ::

        s ~ Multinoulli(α),   weights_i = [i = s],   log_prob = log α_s,   entropy = − Σ_i α_i log α_i

    Source: Xu et al. 2015, section 4.1, equations (8) and (9). No gradient flows through the weights; through
    log_prob and entropy it does. A row in which all is masked draws nothing: weights and log_prob are zero.
    Any other row of α must sum to 1, as those of :class:`~companion.local.LocalP` do not.
    :func:`~companion.attention.record_weights` sees α, as the weights of the attention inside.

    Raises:
        TypeError: the other attention is no :class:`~companion.attention.Attention`, or is hard itself.
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
    ) -> Look:
        """One position for each query.

        Raises:
            ValueError: sizes do not fit, the source is empty, or the mask does not fit ``(*b, q, k)``.
            TypeError: the mask is not boolean.
        """
        return self.look(self.attention.weights(query, key, mask))

    def look(self, probabilities: Float[Tensor, "*b q k"]) -> Look:
        """One position for each row of α."""
        weights = self.choose(probabilities.detach())
        return Look(weights, (weights * _log(probabilities)).sum(-1), entropy(probabilities))

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

    def look(self, probabilities: Float[Tensor, "*b q k"]) -> Look:
        """For each row of α, one position or the row itself."""
        drawn = super().look(probabilities)
        if not self.training:
            return drawn
        expected = torch.rand_like(drawn.log_prob) < 0.5
        weights = torch.where(expected[..., None], probabilities, drawn.weights)
        return Look(weights, drawn.log_prob.masked_fill(expected, 0), drawn.entropy)


def doubly_stochastic_penalty(
    weights: Float[Tensor, "b t k"],
    words: Bool[Tensor, "b t"],
    mask: Bool[Tensor, "b k"],
    weight: float = 1.0,
) -> Float[Tensor, ""]:
    """What a caption pays for looking at some places more, and at others less, than once in all.

    ::

        λ Σ_i (1 − Σ_t α_ti)²

    Source: Xu et al. 2015, section 4.2.1, equation (14). Summed over the positions i of an image, as there,
    and then the mean over the images. (Others take the mean over the positions, or another number than 1.)
    ``words`` are the steps t that count, ``mask`` the positions; ``weight`` is λ.

    Raises:
        ValueError: the weight is below 0 or not finite.
    """
    check_weight("doubly stochastic penalty", weight)
    received = weights.masked_fill(~words[..., None], 0).sum(1)
    return weight * (1 - received).square().masked_fill(~mask, 0).sum(1).mean()


def reward_to_go(reward: Float[Tensor, "b t"], words: Bool[Tensor, "b t"]) -> Float[Tensor, "b t"]:
    """What each look can still change, ``R_t = Σ_{l ≥ t} r_l``: the rewards of its own word and of all after.

    The looks after a word did not bring about its reward, so leaving it out changes no expectation, and
    takes noise away. Deviation, ours: Xu et al. 2015 give the whole caption's to every look.
    """
    return reward.masked_fill(~words, 0).flip(1).cumsum(1).flip(1)


class MovingBaseline(nn.Module):
    """The reward to be expected: a moving average over batches, for each time step its own, at first 0.

    ::

        b_t ← 0.9 b_t + 0.1 · mean reward of the batch at t

    Source: Xu et al. 2015, section 4.1, which has one for the whole caption: ``steps`` of 1.

    Raises:
        ValueError: ``steps`` is below 1, or less than a batch has.
    """

    value: Tensor  #: b_t, the average so far

    def __init__(self, steps: int):
        super().__init__()
        check_positive(steps=steps)
        self.register_buffer("value", torch.zeros(steps))

    @torch.no_grad()
    def forward(self, reward: Float[Tensor, "b t"], words: Bool[Tensor, "b t"]) -> Float[Tensor, " t"]:
        """The average of the batches before this one; in training, this one then joins it."""
        steps = reward.shape[1]
        if steps > len(self.value):
            raise ValueError(f"the batch has {steps} steps, but the baseline {len(self.value)}")
        before = self.value[:steps].clone()
        if self.training:
            count = words.sum(0)
            mean = reward.masked_fill(~words, 0).sum(0) / count.clamp_min(1)
            self.value[:steps] = torch.where(count > 0, 0.9 * before + 0.1 * mean, before)
        return before


def reinforce_loss(
    look: Look,
    advantage: Float[Tensor, "b t"],
    words: Bool[Tensor, "b t"],
    policy_weight: float = 1.0,
    entropy_weight: float = 0.0,
) -> Float[Tensor, ""]:
    """A loss whose gradient is the estimate of REINFORCE, for the choice of the places; the words' comes too.

    ::

        − Σ_t [λ_r (R_t − b_t) log α_{t,s_t} + λ_e H_t],   the mean over the batch

    Source: Xu et al. 2015, section 4.1. ``advantage`` is R − b, of which no gradient is taken; the weights
    are λ_r and λ_e, the bonus for entropy. ``look`` has one query a step.

    Raises:
        ValueError: a weight is below 0 or not finite.
    """
    check_weight("policy", policy_weight)
    check_weight("entropy", entropy_weight)
    gain = policy_weight * advantage.detach() * look.log_prob + entropy_weight * look.entropy
    return -gain.masked_fill(~words, 0).sum(1).mean()


def check_weight(name: str, weight: float) -> None:
    """Raise a ``ValueError`` unless the weight of a part of a loss is finite and at least 0."""
    if not 0 <= weight < math.inf:
        raise ValueError(f"the weight of the {name} must be a finite number of at least 0, not {weight}")
