"""The mechanisms as functions of tensors: what the modules compute with their parameters."""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from companion._checks import (
    check_inputs,
    check_last_positions,
    check_same_features,
    score_shape,
)
from companion._transforms import readable
from companion.attention.base import at_least_float32, precise_matmul
from companion.attention.types import Mask


def dot_product_attention(
    query: Float[Tensor, "*b q d"],
    key: Float[Tensor, "*b k d"],
    value: Float[Tensor, "*b k v"],
    mask: Mask = None,
    scale: float | None = None,
    causal: bool = False,
) -> Float[Tensor, "*b q v"]:
    """Scaled dot-product attention by PyTorch's fused kernels, which store no weights.

    ::

        context_i = Σ_j softmax_j(scale · q_iᵀ k_j) v_j

    The context of a query for which every key is masked is zero.

    Args:
        query, key, value: the leading axes are the batch, and the heads.
        mask: as in :func:`~companion.attention.base.masked_softmax`.
        scale: 1/√d by default.
        causal: no query attends to a later key; the queries are the last positions of
            the keys. It is an alternative to a mask.

    Source: Vaswani et al. 2017, section 3.2.1, equation (1).

    Example:
        >>> x = torch.randn(2, 5, 8)
        >>> dot_product_attention(x, x, x, causal=True).shape
        torch.Size([2, 5, 8])
    """
    check_inputs(query, key, value, mask)
    return fused_attention(query, key, value, mask, scale, causal)


def fused_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Mask = None,
    scale: float | None = None,
    causal: bool = False,
    dropout: float = 0.0,
) -> Tensor:
    """:func:`dot_product_attention` of inputs that were checked already, with dropout."""
    check_same_features(query, key)
    if causal:
        return _causal(query, key, value, mask, scale, dropout)
    if mask is None or query.device.type == "cpu":
        # On a CPU the kernels give zero where every key is masked.
        return _fused(query, key, value, mask, scale, dropout)
    empty = ~mask.any(-1, keepdim=True)  # other kernels differ on such a row
    context = _fused(query, key, value, mask | empty, scale, dropout)
    return context.masked_fill(empty, 0)


def _causal(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Mask,
    scale: float | None,
    dropout: float,
) -> Tensor:
    """Causal attention, with the mask that the kernel needs at most."""
    queries, keys = query.shape[-2], key.shape[-2]
    if mask is not None:
        raise ValueError(
            f"causal attention takes no mask, but there is one of shape {tuple(mask.shape)}"
        )
    check_last_positions(queries, keys)
    if queries == 1:  # the last position attends to every key
        return _fused(query, key, value, None, scale, dropout)
    if queries == keys:
        return _fused(query, key, value, None, scale, dropout, causal=True)
    ones = torch.ones(queries, keys, dtype=torch.bool, device=query.device)
    return _fused(query, key, value, ones.tril(keys - queries), scale, dropout)


def _fused(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Mask,
    scale: float | None,
    dropout: float,
    causal: bool = False,
) -> Tensor:
    """PyTorch's operation, whose kernels are fused only if there are four axes."""
    mask = None if mask is None else _four_axes(mask)
    # To one query and an empty batch PyTorch gives one context instead of none.
    if query.shape[:-2] != key.shape[:-2] and 0 in key.shape[:-2]:
        query = query.expand(*score_shape(query, key)[:-2], *query.shape[-2:])
    axes = max(query.ndim, key.ndim, value.ndim)
    if min(query.ndim, key.ndim, value.ndim) < 4:
        query, key, value = _four_axes(query), _four_axes(key), _four_axes(value)
    context = scaled_dot_product_attention(
        query, key, value, mask, dropout, causal, scale=scale
    )
    return context if axes >= 4 else context.flatten(0, 4 - axes)


def _four_axes(x: Tensor) -> Tensor:
    """At least four axes. Leading ones are added and not expanded, which would cost a copy."""
    return x if x.ndim >= 4 else x[(None,) * (4 - x.ndim)]


def additive_scores(
    query: Float[Tensor, "*b q h"], key: Float[Tensor, "*b k h"], v: Float[Tensor, " h"]
) -> Float[Tensor, "*b q k"]:
    """Additive scores of projected queries and keys.

    ::

        e_ij = vᵀ tanh(query_i + key_j)

    Args:
        query, key: vectors of the same size h, already projected.
        v: the vector that makes a score of each sum.

    Source: Bahdanau et al. 2015, appendix A.1.2, where the query is W_a s_{i−1} and the
    key U_a h_j.

    Example:
        >>> additive_scores(torch.zeros(3, 4), torch.zeros(5, 4), torch.ones(4)).shape
        torch.Size([3, 5])
    """
    check_same_features(query, key)
    query, key = at_least_float32(query), at_least_float32(key)
    hidden = torch.tanh_(query.unsqueeze(-2) + key.unsqueeze(-3))  # (*b, q, k, h)
    return precise_matmul(hidden, v)


def cosine_scores(
    query: Float[Tensor, "*b q d"], key: Float[Tensor, "*b k d"]
) -> Float[Tensor, "*b q k"]:
    """The cosine of the angle between each query and each key; 0 for a vector of zeros.

    Example:
        >>> cosine_scores(torch.tensor([[3.0, 0.0]]), torch.tensor([[0.0, 2.0], [5.0, 0.0]]))
        tensor([[0., 1.]])
    """
    query, key = at_least_float32(query), at_least_float32(key)
    return precise_matmul(unit(query), unit(key).mT)


def unit(vectors: Float[Tensor, "*b n d"]) -> Float[Tensor, "*b n d"]:
    """Each vector divided by its norm. Zeros stay zeros, and their gradient is zero.

    Example:
        >>> unit(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
        tensor([[0.6000, 0.8000],
                [0.0000, 0.0000]])
    """
    norm = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
    # Where squares over- or underflow, the vector is first divided by its largest number.
    huge = torch.finfo(norm.dtype).max ** 0.4
    if not _all_between(norm.detach(), 1 / huge, huge):
        largest = vectors.detach().abs().amax(-1, keepdim=True)
        usual = (norm > 1 / huge) & (norm < huge) | (largest == 0)
        vectors = vectors / largest.masked_fill(usual, 1)
        norm = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
    return vectors / norm.masked_fill(norm == 0, torch.inf)


def _all_between(x: Tensor, low: float, high: float) -> bool:
    """Whether all numbers are known to be between two limits."""
    if not readable(x) or not x.numel():
        return False
    smallest, largest = x.aminmax()
    return low < float(smallest) and float(largest) < high
