"""Linear attention (Katharopoulos et al. 2020): time proportional to the length, and three equal forms."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad

from companion._checks import check_no_dropout, check_positive, check_same_positions
from companion.attention import masks
from companion.attention.base import Attention, at_least_float32, without_autocast
from companion.attention.matrix_state import (
    MatrixAttention,
    is_padding,
    masked_features,
)
from companion.attention.types import Mask, Positions

#: A function that makes features of queries or keys, none of them negative.
FeatureMap = Callable[[Tensor], Tensor]


def elu_features(x: Float[Tensor, "*b d"]) -> Float[Tensor, "*b d"]:
    """The feature map of the paper, positive everywhere: x + 1 above 0, exp(x) below.

    ::

        φ(x) = elu(x) + 1

    Args:
        x: queries or keys.

    Source: Katharopoulos et al. 2020, equation (7).

    Example:
        >>> elu_features(torch.tensor([-1.0, 0.0, 2.0]))
        tensor([0.3679, 1.0000, 3.0000])
    """
    return x.relu() + x.clamp(max=0).exp()


class LinearState(NamedTuple):
    """The state of causal linear attention: a matrix and a vector, however long the past.

    ::

        S = Σ_j φ(k_j) v_jᵀ,   z = Σ_j φ(k_j)

    ``seen`` is how many positions there were.
    """

    S: Float[Tensor, "b *h d v"]
    z: Float[Tensor, "b *h d"]
    seen: Int[Tensor, " b"]


def linear_attention(
    query: Float[Tensor, "*b q d"],
    key: Float[Tensor, "*b k d"],
    value: Float[Tensor, "*b k v"],
) -> Float[Tensor, "*b q v"]:
    """Linear attention of every query to every key; the sums over the keys are made once.

    ::

        c_i = φ(q_i)ᵀ S / φ(q_i)ᵀ z,   S = Σ_j φ(k_j) v_jᵀ,   z = Σ_j φ(k_j)

    Args:
        query, key: features φ(q) and φ(k), none of them negative, as in all functions
            here. A key of zeros does not count, and without any other the context is zero.

    Source: Katharopoulos et al. 2020, equation (5).

    Example:
        >>> x = torch.rand(1, 5, 8)
        >>> linear_attention(x, x, x).shape
        torch.Size([1, 5, 8])
    """
    return ratio(query @ (key.mT @ value), query @ key.sum(-2).unsqueeze(-1))


def parallel_linear_attention(
    query: Float[Tensor, "*b n d"],
    key: Float[Tensor, "*b n d"],
    value: Float[Tensor, "*b n v"],
) -> Float[Tensor, "*b n v"]:
    """Causal linear attention, all positions at once: n² products, as in other attention.

    ::

        c_i = Σ_(j ≤ i) (φ(q_i)ᵀ φ(k_j)) v_j / Σ_(j ≤ i) φ(q_i)ᵀ φ(k_j)

    Query, key and value are as in :func:`linear_attention`.

    Source: Katharopoulos et al. 2020, equation (8).

    Example:
        >>> x = torch.rand(1, 5, 8)
        >>> parallel_linear_attention(x, x, x).shape
        torch.Size([1, 5, 8])
    """
    check_same_positions(query, key, value)
    products = (query @ key.mT).tril()  # (*b, n, n)
    return ratio(products @ value, products.sum(-1, keepdim=True))


def recurrent_linear_attention(
    query: Float[Tensor, "*b n d"],
    key: Float[Tensor, "*b n d"],
    value: Float[Tensor, "*b n v"],
    S: Float[Tensor, "*b d v"] | None = None,
    z: Float[Tensor, "*b d"] | None = None,
) -> tuple[Float[Tensor, "*b n v"], Float[Tensor, "*b d v"], Float[Tensor, "*b d"]]:
    """Causal linear attention position by position: a recurrent network whose state is a matrix.

    ::

        S_i = S_(i−1) + φ(k_i) v_iᵀ,   z_i = z_(i−1) + φ(k_i),   c_i = φ(q_i)ᵀ S_i / φ(q_i)ᵀ z_i

    Query, key and value are as in :func:`linear_attention`. S and z are the sums over
    earlier positions, zero by default. What is returned are the contexts, and the sums
    after the last position.

    Source: Katharopoulos et al. 2020, equations (16) to (20).

    Example:
        >>> x = torch.rand(1, 5, 8)
        >>> contexts, S, z = recurrent_linear_attention(x, x, x)
        >>> contexts.shape, S.shape
        (torch.Size([1, 5, 8]), torch.Size([1, 8, 8]))
    """
    S, z = _earlier_sums(query, key, value, S, z)
    contexts = [value[..., :0, :]]
    for i in range(query.shape[-2]):
        q, k, v = (x[..., i : i + 1, :] for x in (query, key, value))  # (*b, 1, …)
        S, z = S + k.mT @ v, z + k.squeeze(-2)
        contexts.append(ratio(q @ S, q @ z.unsqueeze(-1)))
    return torch.cat(contexts, -2), S, z


def chunked_linear_attention(
    query: Float[Tensor, "*b n d"],
    key: Float[Tensor, "*#b n d"],
    value: Float[Tensor, "*#b n v"],
    chunk: int = 64,
    S: Float[Tensor, "*#b d v"] | None = None,
    z: Float[Tensor, "*#b d"] | None = None,
) -> tuple[Float[Tensor, "*b n v"], Float[Tensor, "*#b d v"], Float[Tensor, "*#b d"]]:
    """Causal linear attention in chunks: parallel inside a chunk, sums from one to the next.

    ::

        c_i ∝ φ(q_i)ᵀ S_before + Σ_(j ≤ i, in the chunk) (φ(q_i)ᵀ φ(k_j)) v_j

    where S_before is the sum over all earlier chunks. Time grows with n · chunk, and all
    chunks are computed at once.

    Query, key and value, S and z, and what is returned are as in
    :func:`recurrent_linear_attention`. An axis of the batch may have size 1 for keys and
    values, which several queries then share.

    Source: Hua et al. 2022 (FLASH), *mixed chunk attention*, of which this is the linear
    part; Yang et al. 2024 (gated linear attention), *chunkwise parallel form*.

    Example:
        >>> x = torch.rand(1, 5, 8)
        >>> contexts, S, z = chunked_linear_attention(x, x, x, chunk=2)
        >>> torch.allclose(contexts, parallel_linear_attention(x, x, x))
        True
    """
    check_positive(chunk=chunk)
    S, z = _earlier_sums(query, key, value, S, z)
    length = query.shape[-2]
    q, k, v = (in_chunks(x, chunk) for x in (query, key, value))  # (*b, t, c, …)
    sums_S = torch.cat([S.unsqueeze(-3), k.mT @ v], -3).cumsum(-3)  # (*b, t + 1, d, v)
    sums_z = torch.cat([z.unsqueeze(-2), k.sum(-2)], -2).cumsum(-2)  # (*b, t + 1, d)
    products = (q @ k.mT).tril()  # (*b, t, c, c)
    above = q @ sums_S[..., :-1, :, :] + products @ v
    below = q @ sums_z[..., :-1, :].unsqueeze(-1) + products.sum(-1, keepdim=True)
    contexts = ratio(above, below).flatten(-3, -2)[..., :length, :]
    return contexts, sums_S[..., -1, :, :], sums_z[..., -1, :]


def _earlier_sums(
    query: Tensor, key: Tensor, value: Tensor, S: Tensor | None, z: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The sums over earlier positions, zero where there are none."""
    check_same_positions(query, key, value)
    *batch, _, size = key.shape
    S = key.new_zeros(*batch, size, value.shape[-1]) if S is None else S
    z = key.new_zeros(*batch, size) if z is None else z
    return S, z


def in_chunks(x: Float[Tensor, "*b n d"], chunk: int) -> Float[Tensor, "*b t c d"]:
    """The positions in rows of ``chunk``, the last one filled with zeros."""
    rest = -x.shape[-2] % chunk
    x = pad(x, (0, 0, 0, rest)) if rest else x  # which would copy it for no zeros, too
    return x.unflatten(-2, (-1, chunk))


def ratio(
    above: Float[Tensor, "*b n v"], below: Float[Tensor, "*b n 1"]
) -> Float[Tensor, "*b n v"]:
    """A weighted sum divided by its weights; zero where all weights are zero."""
    empty = below == 0
    return (above / below.masked_fill(empty, 1)).masked_fill(empty, 0)


class LinearAttention(Attention):
    """Attention whose weights are products of features, so that no pair needs a score.

    ::

        α_ij = φ(q_i)ᵀ φ(k_j) / Σ_l φ(q_i)ᵀ φ(k_l)

    The exponential of softmax attention is gone, and Σ_j α_ij v_j can be computed from one
    sum over the keys for all queries (:func:`linear_attention`). In the terms of
    :class:`~companion.attention.base.Attention`, the score is the logarithm of a product.
    Where all products of a query are zero, so are its weights and its context.
    A mask that is not the same for all queries needs the definition, with n² products.

    Args:
        feature_map: φ; ``elu(x) + 1`` by default. No feature may be negative.

    Source: Katharopoulos et al. 2020, section 3.2.

    Example:
        >>> attention, source = LinearAttention(), torch.randn(2, 5, 8)
        >>> attention(torch.randn(2, 3, 8), *attention.project(source)).shape
        torch.Size([2, 3, 8])
    """

    def __init__(self, feature_map: FeatureMap = elu_features):
        super().__init__()
        self.feature_map = feature_map

    def score(
        self, query: Float[Tensor, "*b q d"], key: Float[Tensor, "*b k e"]
    ) -> Float[Tensor, "*b q k"]:
        """``log φ(q_i)ᵀ φ(k_j)``; a product of zero counts as the smallest normal number."""
        products = self._products(query, key)
        return products.clamp(min=torch.finfo(products.dtype).tiny).log()

    def compute_weights(
        self, query: Tensor, key: Tensor, mask: Mask, position: Positions
    ) -> Tensor:
        """The products of features, divided by their sum."""
        products = self._products(query, key)
        if mask is not None:
            products = products.masked_fill(~mask, 0)
        return ratio(products, products.sum(-1, keepdim=True)).to(query.dtype)

    def compute_context(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Mask, position: Positions
    ) -> Tensor:
        """By sums over the keys, without scores."""
        if not is_padding(mask):
            return self.compute_both(query, key, value, mask, position)[0]
        with without_autocast(query.device):
            features = masked_features(self._features(key), mask)
            exact = value.to(features.dtype)
            context = linear_attention(self._features(query), features, exact)
        return context.to(value.dtype)

    def _products(
        self, query: Float[Tensor, "*b q d"], key: Float[Tensor, "*b k e"]
    ) -> Float[Tensor, "*b q k"]:
        """φ(q_i)ᵀ φ(k_j), in float32 at least."""
        with without_autocast(query.device):
            return self._features(query) @ self._features(key).mT

    def set_dropout(self, probability: float) -> None:
        """Refuse all but 0, because a sum over the keys has no weights to drop."""
        check_no_dropout(self, probability)

    def _features(self, x: Float[Tensor, "*b n d"]) -> Float[Tensor, "*b n d"]:
        """φ(x), in float32 at least: the sums over many keys need its precision."""
        return self.feature_map(at_least_float32(x))


class CausalLinearAttention(MatrixAttention, LinearAttention):
    """Linear attention to the position itself and those before it, in time proportional to n.

    ::

        α_ij = φ(q_i)ᵀ φ(k_j) / Σ_(l ≤ i) φ(q_i)ᵀ φ(k_l),   j ≤ i

    Over a sequence it is computed in chunks (:func:`chunked_linear_attention`). In decoding
    it is a recurrent network (:func:`recurrent_linear_attention`): its state is a matrix
    for each head (:class:`LinearState`), whose size does not depend on the length.

    Args:
        feature_map: φ; ``elu(x) + 1`` by default. No feature may be negative.
        chunk: the number of positions in a chunk.

    Source: Katharopoulos et al. 2020, sections 3.3 and 3.4.
    Deviation: the paper's code adds 10⁻⁶ to the denominator; ours divides by a denominator
    of 0 as by 1.

    Example:
        >>> attention, x = CausalLinearAttention(), torch.randn(1, 6, 8)
        >>> context, state = attention.extend(x, x, x, attention.start(x, x))
        >>> torch.allclose(context, attention(x, x, x), atol=1e-6), state.S.shape
        (True, torch.Size([1, 8, 8]))
    """

    state_type = LinearState

    def __init__(self, feature_map: FeatureMap = elu_features, chunk: int = 64):
        super().__init__(chunk)
        self.feature_map = feature_map

    def prepare(
        self,
        query: Float[Tensor, "*b q d"],
        key: Float[Tensor, "*c k e"],
        mask: Mask = None,
    ) -> tuple[Tensor, ...]:
        """Features φ(q) and φ(k), the latter 0 where a key is masked."""
        return self._features(query), masked_features(self._features(key), mask)

    def recur(
        self, query: Tensor, key: Tensor, value: Tensor, *gates: Any, **options: Any
    ) -> tuple[Tensor, ...]:
        """The weighted averages, in chunks, and both sums."""
        return chunked_linear_attention(query, key, value, **options)

    def last_of(
        self, query: Tensor, key: Tensor, value: Tensor, *gates: Tensor
    ) -> Tensor:
        """By the sums over all earlier keys, which are made at once."""
        before = key.shape[-2] - query.shape[-2]
        (earlier, key), (old, value) = (
            x.tensor_split([before], -2) for x in (key, value)
        )
        sums = {"S": earlier.mT @ old, "z": earlier.sum(-2)}
        return self.recur(query, key, value, chunk=self.chunk, **sums)[0]

    def score(
        self,
        query: Float[Tensor, "*b q d"],
        key: Float[Tensor, "*b k e"],
        query_position: Positions = None,
    ) -> Float[Tensor, "*b q k"]:
        """``log φ(q_i)ᵀ φ(k_j)``; positions have an effect through the mask alone."""
        return super().score(query, key)

    def compute_weights(
        self, query: Tensor, key: Tensor, mask: Mask, position: Positions
    ) -> Tensor:
        """The products of features over j ≤ i, divided by their sum."""
        visible = masks.for_scores(masks.causal(), query, key, mask, position)
        return super().compute_weights(query, key, visible, position)
