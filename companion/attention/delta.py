"""The delta rule: what a key held before is replaced and not added to (Schlag et al. 2021)."""

from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.linalg import solve_triangular
from torch.nn.functional import logsigmoid

from companion._checks import check_above_zero, check_positive, query_positions
from companion.attention.base import without_autocast
from companion.attention.decay import earlier_matrix
from companion.attention.functional import unit
from companion.attention.linear import in_chunks
from companion.attention.matrix_state import (
    MatrixAttention,
    causally_visible,
    decays,
    is_padding,
    log_decays,
    masked_decay,
    masked_features,
)
from companion.attention.types import Mask, Positions


def recurrent_delta_rule(
    query: Float[Tensor, "*b n d"],
    key: Float[Tensor, "*b n d"],
    value: Float[Tensor, "*b n v"],
    beta: Float[Tensor, "*b n"],
    log_decay: Float[Tensor, "*b n"] | None = None,
    S: Float[Tensor, "*b d v"] | None = None,
) -> tuple[Float[Tensor, "*b n v"], Float[Tensor, "*b d v"]]:
    """The delta rule position by position: a recurrent network whose state is a matrix.

    ::

        S ← γ_i S_(i−1)                         forget
        S_i = S + k_i β_i (v_i − Sᵀ k_i)ᵀ       write the difference to what k_i holds
        c_i = S_iᵀ q_i                          read

    With β = 1 and a key of norm 1, S_iᵀ k_i = v_i: whatever the key held is gone, and what
    is held by keys at right angles to it stays. It is a step of gradient descent, of size β,
    on ``|Sᵀ k − v|² / 2``.

    Args:
        query, key, value: of the same positions. Keys should have norms of at most 1, see
            :class:`DeltaAttention`.
        beta: β of each position, how much of the difference is written.
        log_decay: log γ of each position, at most 0; by default nothing is forgotten.
        S: the matrix after earlier positions, zero by default.

    Returns:
        The contexts, and the matrix after the last position.

    Source: Schlag et al. 2021, section 4.2; with a decay Yang et al. 2025 (gated DeltaNet),
    section 3.1.

    Example:
        >>> key, value = torch.eye(2)[[0, 1, 0]], torch.tensor([[1.0], [2.0], [3.0]])
        >>> contexts, S = recurrent_delta_rule(key, key, value, torch.ones(3))
        >>> S
        tensor([[3.],
                [2.]])
    """
    S = earlier_matrix(query, key, value, S)
    decay = torch.ones_like(beta) if log_decay is None else log_decay.exp()
    contexts = [value[..., :0, :]]
    for i in range(query.shape[-2]):
        q, k, v = (x[..., i : i + 1, :] for x in (query, key, value))  # (*b, 1, …)
        S = decay[..., i, None, None] * S
        S = S + k.mT @ (beta[..., i, None, None] * (v - k @ S))
        contexts.append(q @ S)
    return torch.cat(contexts, -2), S


def chunked_delta_rule(
    query: Float[Tensor, "*b n d"],
    key: Float[Tensor, "*#b n d"],
    value: Float[Tensor, "*#b n v"],
    beta: Float[Tensor, "*#b n"],
    log_decay: Float[Tensor, "*#b n"] | None = None,
    chunk: int = 64,
    S: Float[Tensor, "*#b d v"] | None = None,
) -> tuple[Float[Tensor, "*b n v"], Float[Tensor, "*#b d v"]]:
    """The delta rule in chunks: parallel inside a chunk, a matrix from one to the next.

    ::

        u_i = β_i (v_i − γ_1 ⋯ γ_i S_beforeᵀ k_i − Σ_(j < i) γ_(j+1) ⋯ γ_i (k_iᵀ k_j) u_j)
        c_i = γ_1 ⋯ γ_i S_beforeᵀ q_i + Σ_(j ≤ i) γ_(j+1) ⋯ γ_i (q_iᵀ k_j) u_j

    where the chunk's positions are 1, 2, … and S_before is the matrix before it: position i
    writes k_i u_iᵀ. The first line is a triangular system, (I + A) U = rest, with
    A_ij = β_i γ_(j+1) ⋯ γ_i k_iᵀ k_j below the diagonal. The rest is linear in S_before, so
    that both of its terms are solved for in all chunks at once, and from one chunk to the
    next there are products of matrices alone. Time grows with n · chunk.

    Args:
        query, key, value, beta, log_decay, S: as in :func:`recurrent_delta_rule`. An axis of
            the batch may have size 1 for all but queries, which then share keys and values.
        chunk: the number of positions in a chunk.

    Returns:
        The contexts, and the matrix after the last position.

    Source: Yang et al. 2024 (DeltaNet), section 3, the *UT transform*; with a decay Yang et
    al. 2025 (gated DeltaNet), section 3.3.
    Deviation: the triangular system is solved by PyTorch, not inverted row by row.

    Example:
        >>> x, beta = torch.randn(1, 5, 8) / 8, torch.rand(1, 5)
        >>> contexts, S = chunked_delta_rule(x, x, x, beta, chunk=2)
        >>> torch.allclose(contexts, recurrent_delta_rule(x, x, x, beta)[0], atol=1e-5)
        True
    """
    check_positive(chunk=chunk)
    S = earlier_matrix(query, key, value, S)
    log_decay = torch.zeros_like(beta) if log_decay is None else log_decay
    length, features = query.shape[-2], value.shape[-1]
    q, k, v = (in_chunks(x, chunk) for x in (query, key, value))  # (*b, t, c, …)
    step, fading = (in_chunks(x.unsqueeze(-1), chunk) for x in (beta, log_decay))
    inside, from_start = decays(fading.squeeze(-1)), fading.cumsum(-2).exp()
    system = (step * (k @ k.mT) * inside).tril(-1)  # A
    solve = partial(solve_triangular, system, upper=False, unitriangular=True)
    per_chunk = (
        solve(step * v),
        solve(step * from_start * k),
        q * from_start,
        q @ k.mT * inside,
        (k * inside[..., -1, :, None]).mT,
        from_start[..., -1:, :],
    )
    contexts = [query.new_zeros(*query.shape[:-2], 0, features)]
    for new, old, reads, products, keys, left in zip(
        *(x.unbind(-3) for x in per_chunk), strict=True
    ):
        written = new - old @ S  # U
        contexts.append(reads @ S + products @ written)
        S = left * S + keys @ written
    return torch.cat(contexts, -2)[..., :length, :], S


class DeltaAttention(MatrixAttention):
    """Attention by the delta rule: a position replaces what its key held.

    ::

        S_i = S_(i−1) + k_i β_i (v_i − S_(i−1)ᵀ k_i)ᵀ = (I − β_i k_i k_iᵀ) S_(i−1) + β_i k_i v_iᵀ
        c_i = S_iᵀ q_i,   β_i = σ(b_i)

    Queries and keys are divided by their norms. The eigenvalues of I − β k kᵀ are 1, and
    ``1 − β kᵀk`` in the direction of k: with keys of norm 1 and β from 0 to 1 they are between
    0 and 1, so that no number of positions makes the matrix explode, and β = 1 erases what k
    held and nothing else. Longer keys would overshoot, and with ``kᵀk > 2/β`` diverge.

    b_i is the last feature of a key; in multi-head attention it is a linear function of the
    position's vector, one for each head. Over a sequence it is computed in chunks
    (:func:`chunked_delta_rule`), and in decoding it is :func:`recurrent_delta_rule`.

    The context is linear in the values, so there are weights, by which it is a sum over
    j ≤ i; but they may be negative, and their sum is not 1: what was written twice under one
    key has its weight at the second position.

    Args:
        chunk: the number of positions in a chunk.

    Source: Schlag et al. 2021, section 4.2; Yang et al. 2024 (DeltaNet), whose queries and
    keys have an L2 norm of 1.
    Deviation: neither SiLU nor a short convolution comes before the norm. The first paper has
    a feature map, and divides by its sum.

    Example:
        >>> key = torch.tensor([[1.0, 0.0, 9.0], [0.0, 1.0, 9.0], [1.0, 0.0, 9.0]])
        >>> DeltaAttention().weights(torch.tensor([[1.0, 0.0]]), key).round(decimals=3)
        tensor([[0., 0., 1.]])
    """

    gates = 1

    def __init__(self, chunk: int = 64):
        super().__init__(chunk)

    def prepare(
        self,
        query: Float[Tensor, "*b q d"],
        key: Float[Tensor, "*c k e"],
        mask: Mask = None,
    ) -> tuple[Tensor, ...]:
        """Unit vectors of queries and keys, and β. A masked key is 0: it erases and writes nothing."""
        query, key, gate = self.split(query, key)
        return unit(query), masked_features(unit(key), mask), gate.sigmoid()

    def recur(
        self, query: Tensor, key: Tensor, value: Tensor, *gates: Any, **options: Any
    ) -> tuple[Tensor, Tensor]:
        """The delta rule, in chunks."""
        return chunked_delta_rule(query, key, value, *gates, **options)

    def score(
        self,
        query: Float[Tensor, "*b q d"],
        key: Float[Tensor, "*b k e"],
        query_position: Positions = None,
    ) -> Float[Tensor, "*b q k"]:
        """The cosine of query and key: how much of what was written under a key is read."""
        with without_autocast(query.device):
            queries, keys, *_ = self.prepare(query, key)
            return queries @ keys.mT

    def compute_weights(
        self, query: Tensor, key: Tensor, mask: Mask, position: Positions
    ) -> Tensor:
        """What is read of each key, less what later positions erase.

        ::

            weights = (scores ∘ decays) (I + A)⁻¹ diag(β),   with A as in chunked_delta_rule
        """
        if not is_padding(mask):
            return self._weights_by_row(query, key, mask, position)
        visible = causally_visible(query, key, mask, position)
        with without_autocast(query.device):
            queries, keys, beta, *log_decay = self.prepare(query, key, mask)
            fading = log_decay[0] if log_decay else torch.zeros_like(beta)
            read = queries @ keys.mT * log_decays(fading, visible).exp()
            system = beta.unsqueeze(-1) * (keys @ keys.mT) * decays(fading)
            found = solve_triangular(
                system.tril(-1),
                read.masked_fill(~visible, 0),
                upper=False,
                left=False,
                unitriangular=True,
            )
        return (found * beta.unsqueeze(-2)).to(query.dtype)

    def _weights_by_row(
        self, query: Tensor, key: Tensor, mask: Any, position: Positions
    ) -> Tensor:
        """The weights where each query has a mask of its own: of every query alone."""
        i = query_positions(query, key.shape[-2], position)
        i = i.expand(query.shape[:-1]).unsqueeze(-1)
        alone = query.unsqueeze(-2), key.unsqueeze(-3), mask.unsqueeze(-2)
        return self.compute_weights(*alone, i).squeeze(-2)


class GatedDeltaAttention(DeltaAttention):
    """The delta rule with forgetting: a key's value is replaced, and all others fade.

    ::

        S_i = γ_i (I − β_i k_i k_iᵀ) S_(i−1) + β_i k_i v_iᵀ,   β_i = σ(b_i),   γ_i = σ(g_i)^(1/τ)

    b_i and g_i are the last two features of a key. A decay clears the matrix fast, and the
    delta rule one key at a time. Else it is as :class:`DeltaAttention`.

    Args:
        temperature: τ, as of :class:`~companion.attention.decay.GatedDecayAttention`.
        chunk: the number of positions in a chunk.

    Source: Yang et al. 2025 (gated DeltaNet), section 3.1.
    Deviation: the paper's γ_i is Mamba-2's; ours is that of
    :class:`~companion.attention.decay.GatedDecayAttention`. Besides, as in
    :class:`DeltaAttention`.

    Example:
        >>> attention, x = GatedDeltaAttention(), torch.randn(1, 6, 8)
        >>> attention(x[..., :6], x, x).shape
        torch.Size([1, 6, 8])
    """

    gates = 2
    settings = ("temperature", "chunk")

    def __init__(self, temperature: float = 16.0, chunk: int = 64):
        super().__init__(chunk)
        check_above_zero(temperature=temperature)
        self.temperature = temperature

    def prepare(
        self,
        query: Float[Tensor, "*b q d"],
        key: Float[Tensor, "*c k e"],
        mask: Mask = None,
    ) -> tuple[Tensor, ...]:
        """As in the delta rule, and log γ, which is 0 where a key is masked."""
        query, key, write, forget = self.split(query, key)
        log_decay = masked_decay(logsigmoid(forget) / self.temperature, mask)
        key = masked_features(unit(key), mask)
        return unit(query), key, write.sigmoid(), log_decay
