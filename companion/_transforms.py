"""Whether PyTorch traces or transforms tensors now, so that their numbers cannot be read."""

import torch
from torch import Tensor


def functorch_is_active() -> bool:
    """Whether a ``torch.func`` transform is active."""
    return torch._C._are_functorch_transforms_active()


def in_transform() -> bool:
    """Whether tensors made now belong to a compiled graph or a ``torch.func`` transform."""
    return torch.compiler.is_compiling() or functorch_is_active()


def in_vmap(x: Tensor) -> bool:
    """Whether a tensor is one row of a ``vmap``, whose numbers cannot be read."""
    functorch = torch._C._functorch
    while functorch.is_functorch_wrapped_tensor(x):
        if functorch.is_batchedtensor(x):
            return True
        x = functorch.get_unwrapped(x)
    return False


def readable(x: Tensor) -> bool:
    """Whether a tensor's numbers can be read at once: on a CPU, in no graph and no ``vmap``."""
    return (
        x.device.type == "cpu" and not torch.compiler.is_compiling() and not in_vmap(x)
    )
