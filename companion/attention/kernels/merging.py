"""Scaled dot-product attention over groups of tiles: one softmax, of which no scores are kept."""

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from companion.attention.base import at_least_float32
from companion.attention.kernels.tiling import Tiles

# Private to PyTorch, so they may be missing; plain operations then replace them.
_FLASH = "_scaled_dot_product_flash_attention_for_cpu"
_flash: Any = getattr(torch.ops.aten, _FLASH, None)
_flash_backward: Any = getattr(torch.ops.aten, _FLASH + "_backward", None)

#: Tiles, and what is added to their scores, which is 0, or −∞ where a key is masked.
BiasedTiles = tuple[Tiles, Float[Tensor, "_ _ _ _"] | None]


class MergedAttention(torch.autograd.Function):
    """One softmax over the keys of all tile groups; no pair of positions may be in two groups.

    Each group computes its contexts and the logarithm of its softmax's denominator. Two
    groups are merged by::

        lse = log(exp lse_1 + exp lse_2)
        context = exp(lse_1 − lse) context_1 + exp(lse_2 − lse) context_2

    For the gradient, all tiles compute their weights again, as exp(score − lse) with the
    merged ``lse``. Only inputs, contexts and ``lse`` are kept. As with PyTorch's fused
    kernels, the gradient can be taken once.

    Source: Dao et al. 2022, section 3.1.
    Deviation: the paper merges blocks one by one; each group is computed first and merged as a whole.
    """

    @staticmethod
    def forward(
        ctx: Any,
        query: Float[Tensor, "b q d"],
        key: Float[Tensor, "b k d"],
        value: Float[Tensor, "b k v"],
        groups: Sequence[Sequence[BiasedTiles]],
    ) -> Float[Tensor, "b q v"]:
        """The contexts of all queries; every group holds each of them once."""
        context, lse = attend_groups(query, key, value, groups)
        ctx.tiles, biases = zip(*(x for group in groups for x in group), strict=True)
        ctx.save_for_backward(query, key, value, context, lse, *biases)
        return context

    @staticmethod
    def backward(
        ctx: Any, gradient: Float[Tensor, "b q v"]
    ) -> tuple[Tensor | None, ...]:
        """The gradients of query, key and value."""
        query, key, value, context, lse, *biases = ctx.saved_tensors
        tiles = list(zip(ctx.tiles, biases, strict=True))
        inputs = (query, key, value, context, lse)
        return *_Gradients.apply(gradient, *inputs, tiles), None


class _Gradients(torch.autograd.Function):
    """The gradients of query, key and value, which depend on all three, but have no gradient.

    PyTorch's ``once_differentiable`` would take those of a linear loss for constants.
    """

    @staticmethod
    def forward(
        ctx: Any, *inputs: Any
    ) -> tuple[Float[Tensor, "b q d"], Float[Tensor, "b k d"], Float[Tensor, "b k v"]]:
        """As :func:`attend_groups_backward`."""
        return attend_groups_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> None:
        """Refuse what would be the second derivative."""
        raise RuntimeError(
            "attention by tiles has no second derivative: PatternAttention with the same rule "
            "has one, by its weights"
        )


def attend_groups(
    query: Tensor, key: Tensor, value: Tensor, groups: Sequence[Sequence[BiasedTiles]]
) -> tuple[Tensor, Tensor]:
    """The contexts, and the merged ``lse``, 0 in place of −∞."""
    (context, lse), *others = (
        _attend_group(group, query, key, value) for group in groups
    )
    for other, other_lse in others:
        weight = (other_lse - lse).sigmoid().masked_fill(other_lse == -torch.inf, 0)
        context.lerp_(other, weight.to(context.dtype))
        lse = torch.logaddexp(lse, other_lse)
    return context, _finite(lse)


def empty_results(query: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """Room for the contexts and the ``lse`` of all queries, the latter in 32 bits at least."""
    wide = torch.promote_types(query.dtype, torch.float32)
    context = query.new_empty(*query.shape[:-1], value.shape[-1])
    return context, query.new_empty(*query.shape[:-1], 1, dtype=wide)


def attend_groups_backward(
    gradient: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    context: Tensor,
    lse: Tensor,
    tiles: Iterable[BiasedTiles],
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of all tiles, added at the positions they were cut from."""
    totals = torch.zeros_like(query), torch.zeros_like(key), torch.zeros_like(value)
    for (queries, keys), bias in tiles:
        gradients = tile_attention_backward(
            queries.cut(gradient),
            queries.cut(context),
            queries.cut(lse),
            queries.cut(query),
            keys.cut(key),
            keys.cut(value),
            bias,
        )
        for total, cut, part in zip(
            totals, (queries, keys, keys), gradients, strict=True
        ):
            cut.add(total, part)
    return totals


def _attend_group(
    group: Sequence[BiasedTiles], query: Tensor, key: Tensor, value: Tensor
) -> tuple[Tensor, Tensor]:
    """The contexts and ``lse`` of one group, at the positions of their queries."""
    context, lse = empty_results(query, value)
    for (queries, keys), bias in group:
        tile_context, tile_lse = tile_attention(
            queries.cut(query), keys.cut(key), keys.cut(value), bias
        )
        queries.put(context, tile_context)
        queries.put(lse, tile_lse)
    return context, lse


def tile_attention(
    query: Float[Tensor, "b t l d"],
    key: Float[Tensor, "b t w d"],
    value: Float[Tensor, "b t w v"],
    bias: Float[Tensor, "#b #t #l w"] | None,
) -> tuple[Float[Tensor, "b t l v"], Float[Tensor, "b t l 1"]]:
    """Scaled dot-product attention in each of t tiles, with its log-sum-exp.

    ::

        score_ij = q_iᵀ k_j / √d + bias_ij,   lse_i = log Σ_j exp(score_ij)
        context_i = Σ_j exp(score_ij − lse_i) v_j,   or zero where every key is masked

    On a CPU it is the kernel behind PyTorch's ``scaled_dot_product_attention``, which
    does not return ``lse``.
    """
    if _uses_flash(query, value):
        context, lse = _flash(query, key, value, attn_mask=bias)
        if bias is not None:  # for a fully masked query the kernel returns 0
            lse = lse.masked_fill(bias.amax(-1) == -torch.inf, -torch.inf)
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
    """The gradients of query, key and value of each tile.

    ::

        weight_ij = exp(score_ij − lse_i),   ∂score_ij = weight_ij ∂context_iᵀ (v_j − context_i)

    ``context`` and ``lse`` may include keys of other tiles.

    Source: Dao et al. 2022, appendix B.2.
    """
    if _uses_flash(query, value):
        inputs = (gradient, query, key, value, context, lse.squeeze(-1))
        return _flash_backward(*inputs, 0.0, False, attn_mask=bias)
    weights = _weights(_scores(query, key, bias), lse)
    # The difference of the two products may be tiny.
    wide = gradient.to(weights.dtype)
    inner = (wide * context).sum(-1, keepdim=True)
    to_weights = wide @ value.to(wide.dtype).mT - inner
    to_scores = weights * to_weights * query.shape[-1] ** -0.5
    weights, to_scores = weights.to(value.dtype), to_scores.to(query.dtype)
    return to_scores @ key, to_scores.mT @ query, weights.mT @ gradient


def _uses_flash(query: Tensor, value: Tensor) -> bool:
    """Whether the kernel is there and computes these: on a CPU, with values of the query's size."""
    available = _flash is not None and _flash_backward is not None
    on_cpu = query.device.type == "cpu"
    return available and on_cpu and query.shape[-1] == value.shape[-1]


def _scores(query: Tensor, key: Tensor, bias: Tensor | None) -> Tensor:
    query, key = at_least_float32(query), at_least_float32(key)
    scores = (query * query.shape[-1] ** -0.5) @ key.mT
    return scores if bias is None else scores + bias


def _weights(scores: Tensor, lse: Tensor) -> Tensor:
    return (scores - _finite(lse)).exp()


def _finite(lse: Tensor) -> Tensor:
    """0 in place of −∞, where every key is masked, so that exp(−∞ − lse) is zero and not NaN."""
    return lse.masked_fill(lse == -torch.inf, 0)
