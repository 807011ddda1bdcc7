"""Hard attention, which looks at one place only, and how REINFORCE trains it (Xu et al. 2015, section 4).

A drawn place has no derivative, so places that turned out well are made more probable. There are other ways:
see :mod:`companion.attention.gumbel_softmax`.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from companion._checks import check_positive, check_weight
from companion.attention.hard import SampledAttention


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


def reward_to_go(
    reward: Float[Tensor, "b t"], words: Bool[Tensor, "b t"]
) -> Float[Tensor, "b t"]:
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
    def forward(
        self, reward: Float[Tensor, "b t"], words: Bool[Tensor, "b t"]
    ) -> Float[Tensor, " t"]:
        """The average of the batches before this one; in training, this one then joins it."""
        steps = reward.shape[1]
        if steps > len(self.value):
            raise ValueError(
                f"the batch has {steps} steps, but the baseline {len(self.value)}"
            )
        before = self.value[:steps].clone()
        if self.training:
            count = words.sum(0)
            mean = reward.masked_fill(~words, 0).sum(0) / count.clamp_min(1)
            self.value[:steps] = torch.where(
                count > 0, 0.9 * before + 0.1 * mean, before
            )
        return before


def reinforce_loss(
    look: SampledAttention,
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
    gain = (
        policy_weight * advantage.detach() * look.log_prob
        + entropy_weight * look.entropy
    )
    return -gain.masked_fill(~words, 0).sum(1).mean()
