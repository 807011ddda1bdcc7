"""Whether PyTorch traces or transforms tensors now, so that their numbers cannot be read."""

import torch
from torch import Tensor
from torch._subclasses import FakeTensor


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


def is_traced() -> bool:
    """Whether what is computed now is recorded in a graph, to be run with other numbers."""
    if torch.compiler.is_compiling():
        return True
    make_fx = torch._C._TorchDispatchModeKey.PROXY
    return torch._C._get_dispatch_mode(make_fx) is not None


def without_data(x: Tensor) -> bool:
    """Whether a tensor is a shape alone: on the meta device or fake, and not traced."""
    return not is_traced() and (x.is_meta or isinstance(x, FakeTensor))


def has_numbers(x: Tensor) -> bool:
    """Whether a tensor has numbers of its own: with data, in no graph and no ``vmap``."""
    return not (is_traced() or without_data(x) or in_vmap(x))


def readable(x: Tensor) -> bool:
    """Whether a tensor's numbers can be read at once, without waiting for a device."""
    return x.device.type == "cpu" and has_numbers(x)
