"""How the learning rate goes over a training."""

import math

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR


def warmup_cosine(optimizer: Optimizer, warmup: int, steps: int) -> LambdaLR:
    """A learning rate that rises for ``warmup`` steps, and falls along half a cosine to 0 at step ``steps``.

    ::

        rate(step) = rate · min(1, (step + 1) / warmup) · (1 + cos(π step / steps)) / 2

    Raises:
        ValueError: ``steps`` is below 1, or ``warmup`` does not lie between 1 and ``steps``.
    """
    if steps < 1:
        raise ValueError(f"training must take at least 1 step, not {steps}")
    if not 1 <= warmup <= steps:
        raise ValueError(f"the warm-up must take 1 to {steps} steps, not {warmup}")

    return LambdaLR(optimizer, _WarmupCosine(warmup, steps))


class _WarmupCosine:
    """The share of the rate at a step: an object, for PyTorch saves its numbers, but none of a function."""

    def __init__(self, warmup: int, steps: int):
        self.warmup, self.steps = warmup, steps

    def __call__(self, step: int) -> float:
        rise, fall = (step + 1) / self.warmup, math.pi * min(step, self.steps) / self.steps
        return min(1, rise) * (1 + math.cos(fall)) / 2
