"""Attention mechanisms as small, tested PyTorch modules, with the models that use them.

Start with :class:`~companion.attention.base.Attention`: score the keys, normalise the
scores under a mask, average the values. :mod:`companion.visualization` needs Matplotlib
and is imported by its name.
"""

from companion import attention, decoding, interop, layers, losses, models
from companion.attention import Attention, masked_softmax, record_weights

__all__ = [
    "Attention",
    "__version__",
    "attention",
    "decoding",
    "interop",
    "layers",
    "losses",
    "masked_softmax",
    "models",
    "record_weights",
]
__version__ = "2.0.0"
