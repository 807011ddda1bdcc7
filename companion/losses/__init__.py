"""Losses to minimise: the cross-entropy of tokens, and REINFORCE for hard attention."""

from companion.losses.reinforce import (
    MovingBaseline,
    doubly_stochastic_penalty,
    reinforce_loss,
    reward_to_go,
)
from companion.losses.tokens import Loss, to_float32, token_loss

__all__ = [
    "Loss",
    "MovingBaseline",
    "doubly_stochastic_penalty",
    "reinforce_loss",
    "reward_to_go",
    "to_float32",
    "token_loss",
]
