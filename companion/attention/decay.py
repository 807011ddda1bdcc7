"""Linear attention that forgets: what was written fades with every later position (Sun et al. 2023)."""

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import logsigmoid, pad

from companion._checks import (
    check_above_zero,
    check_decays,
    check_head_axis,
    check_positive,
    check_same_positions,
)
from companion.attention.base import without_autocast
from companion.attention.linear import (
    FeatureMap,
    elu_features,
    in_chunks,
    ratio,
)
from companion.attention.matrix_state import (
    MatrixAttention,
    causally_visible,
    decays,
    log_decays,
    masked_decay,
    masked_features,
)
from companion.attention.types import Mask, Positions


def retention_decays(heads: int) -> list[float]:
    """The decays of retention, from 31/32 on: every head forgets half as fast as the one before.

    ::

        γ_h = 1 − 2^(−5−h),   h = 0, …, heads − 1

    Source: Sun et al. 2023 (RetNet), equation (8).

    Example:
        >>> retention_decays(3)
        [0.96875, 0.984375, 0.9921875]
    """
    check_positive(heads=heads)
    return [1 - 2.0 ** (-5 - h) for h in range(heads)]


def parallel_decay_attention(
    query: Float[Tensor, "*b n d"],
    key: Float[Tensor, "*b n d"],
    value: Float[Tensor, "*b n v"],
    log_decay: Float[Tensor, "*b n"],
) -> Float[Tensor, "*b n v"]:
    """Sums that fade, all positions at once: n² products, as in other attention.

    ::

        c_i = Σ_(j ≤ i) γ_(j+1) ⋯ γ_i (q_iᵀ k_j) v_j

    Args:
        query, key, value: of the same positions; there is no feature map and no denominator.
        log_decay: log γ of each position, at most 0; −∞ forgets all.

    Source: Sun et al. 2023, equation (5), with one γ for all positions; Dao & Gu 2024
    (Mamba-2), with one for each.

    Example:
        >>> x = torch.randn(1, 5, 8)
        >>> parallel_decay_attention(x, x, x, torch.full((1, 5), 0.9).log()).shape
        torch.Size([1, 5, 8])
    """
    check_same_positions(query, key, value)
    return (query @ key.mT * decays(log_decay)) @ value


def recurrent_decay_attention(
    query: Float[Tensor, "*b n d"],
    key: Float[Tensor, "*b n d"],
    value: Float[Tensor, "*b n v"],
    log_decay: Float[Tensor, "*b n"],
    S: Float[Tensor, "*b d v"] | None = None,
) -> tuple[Float[Tensor, "*b n v"], Float[Tensor, "*b d v"]]:
    """Sums that fade, position by position: a recurrent network whose state is a matrix.

    ::

        S_i = γ_i S_(i−1) + k_i v_iᵀ,   c_i = S_iᵀ q_i

    Args:
        query, key, value, log_decay: as in :func:`parallel_decay_attention`.
        S: the matrix after earlier positions, zero by default.

    Returns:
        The contexts, and the matrix after the last position.

    Source: Sun et al. 2023, equation (6); Yang et al. 2024 (gated linear attention).

    Example:
        >>> x, log_decay = torch.randn(1, 5, 8), torch.full((1, 5), 0.9).log()
        >>> contexts, S = recurrent_decay_attention(x, x, x, log_decay)
        >>> contexts.shape, S.shape
        (torch.Size([1, 5, 8]), torch.Size([1, 8, 8]))
    """
    S = earlier_matrix(query, key, value, S)
    contexts = [value[..., :0, :]]
    for i in range(query.shape[-2]):
        q, k, v = (x[..., i : i + 1, :] for x in (query, key, value))  # (*b, 1, …)
        S = log_decay[..., i, None, None].exp() * S + k.mT @ v
        contexts.append(q @ S)
    return torch.cat(contexts, -2), S


def chunked_decay_attention(
    query: Float[Tensor, "*b n d"],
    key: Float[Tensor, "*#b n d"],
    value: Float[Tensor, "*#b n v"],
    log_decay: Float[Tensor, "*#b n"],
    chunk: int = 64,
    S: Float[Tensor, "*#b d v"] | None = None,
) -> tuple[Float[Tensor, "*b n v"], Float[Tensor, "*#b d v"]]:
    """Sums that fade, in chunks: parallel inside a chunk, a matrix from one to the next.

    ::

        c_i = γ_1 ⋯ γ_i S_beforeᵀ q_i + Σ_(j ≤ i, in the chunk) γ_(j+1) ⋯ γ_i (q_iᵀ k_j) v_j

    where the chunk's positions are 1, 2, … and S_before is the matrix before it. Time grows
    with n · chunk.

    Args:
        query, key, value, log_decay, S: as in :func:`recurrent_decay_attention`. An axis of
            the batch may have size 1 for all but queries, which then share keys and values.
        chunk: the number of positions in a chunk.

    Returns:
        The contexts, and the matrix after the last position.

    Source: Sun et al. 2023, equation (7); Yang et al. 2024 (gated linear attention),
    *chunkwise parallel form*.

    Example:
        >>> x, log_decay = torch.randn(1, 5, 8), torch.full((1, 5), 0.9).log()
        >>> contexts, S = chunked_decay_attention(x, x, x, log_decay, chunk=2)
        >>> expected = parallel_decay_attention(x, x, x, log_decay)
        >>> torch.allclose(contexts, expected, atol=1e-5)
        True
    """
    check_positive(chunk=chunk)
    S = earlier_matrix(query, key, value, S)
    length = query.shape[-2]
    q, k, v = (in_chunks(x, chunk) for x in (query, key, value))  # (*b, t, c, …)
    fading = in_chunks(log_decay.unsqueeze(-1), chunk).squeeze(-1)  # (*b, t, c)
    inside, from_start = decays(fading), fading.cumsum(-1).exp().unsqueeze(-1)
    written = (k * inside[..., -1, :, None]).mT @ v  # (*b, t, d, v)
    matrices = [S]
    for left, new in zip(
        from_start[..., -1:, :].unbind(-3), written.unbind(-3), strict=True
    ):
        matrices.append(left * matrices[-1] + new)
    before = torch.stack(matrices, -3)[..., :-1, :, :]
    contexts = (q * from_start) @ before + (q @ k.mT * inside) @ v
    return contexts.flatten(-3, -2)[..., :length, :], matrices[-1]


def earlier_matrix(
    query: Tensor, key: Tensor, value: Tensor, S: Tensor | None
) -> Float[Tensor, "*b d v"]:
    """The matrix after earlier positions, zero where there are none."""
    check_same_positions(query, key, value)
    if S is None:
        batch = torch.broadcast_shapes(key.shape[:-2], value.shape[:-2])
        return key.new_zeros(*batch, key.shape[-1], value.shape[-1])
    return S


class FadingAttention(MatrixAttention):
    """What :class:`DecayAttention` computes, where a subclass defines :meth:`log_decay`.

    Args:
        feature_map, chunk: as in :class:`DecayAttention`.
    """

    def __init__(self, feature_map: FeatureMap, chunk: int):
        super().__init__(chunk)
        self.feature_map = feature_map

    @abstractmethod
    def log_decay(
        self, key: Float[Tensor, "*b k d"], *gates: Tensor
    ) -> Float[Tensor, "*b k"]:
        """Log γ of each position, of keys without their gates, and these."""

    def prepare(
        self,
        query: Float[Tensor, "*b q d"],
        key: Float[Tensor, "*c k e"],
        mask: Mask = None,
    ) -> tuple[Tensor, ...]:
        """Features φ(q) and φ(k), and log γ; the latter two are 0 where a key is masked."""
        query, key, *gates = self.split(query, key)
        log_decay = masked_decay(self.log_decay(key, *gates), mask)
        features = masked_features(self.feature_map(key), mask)
        return self.feature_map(query), features, log_decay

    def recur(
        self, query: Tensor, key: Tensor, value: Tensor, *gates: Any, **options: Any
    ) -> tuple[Tensor, Tensor]:
        """The weighted sum of the values, and of ones, in one matrix."""
        with_ones = pad(value, (0, 1), value=1.0)
        sums, S = chunked_decay_attention(query, key, with_ones, *gates, **options)
        return ratio(sums[..., :-1], sums[..., -1:]), S

    def score(
        self,
        query: Float[Tensor, "*b q d"],
        key: Float[Tensor, "*b k e"],
        query_position: Positions = None,
    ) -> Float[Tensor, "*b q k"]:
        """``log φ(q_i)ᵀ φ(k_j) + log γ_(j+1) ⋯ γ_i``, of a product of at least the smallest number."""
        with without_autocast(query.device):
            features, keys, log_decay = self.prepare(query, key)
            products = features @ keys.mT
        visible = causally_visible(query, key, None, query_position)
        smallest = torch.finfo(products.dtype).tiny
        return products.clamp(min=smallest).log() + log_decays(log_decay, visible)

    def compute_weights(
        self, query: Tensor, key: Tensor, mask: Mask, position: Positions
    ) -> Tensor:
        """The products of features, faded, over the visible j ≤ i, divided by their sum."""
        visible = causally_visible(query, key, mask, position)
        with without_autocast(query.device):
            features, keys, log_decay = self.prepare(query, key)
            products = features @ keys.mT * log_decays(log_decay, visible).exp()
        products = products.masked_fill(~visible, 0)
        return ratio(products, products.sum(-1, keepdim=True)).to(query.dtype)


class DecayAttention(FadingAttention):
    """Linear attention that forgets: at every position, what was written before fades by γ.

    ::

        S_i = γ S_(i−1) + φ(k_i) v_iᵀ,   z_i = γ z_(i−1) + φ(k_i),   c_i = φ(q_i)ᵀ S_i / φ(q_i)ᵀ z_i
        α_ij ∝ γ^(i−j) φ(q_i)ᵀ φ(k_j),   j ≤ i

    With γ = 1 it is :class:`~companion.attention.linear.CausalLinearAttention`. In the
    logarithm of a weight, the decay is a bias (i − j) log γ, as that of
    :class:`~companion.attention.linear_bias.ALiBi`. Masked positions do not count in the
    distance. While decoding, z is the last column of the state's matrix.

    Args:
        decay: γ, above 0 and at most 1; or one for each key–value head, such as
            :func:`retention_decays`. Heads are then the axis before the positions.
        feature_map: φ; ``elu(x) + 1`` by default. No feature may be negative.
        chunk: the number of positions in a chunk.

    Source: Sun et al. 2023 (RetNet), section 2.1.
    Deviation: retention has no feature map and divides by no z; it rotates queries and keys,
    and normalises each head's context. Ours keeps the average of linear attention, whose
    weights sum to 1.

    Example:
        >>> attention, x = DecayAttention(0.5), torch.zeros(1, 3, 8)
        >>> attention.weights(x, x)[0, 2]
        tensor([0.1429, 0.2857, 0.5714])
    """

    settings = ("decay", "chunk")

    def __init__(
        self,
        decay: float | Sequence[float],
        feature_map: FeatureMap = elu_features,
        chunk: int = 64,
    ):
        super().__init__(feature_map, chunk)
        self.decay = (decay,) if isinstance(decay, int | float) else tuple(decay)
        check_decays(*self.decay)

    def log_decay(
        self, key: Float[Tensor, "*b k d"], *gates: Tensor
    ) -> Float[Tensor, "*b k"]:
        """Log γ, the same at all positions."""
        logs = [math.log(x) for x in self.decay]
        if len(logs) == 1:
            return key.new_tensor(logs).expand(key.shape[:-1])
        if key.ndim < 3 or key.shape[-3] % len(logs):
            check_head_axis(key, len(logs), "key")
        shared = key.shape[-3] // len(logs)  # heads of queries with one key–value head
        logs = [x for x in logs for _ in range(shared)]
        return key.new_tensor(logs).unsqueeze(-1).expand(key.shape[:-1])


class GatedDecayAttention(FadingAttention):
    """Linear attention that forgets as much as each position says.

    ::

        S_i = γ_i S_(i−1) + φ(k_i) v_iᵀ,   γ_i = σ(g_i)^(1/τ)

    where the gate's logit g_i is the last feature of a key. In multi-head attention it is a
    linear function of the position's vector, one for each head. With g near 0, as at first,
    and τ = 16, γ is 0.96. Else it is as :class:`DecayAttention`.

    Args:
        temperature: τ.
        feature_map, chunk: as in :class:`DecayAttention`.

    Source: Yang et al. 2024 (gated linear attention), section 4, with one gate for all
    features of a head, as in Dao & Gu 2024 (Mamba-2).
    Deviation: as in :class:`DecayAttention`, ours divides by the faded sum of features. The
    papers divide by nothing, and normalise each head's context. Mamba-2's
    γ_i = exp(−a softplus(g_i)) has a learned a.

    Example:
        >>> attention, x = GatedDecayAttention(), torch.randn(1, 6, 8)
        >>> attention(x[..., :7], x, x).shape
        torch.Size([1, 6, 8])
    """

    gates = 1
    settings = ("temperature", "chunk")

    def __init__(
        self,
        temperature: float = 16.0,
        feature_map: FeatureMap = elu_features,
        chunk: int = 64,
    ):
        super().__init__(feature_map, chunk)
        check_above_zero(temperature=temperature)
        self.temperature = temperature

    def log_decay(
        self, key: Float[Tensor, "*b k d"], *gates: Tensor
    ) -> Float[Tensor, "*b k"]:
        """Log σ(g) / τ."""
        (gate,) = gates
        return logsigmoid(gate) / self.temperature
