"""Scaled dot-product attention over keys that are looked at in parts: one softmax, and no scores are kept."""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from companion.attention.kernels.tiling import Tiles

TilePartition = Sequence[Tiles]  #: pieces that hold each query once


class MergedAttention(torch.autograd.Function):
    """One softmax over the keys of all parts. No key of a query may be in two of them.

    Each part gives its contexts, and the logarithm of what its softmax divided by. Two parts become one by::

        lse = log(exp lse_1 + exp lse_2),   context = exp(lse_1 − lse) context_1 + exp(lse_2 − lse) context_2

    For the gradient each piece computes its weights anew, exp(score − lse) from the common ``lse``: nothing
    but inputs, contexts and ``lse`` is kept. Like the fused kernels, it can be differentiated once. Source:
    Dao et al. 2022, section 3.1, where the parts come one after the other.
    """

    @staticmethod
    def forward(
        ctx: Any,
        query: Float[Tensor, "b q d"],
        key: Float[Tensor, "b k d"],
        value: Float[Tensor, "b k v"],
        parts: Sequence[TilePartition],
        *biases: Float[Tensor, "_ _ _ _"] | None,
    ) -> Float[Tensor, "b q v"]:
        """The contexts; each piece, in the order of the parts, has a bias: 0, or −∞ where it may not look."""
        remaining = iter(biases)
        (context, lse), *others = (
            _attend_group(part, query, key, value, remaining) for part in parts
        )
        for other, other_lse in others:
            share = (other_lse - lse).sigmoid().masked_fill(other_lse == -torch.inf, 0)
            context.lerp_(other, share.to(context.dtype))
            lse = torch.logaddexp(lse, other_lse)
        ctx.save_for_backward(query, key, value, context, _finite(lse), *biases)
        ctx.pieces = [piece for part in parts for piece in part]
        return context

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, gradient: Float[Tensor, "b q v"]
    ) -> tuple[Tensor | None, ...]:
        """What each piece gives to query, key and value, added where it was cut from."""
        query, key, value, context, lse, *biases = ctx.saved_tensors
        found = tuple(torch.zeros_like(x) for x in (query, key, value))
        for (queries, keys), bias in zip(ctx.pieces, biases, strict=True):
            upon = (
                queries.cut(gradient),
                queries.cut(context),
                queries.cut(lse),
                queries.cut(query),
            )
            gradients = tile_attention_backward(
                *upon, keys.cut(key), keys.cut(value), bias
            )
            for x, cut, part in zip(
                found, (queries, keys, keys), gradients, strict=True
            ):
                cut.add(x, part)
        return *found, None, *(None for _ in biases)


def _attend_group(
    part: TilePartition, query: Tensor, key: Tensor, value: Tensor, biases: Any
) -> tuple[Tensor, Tensor]:
    """The contexts and ``lse`` of one part, each piece's where its queries were cut from."""
    wide = torch.promote_types(query.dtype, torch.float32)
    context = query.new_empty(*query.shape[:-1], value.shape[-1])
    lse = query.new_empty(*query.shape[:-1], 1, dtype=wide)
    for queries, keys in part:
        pieces = tile_attention(
            queries.cut(query), keys.cut(key), keys.cut(value), next(biases)
        )
        queries.put(context, pieces[0])
        queries.put(lse, pieces[1])
    return context, lse


def tile_attention(
    query: Float[Tensor, "b t l d"],
    key: Float[Tensor, "b t w d"],
    value: Float[Tensor, "b t w v"],
    bias: Float[Tensor, "#b #t #l w"] | None,
) -> tuple[Float[Tensor, "b t l v"], Float[Tensor, "b t l 1"]]:
    """Many small attentions at once.

    ::

        score_ij = q_iᵀ k_j / √d + bias_ij,   lse_i = log Σ_j exp(score_ij)
        context_i = Σ_j exp(score_ij − lse_i) v_j,   or zero where no key is seen

    On a CPU it is the kernel of PyTorch's ``scaled_dot_product_attention``, which does not give ``lse`` away.
    """
    if _fused(query, value):
        kernel = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
        context, lse = kernel(query, key, value, attn_mask=bias)
        if bias is not None:
            lse = lse.masked_fill(
                bias.amax(-1) == -torch.inf, -torch.inf
            )  # the kernel leaves 0
        return context, lse.unsqueeze(-1)
    scores = _scores(query, key, bias)
    lse = scores.logsumexp(-1, keepdim=True)
    return _weights(scores, lse).to(value.dtype) @ value, lse


def tile_attention_backward(
    gradient: Float[Tensor, "b t l v"],
    context: Float[Tensor, "b t l v"],
    lse: Float[Tensor, "b t l 1"],
    query: Float[Tensor, "b t l d"],
    key: Float[Tensor, "b t w d"],
    value: Float[Tensor, "b t w v"],
    bias: Float[Tensor, "#b #t #l w"] | None,
) -> tuple[
    Float[Tensor, "b t l d"], Float[Tensor, "b t w d"], Float[Tensor, "b t w v"]
]:
    """The gradients of query, key and value. ``context`` and ``lse`` may be of more keys than are here.

    ::

        weight_ij = exp(score_ij − lse_i),   ∂score_ij = weight_ij ∂context_iᵀ (v_j − context_i)

    Source: Dao et al. 2022, appendix B.2.
    """
    if _fused(query, value):
        kernel = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward
        return kernel(
            gradient,
            query,
            key,
            value,
            context,
            lse.squeeze(-1),
            0.0,
            False,
            attn_mask=bias,
        )
    weights = _weights(_scores(query, key, bias), lse)
    wide = gradient.to(
        weights.dtype
    )  # the difference of two products may be tiny, or 0
    inner = (wide * context).sum(-1, keepdim=True)
    to_scores = (
        weights * (wide @ value.to(wide.dtype).mT - inner) * query.shape[-1] ** -0.5
    )
    weights, to_scores = weights.to(value.dtype), to_scores.to(query.dtype)
    return to_scores @ key, to_scores.mT @ query, weights.mT @ gradient


def _fused(query: Tensor, value: Tensor) -> bool:
    return query.device.type == "cpu" and query.shape[-1] == value.shape[-1]


def _scores(query: Tensor, key: Tensor, bias: Tensor | None) -> Tensor:
    wide = torch.promote_types(query.dtype, torch.float32)
    scores = (query.to(wide) * query.shape[-1] ** -0.5) @ key.to(wide).mT
    return scores if bias is None else scores + bias


def _weights(scores: Tensor, lse: Tensor) -> Tensor:
    return (scores - _finite(lse)).exp()


def _finite(lse: Tensor) -> Tensor:
    """With 0 for a query that sees no key, so that exp(−∞ − lse) is zero and not NaN."""
    return lse.masked_fill(lse == -torch.inf, 0)
