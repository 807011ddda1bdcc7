"""Attention mechanisms as small, tested PyTorch modules, with the models that use them.

Start with :class:`~companion.attention.base.Attention`: score the keys, normalise the
scores under a mask, average the values.
"""

from companion.attention import Attention, masked_softmax, record_weights

__all__ = ["Attention", "__version__", "masked_softmax", "record_weights"]
__version__ = "1.0.0"
