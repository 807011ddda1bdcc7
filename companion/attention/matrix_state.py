"""Attention whose past is one matrix: what forgetting and the delta rule have in common."""

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import pad

from companion._checks import (
    check_continues,
    check_gates,
    check_heads_divide,
    check_last_positions,
    check_no_dropout,
    check_positive,
    score_shape,
)
from companion.attention import masks
from companion.attention.base import Attention, at_least_float32, without_autocast
from companion.attention.types import Mask, Positions


class MatrixState(NamedTuple):
    """A matrix for each head, however long the past.

    ::

        S = Σ_j k_j u_jᵀ,   with what was written of each value, u_j

    ``seen`` is how many positions there were.
    """

    S: Float[Tensor, "b *h d v"]
    seen: Int[Tensor, " b"]


class MatrixAttention(Attention, ABC):
    """Causal attention as a recurrence: each position changes a matrix, and then reads it.

    ::

        c_i = S_iᵀ q_i

    A subclass defines the weights, :meth:`prepare` and :meth:`recur`. What a position's
    gates are made of comes with its key, as the key's last features: for an attention with
    ``gates``, :class:`~companion.attention.multihead.MultiHeadAttention` makes keys longer
    by as many, by the same linear layer.

    A masked position leaves the matrix as it is: it writes nothing, and nothing is
    forgotten there. With a ``query_position``, with a mask that is not the same for all
    queries, and in ``torch.export`` the context is computed from the weights.

    Args:
        chunk: the number of positions in a chunk.
    """

    causal = True
    uses_query_position = True
    has_own_weights = True
    state_type: Any = MatrixState
    settings: tuple[str, ...] = ("chunk",)

    def __init__(self, chunk: int):
        super().__init__()
        check_positive(chunk=chunk)
        self.chunk = chunk

    @abstractmethod
    def prepare(
        self,
        query: Float[Tensor, "*b q d"],
        key: Float[Tensor, "*c k e"],
        mask: Mask = None,
    ) -> tuple[Tensor, ...]:
        """Features of queries and keys, and numbers ``(*c, k)`` made of gates, in float32 at least.

        Where a mask of keys is ``False``, they leave the matrix as it is.
        """

    @abstractmethod
    def recur(
        self, query: Tensor, key: Tensor, value: Tensor, *gates: Any, **options: Any
    ) -> tuple[Tensor, ...]:
        """The contexts of what :meth:`prepare` returned, and the matrix after them.

        Options are ``chunk``, and the matrix S before them. What a state holds besides is
        handled as S.
        """

    def split(
        self, query: Float[Tensor, "*b q d"], key: Float[Tensor, "*c k e"]
    ) -> tuple[Tensor, ...]:
        """Queries, keys without gates, and each gate ``(*c, k)``, in float32 at least."""
        check_gates(query, key, self.gates)
        key = at_least_float32(key)
        features, gates = key.split([query.shape[-1], self.gates], -1)
        return at_least_float32(query), features, *gates.unbind(-1)

    def compute_context(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Mask, position: Positions
    ) -> Tensor:
        """By the recurrence in chunks, without weights."""
        shape = score_shape(query, key, value)
        unusual = position is not None or not is_padding(mask) or 0 in shape
        if unusual or torch.compiler.is_exporting():  # chunks need a known length
            return self.compute_both(query, key, value, mask, position)[0]
        check_last_positions(*shape[-2:])
        with without_autocast(query.device):
            queries, keys, *gates = self.prepare(query, key, mask)
            queries = queries.expand(*shape[:-2], -1, -1)
            context = self.last_of(queries, keys, value.to(keys.dtype), *gates)
        return context.to(value.dtype)

    def last_of(
        self, query: Tensor, key: Tensor, value: Tensor, *gates: Tensor
    ) -> Tensor:
        """The contexts of what :meth:`prepare` returned, where queries may be the last positions."""
        before = key.shape[-2] - query.shape[-2]
        query, chunk = pad(query, (0, 0, before, 0)), min(self.chunk, key.shape[-2])
        context, *_ = self.recur(query, key, value, *gates, chunk=chunk)
        return context[..., before:, :]

    def start(
        self, key: Float[Tensor, "b *g n e"], value: Float[Tensor, "b *g n v"]
    ) -> Any:
        """A matrix of zeros."""
        key, value = key[..., :0, :], value[..., :0, :]
        query = key[..., : key.shape[-1] - self.gates]
        queries, keys, *gates = self.prepare(query, key)
        _, *zeros = self.recur(queries, keys, value.to(keys.dtype), *gates, chunk=1)
        seen = torch.zeros(key.shape[0], dtype=torch.int64, device=key.device)
        return self.state_type(*zeros, seen)

    def extend(
        self,
        query: Float[Tensor, "b *h m d"],
        key: Float[Tensor, "b *g m e"],
        value: Float[Tensor, "b *g m v"],
        state: Any,
    ) -> tuple[Float[Tensor, "b *h m v"], Any]:
        """The contexts of the next positions, and the matrix after them."""
        check_continues(self, state, query, key, value)
        check_heads_divide(query.shape[-3], key.shape[-3])
        heads = (key.shape[-3], query.shape[-3] // key.shape[-3])
        axis = key.ndim - 2  # of the r heads of queries that share keys and values
        sums = state._asdict()
        seen = sums.pop("seen")
        with without_autocast(query.device):
            queries, keys, *gates = self.prepare(query, key)
            context, *after = self.recur(
                queries.unflatten(-3, heads),  # (b, …, r, m, d)
                keys.unsqueeze(axis),
                value.to(keys.dtype).unsqueeze(axis),
                *(gate.unsqueeze(axis) for gate in gates),
                chunk=max(1, min(self.chunk, key.shape[-2])),
                **{name: x.unsqueeze(axis) for name, x in sums.items()},
            )
        after = [x.squeeze(axis) for x in after]
        state = self.state_type(*after, seen + key.shape[-2])
        return context.flatten(-4, -3).to(value.dtype), state

    def set_dropout(self, probability: float) -> None:
        """Refuse all but 0, because a matrix has no weights to drop."""
        check_no_dropout(self, probability)


def decays(log_decay: Float[Tensor, "*b c"]) -> Float[Tensor, "*b c c"]:
    """What is left at position i of what was written at j.

    ::

        γ_(j+1) ⋯ γ_i for j ≤ i, and 0 for j > i

    Example:
        >>> decays(torch.tensor([0.5, 0.5, 0.1]).log())
        tensor([[1.0000, 0.0000, 0.0000],
                [0.5000, 1.0000, 0.0000],
                [0.0500, 0.1000, 1.0000]])
    """
    each = log_decay.unsqueeze(-1).expand(*log_decay.shape, log_decay.shape[-1])
    # differences of sums would be less exact
    return each.tril(-1).cumsum(-2).exp().tril()


def log_decays(
    log_decay: Float[Tensor, "*c k"], visible: Bool[Tensor, "... q k"]
) -> Float[Tensor, "*b q k"]:
    """The logarithm of what is left, for a query, of what was written at each key.

    ::

        Σ_(l > j) visible_il log γ_l

    Example:
        >>> visible = torch.tensor([[True, False, True]])
        >>> log_decays(torch.tensor([0.5, 0.5, 0.1]).log(), visible).exp()
        tensor([[0.1000, 0.1000, 1.0000]])
    """
    passed = log_decay.unsqueeze(-2).masked_fill(~visible, 0)
    return pad(passed, (0, 1)).flip(-1).cumsum(-1).flip(-1)[..., 1:]


def causally_visible(
    query: Tensor, key: Tensor, mask: Mask, position: Positions
) -> Bool[Tensor, "... q k"]:
    """The causal rule and a mask as one."""
    visible = masks.for_scores(masks.causal(), query, key, mask, position)
    if visible is None:  # there is no score
        shape = score_shape(query, key)
        return torch.ones(shape, dtype=torch.bool, device=query.device)
    return visible


def masked_decay(log_decay: Float[Tensor, "*b k"], mask: Mask) -> Float[Tensor, "*c k"]:
    """Log γ, 0 where a key is masked: nothing is forgotten there."""
    return masked_features(log_decay.unsqueeze(-1), mask).squeeze(-1)


def is_padding(mask: Mask) -> bool:
    """Whether a mask, if there is one, is the same for all queries."""
    return mask is None or mask.ndim == 1 or mask.shape[-2] == 1


def masked_features(features: Tensor, mask: Mask) -> Tensor:
    """The features of the keys, zero where a key is masked."""
    if mask is None:
        return features
    visible = mask if mask.ndim == 1 else mask.squeeze(-2)  # (…, k)
    return features.masked_fill(~visible[..., None], 0)
