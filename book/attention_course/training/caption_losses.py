"""The losses of captioners, with soft and with hard attention, and their batches."""

from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from attention_course.data.vocabulary import PAD
from companion.attention.hard import SampledAttention
from companion.losses.reinforce import (
    MovingBaseline,
    doubly_stochastic_penalty,
    reinforce_loss,
    reward_to_go,
)
from companion.losses.tokens import Loss, to_float32

#: The most words of a caption, ``<eos>`` included: nine names and "below" twice are 12.
LONGEST = 20


class CaptionBatch(NamedTuple):
    """The annotations of images, and their padded captions, ``<bos>`` to ``<eos>``."""

    annotations: Float[Tensor, "b k s"]
    target: Int[Tensor, "b t"]


class CaptionerTrace(nn.Module):
    """A captioner whose forward pass returns its attention beside the logits.

    The losses need both.

    Args:
        captioner: a decoder with ``start`` and ``trace``, such as
            :class:`~companion.models.show_attend_tell.Captioner`.
    """

    def __init__(self, captioner: Any):
        super().__init__()
        self.captioner = captioner

    def forward(
        self, batch: CaptionBatch
    ) -> tuple[Float[Tensor, "b t vocabulary"], SampledAttention]:
        """The logits of the next words, and the attention of each time step."""
        state = start_captions(self.captioner, batch.annotations)
        return self.captioner.trace(batch.target[:, :-1], state)


def start_captions(captioner: Any, annotations: Float[Tensor, "b k s"]) -> Any:
    """The captioner's state before the first word; every region may be attended to.

    Args:
        captioner: has ``start(annotations, mask)``.
        annotations: those of a batch of images.
    """
    mask = torch.ones_like(annotations[..., 0], dtype=torch.bool)
    return captioner.start(annotations, mask)


def _rewards(
    model: nn.Module, batch: CaptionBatch
) -> tuple[Float[Tensor, "b t"], Bool[Tensor, "b t"], SampledAttention]:
    """The log-probability of each word, 0 at padding; the word mask; the attention."""
    logits, attended = model(batch)
    following = batch.target[:, 1:]
    reward = -cross_entropy(
        to_float32(logits).mT,
        following,
        ignore_index=PAD,
        reduction="none",
    )
    return reward, following != PAD, attended


class SoftAttentionLoss:
    """The loss of a captioner with differentiable attention: soft, or a Gumbel-softmax.

    ::

        total = Σ over captions of − log p(y | a) + λ Σ_i (1 − Σ_t α_ti)²
        count = N words

    The mean is over words, as in all losses here, where the paper's is over captions;
    that changes only the scale.

    Args:
        penalty: λ, the weight of the doubly stochastic penalty.

    Source: Xu et al. 2015, equation (14).
    """

    def __init__(self, penalty: float = 0.0):
        self.penalty = penalty

    def __call__(self, model: nn.Module, batch: CaptionBatch) -> Loss:
        """The loss of one batch; ``model`` is a :class:`CaptionerTrace`."""
        reward, words, attended = _rewards(model, batch)
        regions = torch.ones_like(attended.weights[:, 0], dtype=torch.bool)
        penalty = doubly_stochastic_penalty(
            attended.weights, words, regions, self.penalty
        )
        return Loss(reward.shape[0] * penalty - reward.sum(), words.sum())


class HardAttentionLoss:
    """The loss of a captioner with sampled attention: cross-entropy and REINFORCE.

    ::

        total = Σ over captions of − log p(y | s, a)
                                   − Σ_t [λ_r (R_t − b_t) log α_{t,s_t} + λ_e H_t]
        count = N words

    R_t is the reward to go, in log-probability. b_t is its moving average over the
    previous batches, which changes only while the model trains. It is no part of a
    checkpoint, because it is learned again in a few dozen steps. Of several processes
    each has its own: the gradient stays unbiased, but the numbers differ from those of
    a single process.

    Args:
        policy_weight: λ_r, the weight of REINFORCE.
        entropy_weight: λ_e, the weight of the entropy bonus.

    Raises:
        ValueError: a weight is below 0 or not finite, or a caption has more than
            :data:`LONGEST` words.

    Source: Xu et al. 2015, section 4.1.
    Deviation: the paper's R is the reward of the whole caption; ours is
    :func:`~companion.losses.reinforce.reward_to_go`, because it has the same
    expectation and a lower variance.
    """

    def __init__(self, policy_weight: float = 1.0, entropy_weight: float = 0.0):
        self.policy_weight, self.entropy_weight = policy_weight, entropy_weight
        self.baseline = MovingBaseline(LONGEST)

    def __call__(self, model: nn.Module, batch: CaptionBatch) -> Loss:
        """The loss of one batch; ``model`` is a :class:`CaptionerTrace`."""
        reward, words, attended = _rewards(model, batch)
        to_go = reward_to_go(reward.detach(), words)
        baseline = self.baseline.to(to_go.device).train(model.training)(to_go, words)
        policy = reinforce_loss(
            attended, to_go - baseline, words, self.policy_weight, self.entropy_weight
        )
        return Loss(reward.shape[0] * policy - reward.sum(), words.sum())
