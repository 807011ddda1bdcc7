"""Synthesizers: attention whose scores never ask the keys (Tay et al. 2021).

``heads`` gives each head of a :class:`~companion.attention.multihead.MultiHeadAttention` parameters of its own; without
it, the heads share them. A sequence may be shorter than ``max_length``: it uses the first positions. Where
there are fewer queries than keys, they are the last of the sequence, as in cached decoding.
"""

import math
from abc import ABC, abstractmethod
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from companion._checks import (
    check_independent,
    check_inputs,
    check_kind,
    check_last_positions,
    check_mask,
    check_positive,
    check_size,
    query_positions,
)
from companion.attention.base import Attention, masked_softmax


class Synthesizer(Attention, ABC):
    """Scores for each position up to a greatest length, without a look at what stands there.

    Source: Tay et al. 2021, section 3.

    Raises:
        ValueError: a size is below 1; the sequence is longer than ``max_length``, there are more queries than
            keys, or the query does not have the features or the heads announced.
    """

    uses_key_position = True

    def __init__(self, max_length: int, heads: int | None):
        super().__init__()
        check_positive(max_length=max_length, heads=1 if heads is None else heads)
        self.max_length = max_length
        self.heads = heads

    @abstractmethod
    def synthesize(
        self,
        query: Float[Tensor, "*b q d"],
        position: Int[Tensor, "..."] | None,
        keys: int,
    ) -> Float[Tensor, "... q k"]:
        """The scores of the first ``keys`` positions, for queries at these positions."""

    def score(
        self,
        query: Float[Tensor, "*b q d"],
        key: Float[Tensor, "*b k e"],
        query_position: Int[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "*b q k"]:
        """The score of each position for each query; the content of the keys has no effect."""
        scores = self._scores(query, key, query_position)
        return scores.expand(*query.shape[:-1], key.shape[-2])

    def _scores(
        self, query: Tensor, key: Tensor, query_position: Tensor | None
    ) -> Float[Tensor, "... q k"]:
        """The scores, without the batch where they do not depend on it."""
        keys = key.shape[-2]
        if keys > self.max_length:
            raise ValueError(
                f"the sequence has {keys} positions, but the synthesizer only {self.max_length}"
            )
        if self.heads is not None and (query.ndim < 3 or query.shape[-3] != self.heads):
            raise ValueError(
                f"a query of shape {tuple(query.shape)} has no axis of {self.heads} heads"
            )
        if query_position is not None:
            query_position = query_positions(query, keys, query_position)
            _check_within(query_position, self.max_length)
        elif self.uses_query_position:
            check_last_positions(query.shape[-2], keys)
        return self.synthesize(query, query_position, keys)


class DenseSynthesizer(Synthesizer):
    """Each position decides by its own content where to look.

    ::

        B_i = relu(x_i W_1 + b_1) W_2 + b_2,   a score for each position

    Source: Tay et al. 2021, section 3.1. Our query is the paper's X_i.

    Raises:
        ValueError: as :class:`Synthesizer`.
    """

    def __init__(self, size: int, max_length: int, heads: int | None = None):
        super().__init__(max_length, heads)
        self.hidden = HeadLinear(size, size, heads)
        self.output = HeadLinear(size, max_length, heads)

    def synthesize(
        self,
        query: Float[Tensor, "*b q d"],
        position: Int[Tensor, "..."] | None,
        keys: int,
    ) -> Float[Tensor, "*b q k"]:
        """What two layers make of each query."""
        return self.output(self.hidden(query).relu(), keys)


class FactorizedDense(Synthesizer):
    """Dense, with two short answers for a long one: positions form a grid, and each has a row and a column.

    ::

        h_i = relu(x_i W_1 + b_1),   A_i = h_i W_A + b_A,   B_i = h_i W_B + b_B
        C_i,(r·a + c) = A_i,c · B_i,r,   c < a, r < b

    A is tiled and each entry of B repeated, so that all a·b products differ; were both tiled, no more than
    the least common multiple of a and b would. Source: Tay et al. 2021, section 3.3. That A and B share the
    first layer is our reading of the parameters in the paper's table 1, d² + d(a + b).

    Raises:
        ValueError: as :class:`Synthesizer`; ``max_length`` is a·b.
    """

    def __init__(self, size: int, a: int, b: int, heads: int | None = None):
        check_positive(a=a, b=b)
        super().__init__(a * b, heads)
        self.hidden = HeadLinear(size, size, heads)
        self.A = HeadLinear(size, a, heads)
        self.B = HeadLinear(size, b, heads)

    def synthesize(
        self,
        query: Float[Tensor, "*b q d"],
        position: Int[Tensor, "..."] | None,
        keys: int,
    ) -> Float[Tensor, "*b q k"]:
        """Every product of an entry of A with one of B, row by row."""
        hidden = self.hidden(query).relu()
        columns = self.A(hidden)
        rows = self.B(hidden, math.ceil(keys / columns.shape[-1]))
        return (rows.unsqueeze(-1) * columns.unsqueeze(-2)).flatten(-2)[..., :keys]


class UnconditionalSynthesizer(Synthesizer):
    """A table of scores that no input changes, so that one softmax serves the whole batch.

    Source: Tay et al. 2021, section 3.2.

    Raises:
        ValueError: as :class:`Synthesizer`.
    """

    uses_query_position = True

    def weights(
        self,
        query: Float[Tensor, "*b q d"],
        key: Float[Tensor, "*b k e"],
        mask: Bool[Tensor, "..."] | None = None,
        query_position: Int[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "*b q k"]:
        """The same for each sequence that has the same mask."""
        check_inputs(query, key)
        shared = self._shared_weights(query, key, mask, query_position)
        return shared.expand(*query.shape[:-1], key.shape[-2])

    def forward(
        self,
        query: Float[Tensor, "*b q d"],
        key: Float[Tensor, "*b k e"],
        value: Float[Tensor, "*b k v"],
        mask: Bool[Tensor, "..."] | None = None,
        query_position: Int[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "*b q v"]:
        """The contexts. Where all sequences have the same weights, their values are columns of one matrix."""
        check_inputs(query, key, value)
        if query.shape[:-2] != value.shape[:-2]:
            return super().forward(query, key, value, mask, query_position)
        weights = self._shared_weights(query, key, mask, query_position)
        alone = value.ndim - weights.ndim
        if alone <= 0:
            return weights @ value
        batch = value.shape[:alone]
        columns = value.flatten(0, alone - 1).movedim(0, -1).flatten(-2)
        contexts = (weights @ columns).unflatten(-1, (value.shape[-1], batch.numel()))
        return contexts.movedim(-1, 0).unflatten(0, batch)

    def _shared_weights(
        self,
        query: Tensor,
        key: Tensor,
        mask: Tensor | None,
        query_position: Tensor | None,
    ) -> Float[Tensor, "... q k"]:
        """The weights, without the leading axes of the batch in which they are alike."""
        scores = self._scores(query, key, query_position)
        if mask is None:
            return masked_softmax(scores)
        check_mask(mask, torch.Size((*query.shape[:-1], key.shape[-2])))
        while mask.ndim > scores.ndim and mask.shape[0] == 1:
            mask = mask[0]
        scores = scores.expand(torch.broadcast_shapes(scores.shape, mask.shape))
        return masked_softmax(
            scores, mask if mask.ndim == scores.ndim else mask.expand(scores.shape)
        )


class RandomSynthesizer(UnconditionalSynthesizer):
    """One learnt table of scores for all inputs: each position knows by heart where to look.

    ::

        B = R

    Source: Tay et al. 2021, section 3.2. R starts from a standard normal distribution.

    Raises:
        ValueError: as :class:`Synthesizer`.
    """

    def __init__(self, max_length: int, heads: int | None = None):
        super().__init__(max_length, heads)
        self.R = nn.Parameter(torch.randn(_per_head(heads, max_length, max_length)))

    def synthesize(
        self,
        query: Float[Tensor, "*b q d"],
        position: Int[Tensor, "..."] | None,
        keys: int,
    ) -> Float[Tensor, "... q k"]:
        """The queries' rows of R, and the keys' columns."""
        return _rows(self.R, query, position, keys)[..., :keys]


class FixedRandom(RandomSynthesizer):
    """A table of scores drawn once and never trained.

    Source: Tay et al. 2021, section 3.2.

    Raises:
        ValueError: as :class:`Synthesizer`.
    """

    def __init__(self, max_length: int, heads: int | None = None):
        super().__init__(max_length, heads)
        self.R.requires_grad_(False)


class FactorizedRandom(UnconditionalSynthesizer):
    """A learnt table of low rank: the product of two thin matrices.

    ::

        B = R_1 R_2ᵀ

    Source: Tay et al. 2021, section 3.3; ``rank`` is the paper's k. The entries start with a variance of
    1/√rank, so that those of B start with a variance of 1.

    Raises:
        ValueError: as :class:`Synthesizer`.
    """

    def __init__(self, max_length: int, rank: int = 8, heads: int | None = None):
        super().__init__(max_length, heads)
        check_positive(rank=rank)
        self.R_1 = nn.Parameter(
            torch.randn(_per_head(heads, max_length, rank)) * rank**-0.25
        )
        self.R_2 = nn.Parameter(
            torch.randn(_per_head(heads, max_length, rank)) * rank**-0.25
        )

    def synthesize(
        self,
        query: Float[Tensor, "*b q d"],
        position: Int[Tensor, "..."] | None,
        keys: int,
    ) -> Float[Tensor, "... q k"]:
        """The product of the queries' rows of R_1 with the keys' rows of R_2."""
        return _rows(self.R_1, query, position, keys) @ self.R_2[..., :keys, :].mT


class Mixture(Attention):
    """Several attentions' scores, mixed in shares that are learnt.

    ::

        B = Σ_n α_n B_n,   α = softmax(logits)

    Source: Tay et al. 2021, section 3.4. Any attentions of which each takes the source itself as key can be
    mixed, dot-product attention among them; the shares start alike.

    Raises:
        ValueError: there is nothing to mix, or one of the attentions projects its source; or as the
            attentions.
        TypeError: what is to be mixed is no :class:`~companion.attention.base.Attention`, or one that hides keys
            by a rule of its own, which would be lost: only scores are mixed.
    """

    def __init__(self, *attentions: Attention):
        super().__init__()
        if not attentions:
            raise ValueError("a mixture needs at least one attention, not 0")
        for number, attention in enumerate(attentions):
            check_kind(self, attention, Attention)
            check_independent(
                self,
                attention,
                "has_own_mask",
                because="only its scores are used, so the rule would be lost",
            )
            if type(attention).project is not Attention.project:
                name = (
                    f"{type(attention).__name__} (number {number} of {len(attentions)})"
                )
                raise ValueError(
                    f"a mixture takes the source itself as key, but {name} projects it first"
                )
        self.attentions: Any = nn.ModuleList(attentions)
        self.uses_query_position = any(x.uses_query_position for x in attentions)
        self.uses_key_position = any(x.uses_key_position for x in attentions)
        self.logits = nn.Parameter(torch.zeros(len(attentions)))

    def score(
        self,
        query: Float[Tensor, "*b q d"],
        key: Float[Tensor, "*b k e"],
        query_position: Int[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "*b q k"]:
        """The mixed scores."""
        shares = self.logits.softmax(0)
        scores = [x.score_at(query, key, query_position) for x in self.attentions]
        return torch.stack(
            [share * score for share, score in zip(shares, scores, strict=True)]
        ).sum(0)


class HeadLinear(nn.Module):
    """A linear map, another for each head if there are heads; it starts as ``nn.Linear`` does.

    Raises:
        ValueError: a size is below 1, or what it maps has another number of features than ``size``.
    """

    def __init__(self, size: int, output: int, heads: int | None):
        super().__init__()
        check_positive(size=size, output=output)
        bound = size**-0.5
        self.weight = nn.Parameter(
            torch.empty(_per_head(heads, size, output)).uniform_(-bound, bound)
        )
        self.bias = nn.Parameter(
            torch.empty(_per_head(heads, 1, output)).uniform_(-bound, bound)
        )

    def forward(
        self, x: Float[Tensor, "*b n d"], outputs: int | None = None
    ) -> Float[Tensor, "*b n e"]:
        """``x W + b``, or the first ``outputs`` features of it alone."""
        check_size("query", x, self.weight.shape[-2])
        return x @ self.weight[..., :outputs] + self.bias[..., :outputs]


def _per_head(heads: int | None, *sizes: int) -> tuple[int, ...]:
    return sizes if heads is None else (heads, *sizes)


def _rows(
    table: Float[Tensor, "*h n d"], query: Tensor, position: Tensor | None, keys: int
) -> Float[Tensor, "... q d"]:
    """The rows of a table, or of one a head, at the queries' positions."""
    if position is None:  # the last of the keys
        return table[..., keys - query.shape[-2] : keys, :]
    if table.ndim == 2:
        return table[position]
    return table[torch.arange(len(table), device=table.device)[:, None], position]


def _check_within(position: Tensor, length: int) -> None:
    """Refuse positions outside a table; on a GPU or compiled, PyTorch's own error."""
    if position.device.type == "cpu" and not torch.compiler.is_compiling():
        low, high = (int(x) for x in position.aminmax())
        if low < 0 or high >= length:
            raise ValueError(
                f"positions {low} to {high} are asked for, but the table has {length}"
            )
