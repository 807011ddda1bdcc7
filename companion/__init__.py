"""Attention mechanisms as small, tested PyTorch modules, one file beside each chapter of the course.

Start with :class:`~companion.attention.base.Attention`: score the keys, normalise under a mask, average the values.
"""

from companion.attention import Attention, masked_softmax, record_weights

__all__ = ["Attention", "__version__", "masked_softmax", "record_weights"]
__version__ = "0.2.0"
