"""The family of scores: how well a key answers a query, in six ways, from no parameter to a small network."""

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from companion._checks import check_positive, check_same_features, check_size
from companion.attention.base import Attention, uniform_parameter
from companion.attention.functional import cosine_scores, dot_product_attention


class Dot(Attention):
    """Scores by the dot product: large where query and key are long and point the same way.

    ::

        e_ij = q_iᵀ k_j

    Source: Luong et al. 2015, section 3.1, *dot*. For entries of variance 1 it has variance d, so that with
    many features the softmax saturates: see :class:`ScaledDot`.

    Raises:
        ValueError: query and key have not the same number of features.
    """

    def score(
        self, query: Float[Tensor, "*b q d"], key: Float[Tensor, "*b k e"]
    ) -> Float[Tensor, "*b q k"]:
        """``qᵀ k`` for every query with every key."""
        check_same_features(query, key)
        return query @ key.mT


class ScaledDot(Dot):
    """Scores by the dot product over √d, so that its variance does not grow with the number of features.

    ::

        e_ij = q_iᵀ k_j / √d

    Source: Vaswani et al. 2017, section 3.2.1, where d is d_k. ``forward`` is PyTorch's fused
    ``scaled_dot_product_attention``, which need not keep the weights.

    Raises:
        ValueError: query and key have not the same number of features.
    """

    def score(
        self, query: Float[Tensor, "*b q d"], key: Float[Tensor, "*b k e"]
    ) -> Float[Tensor, "*b q k"]:
        """``qᵀ k / √d`` for every query with every key."""
        return super().score(query * query.shape[-1] ** -0.5, key)

    def forward(
        self,
        query: Float[Tensor, "*b q d"],
        key: Float[Tensor, "*b k e"],
        value: Float[Tensor, "*b k v"],
        mask: Bool[Tensor, "..."] | None = None,
        query_position: Int[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "*b q v"]:
        """The context by a fused kernel: equal to the definition, zero where all is masked."""
        return dot_product_attention(query, key, value, mask)


class Cosine(Attention):
    """Scores by the angle alone, however long the vectors are, times a fixed strength.

    ::

        e_ij = β q_iᵀ k_j / (|q_i| |k_j|)

    Source: Graves et al. 2014 (Neural Turing Machines), section 3.3.1; ``strength`` is β, which the paper's
    controller chooses anew at each step. With β = 1 no weight is more than e² times another. A vector of
    zeros has no direction: its score is 0, and it gets no gradient.

    Raises:
        ValueError: the strength is not a finite number above 0, or query and key have not the same number of
            features.
    """

    def __init__(self, strength: float = 1.0):
        super().__init__()
        if not 0 < strength < math.inf:
            raise ValueError(
                f"the strength must be a finite number above 0, not {strength}"
            )
        self.strength = strength

    def score(
        self, query: Float[Tensor, "*b q d"], key: Float[Tensor, "*b k e"]
    ) -> Float[Tensor, "*b q k"]:
        """``β cos(q, k)`` for every query with every key."""
        return self.strength * cosine_scores(query, key)


class Bilinear(Attention):
    """Scores by a dot product in the query's space, to which a matrix brings the key.

    ::

        e_ij = q_iᵀ W k_j

    Source: Luong et al. 2015, section 3.1, *general*. ``W k_j`` is in :meth:`project`, so the source meets
    the matrix only once.

    Raises:
        ValueError: a size is below 1, or query or source have another number of features than announced.
    """

    def __init__(self, query_size: int, key_size: int):
        super().__init__()
        check_positive(query_size=query_size, key_size=key_size)
        self.W = nn.Linear(key_size, query_size, bias=False)

    def project(
        self, source: Float[Tensor, "*b k s"]
    ) -> tuple[Float[Tensor, "*b k d"], Float[Tensor, "*b k s"]]:
        """``W k_j`` as the key, the source itself as the value."""
        check_size("source", source, self.W.in_features)
        return self.W(source), source

    def score(
        self, query: Float[Tensor, "*b q d"], key: Float[Tensor, "*b k e"]
    ) -> Float[Tensor, "*b q k"]:
        """``qᵀ W k`` for every query with every key; ``key`` is already ``W k``."""
        check_size("query", query, self.W.out_features)
        check_size("projected key", key, self.W.out_features)
        return query @ key.mT


class Concat(Attention):
    """Scores by one hidden layer over query and key, set side by side.

    ::

        e_ij = vᵀ tanh(W [q_i; k_j])

    Source: Luong et al. 2015, section 3.1, *concat*. With ``W = [W_q W_k]`` this is
    ``vᵀ tanh(W_q q + W_k k)``: the same function as :class:`companion.attention.additive.Additive`, which keeps the two
    halves as two matrices. Only the first values of the parameters differ, as one matrix has more inputs than
    each of two. ``W_k k`` is in :meth:`project`, so no pair is ever set side by side.

    Raises:
        ValueError: a size is below 1, or query or source have another number of features than announced.
    """

    def __init__(self, query_size: int, key_size: int, size: int):
        super().__init__()
        check_positive(query_size=query_size, key_size=key_size, size=size)
        self.query_size, self.key_size = query_size, key_size
        self.W = nn.Linear(query_size + key_size, size, bias=False)
        self.v = uniform_parameter(size)

    def project(
        self, source: Float[Tensor, "*b k s"]
    ) -> tuple[Float[Tensor, "*b k d"], Float[Tensor, "*b k s"]]:
        """``W_k k_j`` as the key, the source itself as the value."""
        check_size("source", source, self.key_size)
        return functional.linear(source, self.W.weight[:, self.query_size :]), source

    def score(
        self, query: Float[Tensor, "*b q s"], key: Float[Tensor, "*b k d"]
    ) -> Float[Tensor, "*b q k"]:
        """``vᵀ tanh(W [q; k])`` for every query with every key; ``key`` is already ``W_k k``."""
        check_size("query", query, self.query_size)
        check_size("projected key", key, self.W.out_features)
        projected = functional.linear(query, self.W.weight[:, : self.query_size])
        return torch.tanh_(projected.unsqueeze(-2) + key.unsqueeze(-3)) @ self.v


class MLP(Attention):
    """Scores by a network with several hidden layers, for what one layer cannot tell.

    ::

        z_1 = ReLU(W q_i + U k_j + b),   z_l = ReLU(W_l z_{l−1} + b_l),   e_ij = vᵀ z_L

    Source: Pavlopoulos et al. 2017 (Deeper attention), whose network sees the key alone and ends with a bias;
    ours sees the query too, and lets the bias go, which the softmax cancels. ``layers`` is L. ``U k_j`` is in
    :meth:`project`; the layers after the first must see every pair.

    Raises:
        ValueError: a size is below 1, or query or source have another number of features than announced.
    """

    def __init__(self, query_size: int, key_size: int, size: int, layers: int = 2):
        super().__init__()
        check_positive(
            query_size=query_size, key_size=key_size, size=size, layers=layers
        )
        self.W = nn.Linear(query_size, size)
        self.U = nn.Linear(key_size, size, bias=False)
        self.hidden = nn.ModuleList(nn.Linear(size, size) for _ in range(layers - 1))
        self.v = uniform_parameter(size)

    def project(
        self, source: Float[Tensor, "*b k s"]
    ) -> tuple[Float[Tensor, "*b k d"], Float[Tensor, "*b k s"]]:
        """``U k_j`` as the key, the source itself as the value."""
        check_size("source", source, self.U.in_features)
        return self.U(source), source

    def score(
        self, query: Float[Tensor, "*b q s"], key: Float[Tensor, "*b k d"]
    ) -> Float[Tensor, "*b q k"]:
        """The network's answer for every query with every key; ``key`` is already ``U k``."""
        check_size("query", query, self.W.in_features)
        check_size("projected key", key, self.U.out_features)
        hidden = torch.relu_(self.W(query).unsqueeze(-2) + key.unsqueeze(-3))
        for layer in self.hidden:
            hidden = torch.relu_(layer(hidden))
        return hidden @ self.v


class HiddenDot(Dot):
    """Scores by the dot product of the query with what one layer makes of the source.

    ::

        u_j = tanh(W h_j + b),   e_ij = q_iᵀ u_j

    The values are the h_j, not the u_j. Source: Yang et al. 2016, section 2.2, equations (5) to (7), with the
    one query u_w, or u_s. ``tanh(W h_j + b)`` is in :meth:`project`, computed once.

    Raises:
        ValueError: ``size`` is below 1, or query or source have another number of features.
    """

    def __init__(self, size: int):
        super().__init__()
        check_positive(size=size)
        self.W = nn.Linear(size, size)

    def project(
        self, source: Float[Tensor, "*b k d"]
    ) -> tuple[Float[Tensor, "*b k d"], Float[Tensor, "*b k d"]]:
        """``tanh(W h_j + b)`` as the key, the source itself as the value."""
        check_size("source", source, self.W.in_features)
        return torch.tanh(self.W(source)), source
