"""Additive attention (Bahdanau et al. 2015) and its location-sensitive form (Chorowski et al. 2015)."""

from jaxtyping import Float
from torch import Tensor, nn

from companion._checks import check_positive, check_size
from companion.attention.base import Attention, uniform_parameter
from companion.attention.functional import additive_scores


class Additive(Attention):
    """Scores by a small network with one hidden layer, which query and key enter side by side.

    ::

        e_ij = vᵀ tanh(W s_{i−1} + U h_j)

    Source: Bahdanau et al. 2015, section 3.1 and appendix A.1.2. Our query, key and weights are the paper's
    s_{i−1}, U_a h_j and α_ij; ``size`` is its n'. U is in :meth:`project`, so the source meets it only once.

    Raises:
        ValueError: a size is below 1, or query or source have another number of features than announced.
    """

    def __init__(self, query_size: int, key_size: int, size: int):
        super().__init__()
        check_positive(query_size=query_size, key_size=key_size, size=size)
        self.W = nn.Linear(query_size, size, bias=False)
        self.U = nn.Linear(key_size, size, bias=False)
        self.v = uniform_parameter(size)

    def project(
        self, source: Float[Tensor, "*b k s"]
    ) -> tuple[Float[Tensor, "*b k d"], Float[Tensor, "*b k s"]]:
        """``U h_j`` as the key, ``h_j`` itself as the value."""
        check_size("source", source, self.U.in_features)
        return self.U(source), source

    def score(
        self, query: Float[Tensor, "*b q s"], key: Float[Tensor, "*b k d"]
    ) -> Float[Tensor, "*b q k"]:
        """``vᵀ tanh(W s + U h)`` for every query with every key; ``key`` is already ``U h``."""
        check_size("query", query, self.W.in_features)
        check_size("projected key", key, self.U.out_features)
        return additive_scores(self.W(query), key, self.v)


class LocationSensitive(Additive):
    """Additive scores that also see where the last look fell.

    ::

        f_i = F * α_{i−1},   e_ij = vᵀ tanh(W s_{i−1} + U h_j + L f_ij + b)

    Source: Chorowski et al. 2015, equations (8) and (9); our U and L are the paper's V and U. ``F`` holds
    ``channels`` filters of ``width`` positions. Beyond both ends of the source the weights count as zero.
    The last term enters before the score, by :meth:`location_features`, which a decoder must call: without it the scores
    are additive. The paper's w is our v.

    Raises:
        ValueError: a size is below 1, or ``width`` is even, so that a filter has no middle.
    """

    def __init__(
        self, query_size: int, key_size: int, size: int, channels: int, width: int
    ):
        super().__init__(query_size, key_size, size)
        check_positive(channels=channels)
        if width < 1 or width % 2 == 0:
            raise ValueError(
                f"the width must be odd and at least 1, so that a filter has a middle, not {width}"
            )
        self.F = nn.Conv1d(1, channels, width, padding=width // 2, bias=False)
        self.L = nn.Linear(channels, size)

    def location_features(
        self, key: Float[Tensor, "b k d"], previous: Float[Tensor, "b k"]
    ) -> Float[Tensor, "b k d"]:
        """The keys ``U h_j``, each with ``L f_ij + b`` added: marked with where the last look fell."""
        if previous.shape[-1] != key.shape[-2]:
            raise ValueError(
                f"{previous.shape[-1]} previous weights do not fit {key.shape[-2]} keys"
            )
        return key + self.L(self.F(previous[:, None]).mT)
