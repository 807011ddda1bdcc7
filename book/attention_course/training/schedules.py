"""Learning rates as functions of the step."""

import math

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR


def warmup_cosine(optimizer: Optimizer, warmup: int, steps: int) -> LambdaLR:
    """Linear warm-up, times half a cosine that falls to 0 at step ``steps``.

    ::

        rate(step) = rate · min(1, (step + 1) / warmup) · (1 + cos(π step / steps)) / 2

    Args:
        optimizer: its own learning rate is the factor ``rate``.
        warmup: the steps in which the rate rises.

    Example:
        >>> optimizer = torch.optim.SGD(nn.Linear(1, 1).parameters(), lr=2.0)
        >>> warmup_cosine(optimizer, warmup=4, steps=100).get_last_lr()
        [0.5]
    """
    return LambdaLR(optimizer, _WarmupCosine(warmup, steps))


def warmup_inverse_root(optimizer: Optimizer, size: int, warmup: int) -> LambdaLR:
    """The Transformer's learning rate: linear warm-up, then a decay as 1/√step.

    ::

        rate(step) = rate · size^−½ · min((step + 1)^−½, (step + 1) · warmup^−3⁄2)

    Args:
        optimizer: its own learning rate is the factor ``rate``, 1 in the paper.
        warmup: the steps in which the rate rises, 4,000 in the paper.

    Source: Vaswani et al. 2017, section 5.3, equation (3).
    """
    return LambdaLR(optimizer, _WarmupInverseRoot(size, warmup))


class _WarmupCosine:
    """The factor of the rate at a step.

    It is an object because a schedule's ``state_dict`` contains the numbers of objects,
    but not those of functions.
    """

    def __init__(self, warmup: int, steps: int):
        self.warmup, self.steps = warmup, steps

    def __call__(self, step: int) -> float:
        rise = (step + 1) / self.warmup
        phase = math.pi * min(step, self.steps) / self.steps
        return min(1, rise) * (1 + math.cos(phase)) / 2


class _WarmupInverseRoot:
    """The factor of the rate at a step, for the schedule without an end."""

    def __init__(self, size: int, warmup: int):
        self.size, self.warmup = size, warmup

    def __call__(self, step: int) -> float:
        return self.size**-0.5 * min((step + 1) ** -0.5, (step + 1) * self.warmup**-1.5)
