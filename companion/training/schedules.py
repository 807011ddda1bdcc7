"""How the learning rate goes over a training."""

import math

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR


def warmup_cosine(optimizer: Optimizer, warmup: int, steps: int) -> LambdaLR:
    """A learning rate that rises for ``warmup`` steps, and falls along half a cosine to 0 at step ``steps``.

    ::

        rate(step) = rate · min(1, (step + 1) / warmup) · (1 + cos(π step / steps)) / 2

    The product of the two is ours.

    Raises:
        ValueError: ``steps`` is below 1, or ``warmup`` does not lie between 1 and ``steps``.
    """
    if steps < 1:
        raise ValueError(f"training must take at least 1 step, not {steps}")
    if not 1 <= warmup <= steps:
        raise ValueError(f"the warm-up must take 1 to {steps} steps, not {warmup}")

    return LambdaLR(optimizer, _WarmupCosine(warmup, steps))


def warmup_inverse_root(optimizer: Optimizer, size: int, warmup: int) -> LambdaLR:
    """The Transformer's learning rate: it rises for ``warmup`` steps, then falls as 1/√step, without end.

    ::

        rate(step) = rate · size^−½ · min((step + 1)^−½, (step + 1) · warmup^−3⁄2)

    The optimiser's own rate is a factor, 1 in the paper; ``size`` is d_model. Source: Vaswani et al. 2017,
    section 5.3, equation (3), with 4,000 steps of warm-up.

    Raises:
        ValueError: ``size`` or ``warmup`` is below 1.
    """
    if min(size, warmup) < 1:
        raise ValueError(
            f"size and warm-up must be at least 1, but are {size} and {warmup}"
        )
    return LambdaLR(optimizer, _WarmupInverseRoot(size, warmup))


class _WarmupCosine:
    """The share of the rate at a step: an object, for PyTorch saves its numbers, but none of a function."""

    def __init__(self, warmup: int, steps: int):
        self.warmup, self.steps = warmup, steps

    def __call__(self, step: int) -> float:
        rise, fall = (
            (step + 1) / self.warmup,
            math.pi * min(step, self.steps) / self.steps,
        )
        return min(1, rise) * (1 + math.cos(fall)) / 2


class _WarmupInverseRoot:
    """The same kind of object for the schedule without an end."""

    def __init__(self, size: int, warmup: int):
        self.size, self.warmup = size, warmup

    def __call__(self, step: int) -> float:
        return self.size**-0.5 * min((step + 1) ** -0.5, (step + 1) * self.warmup**-1.5)
