"""PyTorch's FlexAttention, whose kernel is compiled from a position rule: for a GPU.

On CUDA the patterns of :mod:`companion.attention.sparse` are computed by it. The classes
here use it on every device, and for any rule. On a CPU the kernel has no gradient, and
tiles, which have one, are faster.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from companion.attention.sparse import (
    AtrousAttention,
    KernelAttention,
    SparseAttention,
)
from companion.attention.types import Mask


class FlexAttention(KernelAttention):
    """Attention under any rule, by a kernel that skips blocks of 128 × 128 scores without a visible one.

    ::

        weights_ij = softmax of q_iᵀ k_j / √d over the j that rule(i, j) and the mask allow

    A rule that spreads the keys evenly, as :func:`~companion.attention.masks.atrous`
    does, leaves no block empty and saves nothing, unless the positions are sorted, as in
    :class:`~companion.attention.sparse.AtrousAttention`. The blocks of a rule are found
    once for the same lengths, without n² memory. A mask is read for each score, so what
    it hides is computed nevertheless.

    The kernel takes seconds to compile, at the first call and again for another kind of
    rule, shape or mask; after 128 kernels PyTorch raises an error. A compiled model
    around it gets a graph break. There is no float64, and no second derivative; on a GPU,
    at least 16 features are needed. On a CPU the definition is used for fewer than 128
    keys, where the kernel of PyTorch 2.13 reads past the end of a sequence on processors
    with AVX2.

    Args:
        rule, causal: as in :class:`~companion.attention.sparse.PatternAttention`.

    Source: Dong et al. 2024 (Flex Attention).

    Example:
        >>> from companion.attention import masks
        >>> attention = FlexAttention(masks.local(1), causal=True)
        >>> x = torch.zeros(4, 16)
        >>> attention.weights(x, x)
        tensor([[1.0000, 0.0000, 0.0000, 0.0000],
                [0.5000, 0.5000, 0.0000, 0.0000],
                [0.0000, 0.5000, 0.5000, 0.0000],
                [0.0000, 0.0000, 0.5000, 0.5000]])
    """

    def compute_by_kernel(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Mask
    ) -> Tensor:
        """By FlexAttention, on every device."""
        from companion.attention.kernels import block_masks, flex  # slow to import

        if query.device.type == "cpu":
            query, key, value = _without_gradient(query, key, value)
            if key.shape[-2] < block_masks.BLOCK:
                return self.compute_both(query, key, value, mask, None)[0]
        parts = self.parts()
        if len(parts) > 1 and not flex.returns_lse(query.device):
            parts = [(self.rule, 1)]
        return flex.flex_contexts(parts, query, key, value, mask)


class FlexAtrous(FlexAttention, AtrousAttention):
    """:class:`~companion.attention.sparse.AtrousAttention`, by FlexAttention on every device.

    Args:
        rate, causal: as there.

    Example:
        >>> x = torch.zeros(4, 16)
        >>> FlexAtrous(rate=2).weights(x, x)[0]
        tensor([0.5000, 0.0000, 0.5000, 0.0000])
    """


class FlexSparse(FlexAttention, SparseAttention):
    """:class:`~companion.attention.sparse.SparseAttention`, by FlexAttention on every device.

    On a CPU, where the kernel does not return the log-sum-exp that merges two calls, one
    call computes all blocks.

    Args:
        radius, rate, causal: as there.

    Example:
        >>> x = torch.zeros(6, 16)
        >>> FlexSparse(radius=1, rate=2).weights(x, x)[0]
        tensor([0.2500, 0.2500, 0.2500, 0.0000, 0.2500, 0.0000])
    """


def _without_gradient(*inputs: Tensor) -> Iterator[Tensor]:
    """The same tensors, detached, if no gradient is needed."""
    if torch.is_grad_enabled() and any(x.requires_grad for x in inputs):
        raise NotImplementedError(
            "FlexAttention has no gradient on a CPU, but LocalAttention, AtrousAttention and "
            "SparseAttention have"
        )
    return (x.detach() for x in inputs)
