"""What a captioner pays, with soft attention and with hard, and what it is given to learn from."""

from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from companion._checks import check_weight
from companion.attention.hard import SampledAttention
from companion.data.vocabulary import PAD
from companion.training.losses import Loss, to_float32
from companion.training.reinforce import (
    MovingBaseline,
    doubly_stochastic_penalty,
    reinforce_loss,
    reward_to_go,
)

LONGEST = 20  #: words of a caption, with ``<eos>``, where nine names and "below" twice are twelve


class CaptionBatch(NamedTuple):
    """What an encoder saw in some images, and their captions from ``<bos>`` to ``<eos>``, with padding."""

    annotations: Float[Tensor, "b k s"]
    target: Int[Tensor, "b t"]


class CaptionerTrace(nn.Module):
    """A captioner as its losses call it, so that they get the looks as well as the words."""

    def __init__(self, captioner: Any):
        super().__init__()
        self.captioner = captioner

    def forward(
        self, batch: CaptionBatch
    ) -> tuple[Float[Tensor, "b t vocabulary"], SampledAttention]:
        """Scores of the word after each word of the captions, and the look before each."""
        return self.captioner.trace(
            batch.target[:, :-1], start_captions(self.captioner, batch.annotations)
        )


def start_captions(captioner: Any, annotations: Float[Tensor, "b k s"]) -> Any:
    """The captioner's state before the first word, where every place of the image may be looked at."""
    return captioner.start(
        annotations, torch.ones_like(annotations[..., 0], dtype=torch.bool)
    )


def _rewards(
    model: nn.Module, batch: CaptionBatch
) -> tuple[Float[Tensor, "b t"], Bool[Tensor, "b t"], SampledAttention]:
    """The log-probability of each word, zero for padding; which are words; and the looks."""
    logits, look = model(batch)
    following = batch.target[:, 1:]
    reward = -cross_entropy(
        to_float32(logits).mT, following, ignore_index=PAD, reduction="none"
    )
    return reward, following != PAD, look


class SoftAttentionLoss:
    """What a captioner pays whose looks have a derivative: soft attention, or a Gumbel-softmax.

    ::

        total = Σ over captions of − log p(y | a) + λ Σ_i (1 − Σ_t α_ti)²,   count = words

    Source: Xu et al. 2015, equation (14); ``penalty`` is λ. Dividing by words, as all losses here, changes
    nothing but the rate.

    Raises:
        ValueError: the penalty is below 0 or not finite.
    """

    def __init__(self, penalty: float = 0.0):
        check_weight("doubly stochastic penalty", penalty)
        self.penalty = penalty

    def __call__(self, model: nn.Module, batch: CaptionBatch) -> Loss:
        """The sum over a batch; ``model`` is a captioner that is :class:`Traced`."""
        reward, words, look = _rewards(model, batch)
        places = torch.ones_like(look.weights[:, 0], dtype=torch.bool)
        penalty = doubly_stochastic_penalty(look.weights, words, places, self.penalty)
        return Loss(len(reward) * penalty - reward.sum(), words.sum())


class HardAttentionLoss:
    """What a captioner pays whose looks are drawn: the words, and REINFORCE for where it looked.

    ::

        total = Σ over captions of − log p(y | s, a) − Σ_t [λ_r (R_t − b_t) log α_{t,s_t} + λ_e H_t]
        count = words

    R_t is the reward to go, in log-probability, and b_t its moving average over the batches before. Source:
    Xu et al. 2015, section 4.1, but for R_t: see :func:`companion.training.reinforce.reward_to_go`. The baseline moves
    only while the model trains. It is no part of a checkpoint; it is learnt again in a few dozen steps. Of
    several processes each has its own, from its own rows: no bias, but not the same numbers as from one.

    Raises:
        ValueError: a weight is below 0 or not finite, or a caption has more than :data:`LONGEST` words.
    """

    def __init__(self, policy_weight: float = 1.0, entropy_weight: float = 0.0):
        check_weight("policy", policy_weight)
        check_weight("entropy", entropy_weight)
        self.policy_weight, self.entropy_weight = policy_weight, entropy_weight
        self.baseline = MovingBaseline(LONGEST)

    def __call__(self, model: nn.Module, batch: CaptionBatch) -> Loss:
        """The sum over a batch; ``model`` is a captioner that is :class:`Traced`."""
        reward, words, look = _rewards(model, batch)
        to_go = reward_to_go(reward.detach(), words)
        expected = self.baseline.to(to_go.device).train(model.training)(to_go, words)
        policy = reinforce_loss(
            look, to_go - expected, words, self.policy_weight, self.entropy_weight
        )
        return Loss(len(reward) * policy - reward.sum(), words.sum())
