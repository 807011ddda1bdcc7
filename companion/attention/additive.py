"""Additive attention (Bahdanau et al. 2015), and with location (Chorowski et al. 2015)."""

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from companion._checks import check_odd, check_positive
from companion.attention.base import Attention, reset_uniform, uniform_parameter
from companion.attention.functional import additive_scores


class Additive(Attention):
    """Additive attention: scores by a network with one hidden layer over query and key.

    ::

        e_ij = vᵀ tanh(W s_{i−1} + U h_j)

    U is in :meth:`project`, so that each state is multiplied by it only once.

    Args:
        query_size, key_size: the number of features of a query and of a source state.
        size: the size of the hidden layer, n' in the paper.

    Source: Bahdanau et al. 2015, section 3.1 and appendix A.1.2. Our query is the paper's
    s_{i−1}, our key U_a h_j, and our weights are α_ij.

    Example:
        >>> attention, source = Additive(4, 6, 8), torch.randn(2, 5, 6)
        >>> key, value = attention.project(source)
        >>> attention(torch.randn(2, 1, 4), key, value).shape
        torch.Size([2, 1, 6])
    """

    def __init__(self, query_size: int, key_size: int, size: int):
        super().__init__()
        check_positive(query_size=query_size, key_size=key_size, size=size)
        self.W = nn.Linear(query_size, size, bias=False)
        self.U = nn.Linear(key_size, size, bias=False)
        self.v = uniform_parameter(size)

    def reset_parameters(self) -> None:
        """Initialise v as in ``nn.Linear``; the matrices are modules of their own."""
        reset_uniform(self.v)

    def project(
        self, source: Float[Tensor, "*b k s"]
    ) -> tuple[Float[Tensor, "*b k d"], Float[Tensor, "*b k s"]]:
        """``U h_j`` as the key, ``h_j`` itself as the value."""
        return self.U(source), source

    def score(
        self, query: Float[Tensor, "*b q s"], key: Float[Tensor, "*b k d"]
    ) -> Float[Tensor, "*b q k"]:
        """``vᵀ tanh(W s_{i−1} + U h_j)``, where the key is already ``U h_j``."""
        return additive_scores(self.W(query), key, self.v)


class LocationSensitive(Additive):
    """Additive attention whose scores also depend on the previous attention weights.

    ::

        f_i = F * α_{i−1}
        e_ij = vᵀ tanh(W s_{i−1} + U h_j + L f_ij + b)

    The last two terms are added to the keys by :meth:`location_features`, which a decoder
    must call at each step. Without that call the scores are plain additive ones.

    Args:
        query_size, key_size, size: as in :class:`Additive`.
        channels: the number of filters in F.
        width: the number of positions that a filter covers, odd. Beyond both ends of the
            source the weights count as zero.

    Source: Chorowski et al. 2015, equations (8) and (9). Our U, L and v are the paper's
    V, U and w.

    Example:
        >>> attention = LocationSensitive(4, 6, 8, channels=2, width=3)
        >>> key, value = attention.project(torch.randn(1, 5, 6))
        >>> previous = torch.full((1, 5), 0.2)
        >>> attention.location_features(key, previous).shape
        torch.Size([1, 5, 8])
    """

    def __init__(
        self, query_size: int, key_size: int, size: int, channels: int, width: int
    ):
        super().__init__(query_size, key_size, size)
        check_positive(channels=channels)
        check_odd(width=width)
        self.F = nn.Conv1d(1, channels, width, padding=width // 2, bias=False)
        self.L = nn.Linear(channels, size)

    def location_features(
        self, key: Float[Tensor, "b k d"], previous: Float[Tensor, "b k"]
    ) -> Float[Tensor, "b k d"]:
        """The keys ``U h_j + L f_ij + b``, where f_i are the features of α_{i−1}.

        Args:
            key: what ``project`` returned.
            previous: the attention weights of the step before.
        """
        if previous.shape[-1] != key.shape[-2]:
            raise ValueError(
                f"{previous.shape[-1]} previous weights do not fit {key.shape[-2]} keys"
            )
        features = self.F(previous[:, None]).mT  # (b, k, channels)
        return key + self.L(features)


class SmoothLocationSensitive(LocationSensitive):
    """Location-sensitive attention, normalised with a sigmoid in place of the exponential.

    ::

        α_ij = σ(e_ij) / Σ_l σ(e_il)

    The sigmoid is bounded, so a few large scores cannot take all the weight, and one step
    can attend to many positions. The scores here are log σ(e_ij), whose softmax is the
    formula and does not divide by zero where every sigmoid underflows.

    Source: Chorowski et al. 2015, section 2.3, *smoothing*.

    Example:
        >>> attention = SmoothLocationSensitive(4, 6, 8, channels=2, width=3)
        >>> key, value = attention.project(torch.randn(1, 5, 6))
        >>> weights = attention.weights(torch.randn(1, 1, 4), key)
        >>> torch.testing.assert_close(weights.sum(-1), torch.ones(1, 1))
    """

    def score(
        self, query: Float[Tensor, "*b q s"], key: Float[Tensor, "*b k d"]
    ) -> Float[Tensor, "*b q k"]:
        """``log σ(e_ij)``, with e_ij the scores of :class:`LocationSensitive`."""
        return logsigmoid(super().score(query, key))
