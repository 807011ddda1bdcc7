"""The memory layout of weights that decoding on a CPU reads fastest."""

import torch
from torch import nn


@torch.no_grad()
def for_inference(model: nn.Module) -> None:
    """Store the matrices of a trained model's linear layers input by input.

    A decoding step multiplies a few rows with large matrices. PyTorch stores a matrix of
    ``nn.Linear`` output by output, for which CPU libraries need up to twice as long.
    Names, shapes and values stay as they are; sums may differ in their last digits, those
    of later training too.

    Args:
        model: any model; it is changed in place.

    Example:
        >>> model = nn.Linear(3, 5)
        >>> for_inference(model)
        >>> model.weight.shape, model.weight.stride()
        (torch.Size([5, 3]), (1, 5))
    """
    for module in model.modules():
        if isinstance(module, nn.Linear):
            module.weight.data = module.weight.data.mT.contiguous().mT
