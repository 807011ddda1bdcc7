"""The family of scores: how well a key matches a query, from a dot product to a network."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import pad

from companion._checks import (
    check_above_zero,
    check_features,
    check_positive,
    check_same_features,
)
from companion.attention.base import (
    Attention,
    at_least_float32,
    precise_matmul,
    reset_uniform,
    show_settings,
    uniform_parameter,
)
from companion.attention.functional import (
    additive_scores,
    cosine_scores,
    fused_attention,
)
from companion.attention.types import Mask, Positions


class Dot(Attention):
    """Dot-product attention: scores that are large where query and key point the same way.

    ::

        e_ij = q_iᵀ k_j

    If the components have variance 1, the scores have variance d, so that the softmax
    saturates in many dimensions: see :class:`ScaledDot`.

    Source: Luong et al. 2015, section 3.1, *dot*.

    Example:
        >>> attention, source = Dot(), torch.randn(2, 5, 8)
        >>> attention(torch.randn(2, 3, 8), *attention.project(source)).shape
        torch.Size([2, 3, 8])
    """

    def score(
        self, query: Float[Tensor, "*b q d"], key: Float[Tensor, "*b k e"]
    ) -> Float[Tensor, "*b q k"]:
        """``q_iᵀ k_j``."""
        return precise_matmul(query, key.mT)


class ScaledDot(Dot):
    """Scaled dot-product attention: the variance of the scores does not grow with d.

    ::

        e_ij = q_iᵀ k_j / √d

    ``forward`` is PyTorch's fused ``scaled_dot_product_attention``, which need not store
    the weights.

    Args:
        scale: what the dot products are multiplied by, instead of 1/√d.
        dropout: the probability that a weight becomes 0 in training, see
            :meth:`~companion.attention.base.Attention.set_dropout`.

    Source: Vaswani et al. 2017, section 3.2.1, where d is d_k.

    Example:
        >>> attention, source = ScaledDot(), torch.randn(2, 5, 8)
        >>> attention(torch.randn(2, 3, 8), *attention.project(source)).shape
        torch.Size([2, 3, 8])
    """

    fuses_dropout = True
    scale: float | None = None  #: 1/√d if ``None``

    def __init__(self, scale: float | None = None, dropout: float = 0.0):
        super().__init__()
        self.scale = scale
        self.set_dropout(dropout)

    def score(
        self, query: Float[Tensor, "*b q d"], key: Float[Tensor, "*b k e"]
    ) -> Float[Tensor, "*b q k"]:
        """``q_iᵀ k_j / √d``."""
        scale = query.shape[-1] ** -0.5 if self.scale is None else self.scale
        return super().score(at_least_float32(query) * scale, key)

    def compute_context(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Mask, position: Positions
    ) -> Tensor:
        """By PyTorch's fused kernel."""
        dropped = self.dropout if self.training else 0.0
        return fused_attention(query, key, value, mask, self.scale, dropout=dropped)

    def extra_repr(self) -> str:
        """The settings, and scale and dropout where they are not the default."""
        changed = [x for x in ("scale", "dropout") if getattr(self, x)]
        return show_settings(self, *self.settings, *changed)


class Cosine(Attention):
    """Content-based addressing: scores by the cosine of the angle, whatever the norms.

    ::

        e_ij = β q_iᵀ k_j / (|q_i| |k_j|)

    With β = 1, no weight is more than e² times another. The score of a zero vector is 0,
    and its gradient is zero.

    Args:
        strength: β.

    Source: Graves et al. 2014 (Neural Turing Machines), section 3.3.1.
    Deviation: the paper's controller outputs β at each step; here it is a constant.

    Example:
        >>> key = torch.tensor([[2.0, 0.0], [0.0, 0.1], [-1.0, 0.0]])
        >>> Cosine(strength=3.0).score(key[:1], key)
        tensor([[ 3.,  0., -3.]])
    """

    settings = ("strength",)

    def __init__(self, strength: float = 1.0):
        super().__init__()
        check_above_zero(strength=strength)
        self.strength = strength

    def score(
        self, query: Float[Tensor, "*b q d"], key: Float[Tensor, "*b k e"]
    ) -> Float[Tensor, "*b q k"]:
        """``β cos(q_i, k_j)``."""
        return self.strength * cosine_scores(query, key)


class Bilinear(Dot):
    """Bilinear attention: a dot product after a matrix has mapped the key to the query's space.

    ::

        e_ij = q_iᵀ W k_j

    ``W k_j`` is in :meth:`project`, so that each state is multiplied by W only once.

    Args:
        query_size, key_size: the number of features of a query and of a source state.

    Source: Luong et al. 2015, section 3.1, *general*.

    Example:
        >>> attention, source = Bilinear(4, 6), torch.randn(2, 5, 6)
        >>> attention(torch.randn(2, 3, 4), *attention.project(source)).shape
        torch.Size([2, 3, 6])
    """

    def __init__(self, query_size: int, key_size: int):
        super().__init__()
        check_positive(query_size=query_size, key_size=key_size)
        self.W = nn.Linear(key_size, query_size, bias=False)

    def project(
        self, source: Float[Tensor, "*b k s"]
    ) -> tuple[Float[Tensor, "*b k d"], Float[Tensor, "*b k s"]]:
        """``W k_j`` as the key, the source itself as the value."""
        return self.W(source), source


class Concat(Attention):
    """Scores by a network with one hidden layer over the concatenation of query and key.

    ::

        e_ij = vᵀ tanh(W [q_i; k_j])

    With ``W = [W_q W_k]`` this is ``vᵀ tanh(W_q q_i + W_k k_j)``: the same function as
    :class:`~companion.attention.additive.Additive`, which stores the two halves as two
    matrices. Only the initialisation differs, because one matrix has more inputs than
    each half. ``W_k k_j`` is ``W [0; k_j]``, in :meth:`project`, so no pair is ever
    concatenated.

    Args:
        query_size, key_size: the number of features of a query and of a source state.
        size: the size of the hidden layer.

    Source: Luong et al. 2015, section 3.1, *concat*.

    Example:
        >>> attention, source = Concat(4, 6, 8), torch.randn(2, 5, 6)
        >>> attention(torch.randn(2, 3, 4), *attention.project(source)).shape
        torch.Size([2, 3, 6])
    """

    def __init__(self, query_size: int, key_size: int, size: int):
        super().__init__()
        check_positive(query_size=query_size, key_size=key_size, size=size)
        self.query_size, self.key_size = query_size, key_size
        self.W = nn.Linear(query_size + key_size, size, bias=False)
        self.v = uniform_parameter(size)

    def reset_parameters(self) -> None:
        """Initialise v as in ``nn.Linear``; the matrix is a module of its own."""
        reset_uniform(self.v)

    def project(
        self, source: Float[Tensor, "*b k s"]
    ) -> tuple[Float[Tensor, "*b k d"], Float[Tensor, "*b k s"]]:
        """``W_k k_j`` as the key, the source itself as the value."""
        check_features("source", source, self.key_size)
        return self.W(pad(source, (self.query_size, 0))), source

    def score(
        self, query: Float[Tensor, "*b q s"], key: Float[Tensor, "*b k d"]
    ) -> Float[Tensor, "*b q k"]:
        """``vᵀ tanh(W [q_i; k_j])``, where the key is already ``W_k k_j``."""
        check_features("query", query, self.query_size)
        query = self.W(pad(query, (0, self.key_size)))
        return additive_scores(query, key, self.v)


class MLP(Attention):
    """Scores by a network with several hidden layers over query and key.

    ::

        z_1 = ReLU(W q_i + U k_j + b),   z_l = ReLU(W_l z_{l−1} + b_l),   e_ij = vᵀ z_L

    ``U k_j`` is in :meth:`project`. The layers after the first are applied to each pair of
    a query and a key.

    Args:
        query_size, key_size: the number of features of a query and of a source state.
        size: the size of each hidden layer.
        layers: the number of hidden layers, L.

    Source: Pavlopoulos et al. 2017 (Deeper attention).
    Deviation: the paper's network has the key as its only input; ours has the query too,
    as all mechanisms here.
    Deviation: the paper's score ends with a bias; we omit it, because it cancels in the
    softmax.

    Example:
        >>> attention, source = MLP(4, 6, 8, layers=3), torch.randn(2, 5, 6)
        >>> attention(torch.randn(2, 3, 4), *attention.project(source)).shape
        torch.Size([2, 3, 6])
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

    def reset_parameters(self) -> None:
        """Initialise v as in ``nn.Linear``; the layers are modules of their own."""
        reset_uniform(self.v)

    def project(
        self, source: Float[Tensor, "*b k s"]
    ) -> tuple[Float[Tensor, "*b k d"], Float[Tensor, "*b k s"]]:
        """``U k_j`` as the key, the source itself as the value."""
        return self.U(source), source

    def score(
        self, query: Float[Tensor, "*b q s"], key: Float[Tensor, "*b k d"]
    ) -> Float[Tensor, "*b q k"]:
        """``vᵀ z_L``, where the key is already ``U k_j``."""
        query = self.W(query)
        check_same_features(query, key)
        hidden = torch.relu_(
            query.unsqueeze(-2) + key.unsqueeze(-3)
        )  # (*b, q, k, size)
        for layer in self.hidden:
            hidden = torch.relu(layer(hidden))
        return precise_matmul(hidden, self.v)


class HiddenDot(Dot):
    """Dot-product attention to a hidden layer over the source: the scores of HAN.

    ::

        u_j = tanh(W h_j + b),   e_ij = q_iᵀ u_j

    The values are the h_j, not the u_j. ``u_j`` is in :meth:`project`, computed once.

    Args:
        size: the number of features of a source state.
        query_size: the number of features of a query, and so of u_j; by default ``size``.

    Source: Yang et al. 2016, section 2.2, equations (5) to (7), where the only query is
    the context vector u_w or u_s.

    Example:
        >>> attention, source = HiddenDot(6, query_size=4), torch.randn(2, 5, 6)
        >>> attention(torch.randn(2, 1, 4), *attention.project(source)).shape
        torch.Size([2, 1, 6])
    """

    def __init__(self, size: int, query_size: int | None = None):
        super().__init__()
        query_size = size if query_size is None else query_size
        check_positive(size=size, query_size=query_size)
        self.W = nn.Linear(size, query_size)

    def project(
        self, source: Float[Tensor, "*b k s"]
    ) -> tuple[Float[Tensor, "*b k d"], Float[Tensor, "*b k s"]]:
        """``tanh(W h_j + b)`` as the key, the source itself as the value."""
        return torch.tanh(self.W(source)), source
