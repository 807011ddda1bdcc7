"""Query–key normalisation: queries and keys of one norm, so that no score can explode."""

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import rms_norm

from companion._checks import check_above_zero, check_positive
from companion.attention.base import Attention
from companion.attention.types import Positions
from companion.attention.wrappers import Prepared


class _RMSNorm(nn.RMSNorm):
    """As PyTorch's, whose kernel needs gains of the input's type, also under autocast."""

    def forward(self, x: Float[Tensor, "*b d"]) -> Float[Tensor, "*b d"]:
        return rms_norm(x, self.normalized_shape, self.weight.to(x.dtype), self.eps)


class QueryKeyNorm(Prepared):
    """Attention to queries and keys that are normalised first, each head by itself.

    ::

        e_ij = score(RMSNorm_q(q_i), RMSNorm_k(k_j)),   RMSNorm(x) = g ∘ x / √(mean of x² + ε)

    With gains of 1 every vector has the norm √d, so that a scaled dot product is √d times
    the cosine, and at most √d in size. The gains are learned, one for queries and one for
    keys, the same for all heads. Keys are normalised in :meth:`project`, once.

    Together with :class:`~companion.attention.rotary.Rotary`, the norm comes first:
    ``QueryKeyNorm(size, Rotary(...))``.

    Args:
        size: the number of features of a head's queries and keys.
        attention: what is computed with the normalised queries and keys.
        epsilon: ε, which keeps the norm of zeros a number.

    Source: Henry et al. 2020 (the norm, and a learned factor); Dehghani et al. 2023,
    section 2 (LayerNorm of queries and keys).
    Deviation: RMSNorm instead of LayerNorm or the L2 norm, as in OLMo 2 (2025).

    Example:
        >>> from companion.attention import ScaledDot
        >>> attention, x = QueryKeyNorm(4, ScaledDot()), 100 * torch.randn(1, 3, 4)
        >>> key, value = attention.project(x)
        >>> bool(attention.score(x, key).abs().max() <= 2.001)
        True
    """

    def __init__(self, size: int, attention: Attention, epsilon: float = 1e-6):
        super().__init__(attention)
        check_positive(size=size)
        check_above_zero(epsilon=epsilon)
        self.query_norm = _RMSNorm(size, eps=epsilon)
        self.key_norm = _RMSNorm(size, eps=epsilon)

    def project(
        self, source: Float[Tensor, "*b k s"]
    ) -> tuple[Float[Tensor, "*b k d"], Float[Tensor, "*b k v"]]:
        """The normalised key, and the value, which is not normalised."""
        key, _ = self.attention.project(self.key_norm(source))
        return key, self.attention.project(source)[1]

    def prepare(
        self,
        query: Float[Tensor, "*b q d"],
        key: Float[Tensor, "*c k e"],
        query_position: Positions,
    ) -> tuple[Float[Tensor, "*b q d"], Float[Tensor, "*c k e"]]:
        """The normalised query; the key is normalised already."""
        return self.query_norm(query), key

    def extend(
        self,
        query: Float[Tensor, "b *h m d"],
        key: Float[Tensor, "b *g m e"],
        value: Float[Tensor, "b *g m v"],
        state: object,
    ) -> tuple[Float[Tensor, "b *h m v"], object]:
        """The contexts of the next positions, by the attention inside."""
        return self.attention.extend(self.query_norm(query), key, value, state)
