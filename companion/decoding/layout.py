"""The memory layout of weights that decoding on a CPU reads fastest."""

from typing import TypeVar

import torch
from torch import nn

_Model = TypeVar("_Model", bound=nn.Module)


@torch.no_grad()
def for_inference(model: _Model) -> _Model:
    """Store the matrices of a trained model's linear layers input by input.

    A decoding step multiplies a few rows with large matrices. PyTorch stores a matrix of
    ``nn.Linear`` output by output, for which CPU libraries need up to twice as long.
    Names, shapes and values stay as they are; sums may differ in their last digits, those
    of later training too.

    Args:
        model: any model; it is changed in place.

    Returns:
        The same model.

    Example:
        >>> model = for_inference(nn.Linear(3, 5))
        >>> model.weight.shape, model.weight.stride()
        (torch.Size([5, 3]), (1, 5))
    """
    for module in model.modules():
        if isinstance(module, nn.Linear):
            module.weight.data = module.weight.data.mT.contiguous().mT
    return model
