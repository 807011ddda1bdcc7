"""REINFORCE for hard attention, with variance reduction (Xu et al. 2015, section 4).

A sampled position has no derivative. REINFORCE raises the probability of positions
whose reward was higher than expected. A relaxation with a derivative is in
:mod:`companion.attention.gumbel_softmax`.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from companion._checks import check_at_least_zero, check_positive, check_same_shape
from companion.attention.hard import SampledAttention


def doubly_stochastic_penalty(
    weights: Float[Tensor, "b t k"],
    words: Bool[Tensor, "b t"],
    mask: Bool[Tensor, "b k"],
    weight: float = 1.0,
) -> Float[Tensor, ""]:
    """Penalise source positions whose weights over all time steps do not sum to 1.

    ::

        λ Σ_i (1 − Σ_t α_{t,i})²,   summed over the positions i, averaged over the batch

    Args:
        weights: α.
        words: which time steps t count.
        mask: which positions i count.
        weight: λ.

    Source: Xu et al. 2015, section 4.2.1, equation (14). Some implementations average
    over the positions, or take another number than 1.
    """
    check_at_least_zero(weight=weight)
    received = weights.masked_fill(~words[..., None], 0).sum(1)
    return weight * (1 - received).square().masked_fill(~mask, 0).sum(1).mean()


def reward_to_go(
    reward: Float[Tensor, "b t"], words: Bool[Tensor, "b t"]
) -> Float[Tensor, "b t"]:
    """The sum of the rewards from each time step on, ``R_t = Σ_{l ≥ t} r_l``.

    Rewards of earlier time steps do not depend on the position sampled at t. Leaving
    them out keeps the gradient unbiased and lowers its variance.

    Args:
        reward, words: r, and which time steps count.

    Deviation: Xu et al. 2015 take the reward of the whole caption for every time step;
    this is the estimator with less variance.

    Example:
        >>> words = torch.tensor([[True, True, False]])
        >>> reward_to_go(torch.tensor([[1.0, 2.0, 9.0]]), words)
        tensor([[3., 2., 0.]])
    """
    check_same_shape(reward=reward, words=words)
    return reward.masked_fill(~words, 0).flip(1).cumsum(1).flip(1)


class MovingBaseline(nn.Module):
    """The expected reward at each time step, as a moving average over batches.

    ::

        b_t = 0 at first,   b_t ← 0.9 b_t + 0.1 · mean reward of the batch at t

    Args:
        steps: the number of time steps. With 1 it is the paper's, one number for the
            whole caption.

    Source: Xu et al. 2015, section 4.1.
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
        """The average over the previous batches; in training, this one is added."""
        check_same_shape(reward=reward, words=words)
        steps = reward.shape[1]
        if steps > len(self.value):
            raise ValueError(
                f"the batch has {steps} steps, but the baseline {len(self.value)}"
            )
        before = self.value[:steps].clone()
        if self.training:
            count = words.sum(0)
            mean = reward.masked_fill(~words, 0).sum(0) / count.clamp_min(1)
            updated = 0.9 * before + 0.1 * mean
            self.value[:steps] = torch.where(count > 0, updated, before)
        return before


def reinforce_loss(
    sampled: SampledAttention,
    advantage: Float[Tensor, "b t"],
    words: Bool[Tensor, "b t"],
    policy_weight: float = 1.0,
    entropy_weight: float = 0.0,
) -> Float[Tensor, ""]:
    """A loss whose gradient is the REINFORCE estimate for the sampled positions.

    ::

        − Σ_t [λ_r (R_t − b_t) log α_{t,s_t} + λ_e H_t],   averaged over the batch

    Add the cross-entropy of the words, whose gradient this loss does not contain.

    Args:
        sampled: the sampled positions s_t, with log α and the entropy H of each step.
        advantage: R − b; no gradient flows into it.
        words: which time steps count.
        policy_weight: λ_r.
        entropy_weight: λ_e, the weight of the entropy bonus.

    Source: Xu et al. 2015, section 4.1.
    """
    check_at_least_zero(policy_weight=policy_weight, entropy_weight=entropy_weight)
    check_same_shape(log_prob=sampled.log_prob, advantage=advantage, words=words)
    gain = (
        policy_weight * advantage.detach() * sampled.log_prob
        + entropy_weight * sampled.entropy
    )
    return -gain.masked_fill(~words, 0).sum(1).mean()
