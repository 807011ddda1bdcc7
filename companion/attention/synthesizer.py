"""Synthesizers (Tay et al. 2021): attention whose scores do not depend on the keys' content.

``heads`` gives each head of a :class:`~companion.attention.multihead.MultiHeadAttention`
parameters of its own. Without it, all heads use the same. A sequence may be shorter than
``max_length``; it uses the first positions.
"""

import math
from abc import ABC, abstractmethod
from typing import Any

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from companion._checks import (
    check_head_axis,
    check_independent,
    check_kind,
    check_last_positions,
    check_max_length,
    check_positive,
    check_table_positions,
    query_positions,
)
from companion.attention.base import (
    Attention,
    at_least_float32,
    masked_softmax,
    precise_matmul,
)
from companion.attention.types import Mask, Positions


class Synthesizer(Attention, ABC):
    """Scores for each position up to a maximum length, independent of the keys' content.

    Args:
        max_length: the number of positions that have a score.
        heads: how many heads have parameters of their own; ``None`` for one set.

    Source: Tay et al. 2021, section 3.
    """

    uses_key_position = True
    settings = ("max_length", "heads")

    def __init__(self, max_length: int, heads: int | None):
        super().__init__()
        check_positive(max_length=max_length, heads=1 if heads is None else heads)
        self.max_length = max_length
        self.heads = heads

    @abstractmethod
    def synthesize(self, query: Tensor, position: Positions, keys: int) -> Tensor:
        """The scores ``(…, q, k)`` of the first ``keys`` positions.

        They have no batch if it has no effect. Without a position, the queries are the
        last of these positions.
        """

    def score(
        self,
        query: Float[Tensor, "*b q d"],
        key: Float[Tensor, "*b k e"],
        query_position: Positions = None,
    ) -> Float[Tensor, "*b q k"]:
        """The score of each position for each query; of the keys only their number counts."""
        scores = self._scores(query, key, query_position)
        return scores.expand(*query.shape[:-1], key.shape[-2])

    def _scores(
        self, query: Tensor, key: Tensor, query_position: Positions
    ) -> Float[Tensor, "... q k"]:
        """The scores, without the batch where they do not depend on it."""
        keys = key.shape[-2]
        check_max_length("sequence", keys, "the synthesizer", self.max_length)
        check_head_axis(query, self.heads)
        if query_position is not None:
            query_position = query_positions(query, keys, query_position)
            check_table_positions(query_position, self.max_length)
        elif self.uses_query_position:
            check_last_positions(query.shape[-2], keys)
        return self.synthesize(query, query_position, keys)


class DenseSynthesizer(Synthesizer):
    """Each position predicts its scores from its own content, by a feed-forward network.

    ::

        B_i = relu(x_i W_1 + b_1) W_2 + b_2,   a score for each position

    The query is the paper's X_i.

    Args:
        size: features of a query, and of the hidden layer.
        max_length, heads: as in :class:`Synthesizer`.

    Source: Tay et al. 2021, section 3.1.

    Example:
        >>> attention, x = DenseSynthesizer(size=4, max_length=9), torch.randn(1, 5, 4)
        >>> attention.weights(x, x).shape
        torch.Size([1, 5, 5])
    """

    def __init__(self, size: int, max_length: int, heads: int | None = None):
        super().__init__(max_length, heads)
        self.hidden = HeadLinear(size, size, heads)
        self.output = HeadLinear(size, max_length, heads)

    def synthesize(self, query: Tensor, position: Positions, keys: int) -> Tensor:
        """Two layers on each query."""
        return self.output(self.hidden(query).relu(), keys)


class FactorizedDense(Synthesizer):
    """A dense synthesizer that scores the rows and the columns of a grid of positions.

    ::

        h_i = relu(x_i W_1 + b_1),   A_i = h_i W_A + b_A,   B_i = h_i W_B + b_B
        C_i,(r·a + c) = A_i,c · B_i,r,   c < a, r < b

    A is tiled and each entry of B repeated, so that all a·b products differ. If both were
    tiled, there would be at most lcm(a, b) different ones.

    Args:
        size: features of a query, and of the hidden layer.
        a, b: columns and rows of the grid; ``max_length`` is a·b.
        heads: as in :class:`Synthesizer`.

    Source: Tay et al. 2021, section 3.3.
    Deviation: the paper does not say whether A and B have the first layer in common; here
    they have, which agrees with its count of parameters in table 1, d² + d(a + b).

    Example:
        >>> attention, x = FactorizedDense(size=4, a=3, b=2), torch.randn(1, 5, 4)
        >>> attention.max_length, attention.weights(x, x).shape
        (6, torch.Size([1, 5, 5]))
    """

    def __init__(self, size: int, a: int, b: int, heads: int | None = None):
        check_positive(a=a, b=b)
        super().__init__(a * b, heads)
        self.hidden = HeadLinear(size, size, heads)
        self.A = HeadLinear(size, a, heads)
        self.B = HeadLinear(size, b, heads)

    def synthesize(self, query: Tensor, position: Positions, keys: int) -> Tensor:
        """Every product of an entry of A with one of B, row by row."""
        hidden = self.hidden(query).relu()
        columns = self.A(hidden)  # (*b, q, a)
        rows = self.B(hidden, math.ceil(keys / columns.shape[-1]))  # (*b, q, ≤ b)
        products = at_least_float32(rows).unsqueeze(-1) * columns.unsqueeze(-2)
        return rearrange(products, "... r c -> ... (r c)")[..., :keys]


class UnconditionalSynthesizer(Synthesizer):
    """A table of scores that is the same for every input, so one softmax serves the batch.

    Args:
        max_length, heads: as in :class:`Synthesizer`.

    Source: Tay et al. 2021, section 3.2.
    """

    uses_query_position = True

    def compute_weights(
        self, query: Tensor, key: Tensor, mask: Mask, position: Positions
    ) -> Tensor:
        """The softmax of the scores, computed once for what shares them."""
        shared = self._shared_weights(query, key, mask, position)
        return shared.expand(*query.shape[:-1], key.shape[-2])

    def compute_context(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Mask, position: Positions
    ) -> Tensor:
        """The context of each query.

        Where all sequences have the same weights, one matrix product computes all
        contexts, with the values of the batch side by side as columns.
        """
        if query.shape[:-2] != value.shape[:-2]:
            return super().compute_context(query, key, value, mask, position)
        weights = self._shared_weights(query, key, mask, position)
        axes = value.ndim - weights.ndim  # of the batch, which the weights do not have
        if axes <= 0:
            return weights @ value
        batch = value.shape[:axes]
        columns = rearrange(value.flatten(0, axes - 1), "b ... k v -> ... k (v b)")
        sizes = {"v": value.shape[-1], "b": batch.numel()}
        contexts = rearrange(weights @ columns, "... q (v b) -> b ... q v", **sizes)
        return contexts.unflatten(0, batch)

    def _shared_weights(
        self, query: Tensor, key: Tensor, mask: Mask, position: Positions
    ) -> Float[Tensor, "... q k"]:
        """The weights, without the leading batch axes along which they are equal."""
        scores = self._scores(query, key, position)
        if mask is not None:
            while mask.ndim > scores.ndim and mask.shape[0] == 1:
                mask = mask[0]
            scores = scores.expand(torch.broadcast_shapes(scores.shape, mask.shape))
            mask = mask if mask.ndim == scores.ndim else mask.expand(scores.shape)
        return masked_softmax(scores, mask).to(query.dtype)


class RandomSynthesizer(UnconditionalSynthesizer):
    """One table of scores, a parameter, initialised at random and the same for all inputs.

    ::

        B = R

    R is initialised from a standard normal distribution.

    Args:
        max_length, heads: as in :class:`Synthesizer`.

    Source: Tay et al. 2021, section 3.2.

    Example:
        >>> attention, x, y = RandomSynthesizer(9), torch.randn(1, 5, 4), torch.randn(1, 5, 4)
        >>> torch.equal(attention.weights(x, x), attention.weights(y, y))
        True
    """

    R: Tensor

    def __init__(self, max_length: int, heads: int | None = None):
        super().__init__(max_length, heads)
        self.R = nn.Parameter(torch.empty(_per_head(heads, max_length, max_length)))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise R again."""
        nn.init.normal_(self.R)

    def synthesize(self, query: Tensor, position: Positions, keys: int) -> Tensor:
        """The queries' rows of R, and the keys' columns."""
        return _rows(self.R, query, position, keys)[..., :keys]


class FixedRandom(RandomSynthesizer):
    """A random table of scores that is never trained.

    R is a buffer: it is saved with the model, but is no parameter.

    Args:
        max_length, heads: as in :class:`Synthesizer`.

    Source: Tay et al. 2021, section 3.2.

    Example:
        >>> attention = FixedRandom(max_length=9)
        >>> list(attention.parameters()), attention.R.shape
        ([], torch.Size([9, 9]))
    """

    def __init__(self, max_length: int, heads: int | None = None):
        super().__init__(max_length, heads)
        R = self.R.detach()
        del self.R
        self.register_buffer("R", R)


class FactorizedRandom(UnconditionalSynthesizer):
    """A random table of low rank: the product of two thin matrices, which are parameters.

    ::

        B = R_1 R_2ᵀ

    The entries are initialised with a variance of 1/√rank, so that those of B have a
    variance of 1.

    Args:
        max_length, heads: as in :class:`Synthesizer`.
        rank: the paper's k.

    Source: Tay et al. 2021, section 3.3.

    Example:
        >>> attention = FactorizedRandom(max_length=9, rank=2)
        >>> sum(parameter.numel() for parameter in attention.parameters())
        36
    """

    def __init__(self, max_length: int, rank: int = 8, heads: int | None = None):
        super().__init__(max_length, heads)
        check_positive(rank=rank)
        self.R_1 = nn.Parameter(torch.empty(_per_head(heads, max_length, rank)))
        self.R_2 = nn.Parameter(torch.empty(_per_head(heads, max_length, rank)))
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Initialise R_1 and R_2 again."""
        for factor in (self.R_1, self.R_2):
            factor.normal_().mul_(factor.shape[-1] ** -0.25)

    def synthesize(self, query: Tensor, position: Positions, keys: int) -> Tensor:
        """The product of the queries' rows of R_1 with the keys' rows of R_2."""
        rows = _rows(self.R_1, query, position, keys)
        return precise_matmul(rows, self.R_2[..., :keys, :].mT)


class Mixture(Attention):
    """A weighted sum of the scores of several attentions, with weights that are learned.

    ::

        B = Σ_n α_n B_n,   α = softmax(logits)

    All weights α are equal at initialisation.

    Args:
        attentions: any attentions whose key is the source itself, such as
            :class:`~companion.attention.scores.ScaledDot`, without a rule or noise of
            their own: only scores are mixed.

    Source: Tay et al. 2021, section 3.4.

    Example:
        >>> from companion.attention import ScaledDot
        >>> attention, x = Mixture(ScaledDot(), RandomSynthesizer(9)), torch.randn(1, 5, 4)
        >>> attention.weights(x, x).shape
        torch.Size([1, 5, 5])
    """

    def __init__(self, *attentions: Attention):
        super().__init__()
        _check_mixable(self, attentions)
        self.attentions: Any = nn.ModuleList(attentions)
        self.uses_query_position = any(x.uses_query_position for x in attentions)
        self.logits = nn.Parameter(torch.zeros(len(attentions)))

    def reset_parameters(self) -> None:
        """Make the weights of the mixture equal again."""
        nn.init.zeros_(self.logits)

    def score(
        self,
        query: Float[Tensor, "*b q d"],
        key: Float[Tensor, "*b k e"],
        query_position: Positions = None,
    ) -> Float[Tensor, "*b q k"]:
        """The weighted sum of the scores."""
        weights = at_least_float32(self.logits).softmax(0)
        scores = [
            weight * at_least_float32(attention.score_at(query, key, query_position))
            for weight, attention in zip(weights, self.attentions, strict=True)
        ]
        return torch.stack(scores).sum(0)


class HeadLinear(nn.Module):
    """A linear map, or one for each head; it is initialised as ``nn.Linear``.

    ::

        y = x W + b

    Args:
        size, output: features of x and of y.
        heads: as in :class:`Synthesizer`.
    """

    def __init__(self, size: int, output: int, heads: int | None):
        super().__init__()
        check_positive(size=size, output=output)
        self.weight = nn.Parameter(torch.empty(_per_head(heads, size, output)))
        self.bias = nn.Parameter(torch.empty(_per_head(heads, 1, output)))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise weight and bias again, uniformly in ±1/√size."""
        bound = self.weight.shape[-2] ** -0.5
        nn.init.uniform_(self.weight, -bound, bound)
        nn.init.uniform_(self.bias, -bound, bound)

    def forward(
        self, x: Float[Tensor, "*b n d"], outputs: int | None = None
    ) -> Float[Tensor, "*b n e"]:
        """``x W + b``, or only its first ``outputs`` features."""
        return x @ self.weight[..., :outputs] + self.bias[..., :outputs]


def _check_mixable(owner: nn.Module, attentions: tuple[Attention, ...]) -> None:
    """Refuse attentions whose scores cannot be added."""
    if not attentions:
        raise ValueError("a mixture needs at least one attention, not 0")
    for number, attention in enumerate(attentions):
        check_kind(owner, attention, Attention)
        check_independent(
            owner, attention, "has_own_weights", because="only scores are mixed"
        )
        if type(attention).project is not Attention.project:
            name = f"{type(attention).__name__} (number {number} of {len(attentions)})"
            raise ValueError(
                f"a mixture takes the source itself as key, but {name} projects it first"
            )


def _per_head(heads: int | None, *sizes: int) -> tuple[int, ...]:
    return sizes if heads is None else (heads, *sizes)


def _rows(
    table: Float[Tensor, "*h n d"], query: Tensor, position: Tensor | None, keys: int
) -> Float[Tensor, "... q d"]:
    """The rows of a table, or of one for each head, at the positions of the queries."""
    if position is None:  # the last of the keys
        return table[..., keys - query.shape[-2] : keys, :]
    if table.ndim == 2:
        return table[position]
    return table[torch.arange(len(table), device=table.device)[:, None], position]
