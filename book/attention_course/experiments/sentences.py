"""Test sentences with their translations and attention weights, as results hold them."""

import base64
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

TEXTS = ("source", "reference", "greedy", "beam")  #: tokens with spaces between them


def packed(weights: Float[Tensor, "l h t k"]) -> dict[str, Any]:
    """Weights as bytes, rounded to multiples of 1/255, in base 64."""
    levels = (weights * 255).round().to(torch.uint8)
    return {
        "shape": list(weights.shape),
        "base64": base64.b64encode(bytes(levels.flatten().tolist())).decode(),
    }


def weights_of(sentence: dict[str, Any]) -> Float[Tensor, "l h t k"] | None:
    """The weights of a sentence's greedy translation: layers, heads, target, source.

    The last row of the target is the end of the sentence.
    """
    stored = sentence["weights"]
    if stored is None:
        return None
    levels = base64.b64decode(stored["base64"])
    return torch.tensor(list(levels)).view(stored["shape"]) / 255
