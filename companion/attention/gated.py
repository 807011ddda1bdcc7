"""Gated attention (Qiu et al. 2025): a gate closes heads that have nothing to contribute."""

from typing import Any, NoReturn

from jaxtyping import Float
from torch import Tensor, nn

from companion.attention.multihead import MultiHeadAttention


class GatedAttention(MultiHeadAttention):
    """Multi-head attention whose contexts are multiplied by a gate before they are projected.

    ::

        output_i = W_O (σ(W_G x_i) ∘ [head_1; …; head_h])

    The weights of a softmax sum to 1, so that a head always returns something. With a
    gate near 0 it returns nothing, wherever its weight is.

    Args:
        d_model: features of a position and of the output.
        heads: the number of heads.
        others, options: as of
            :class:`~companion.attention.multihead.MultiHeadAttention`; ``bias`` concerns
            the gate too.

    Source: Qiu et al. 2025, section 2.2, the gate behind the attention (*G1*), one number
    for each feature.

    Example:
        >>> attention, x = GatedAttention(d_model=8, heads=2), torch.randn(1, 3, 8)
        >>> attention(x, *attention.project(x)).shape
        torch.Size([1, 3, 8])
    """

    def __init__(self, d_model: int, heads: int, *others: Any, **options: Any):
        super().__init__(d_model, heads, *others, **options)
        bias = self.W_O.bias is not None
        self.W_G = nn.Linear(d_model, self.W_O.in_features, bias)
        nn.init.xavier_uniform_(self.W_G.weight)
        if bias:
            nn.init.zeros_(self.W_G.bias)

    def output(
        self, query: Float[Tensor, "*b q s"], context: Float[Tensor, "*b h q v"]
    ) -> Float[Tensor, "*b q s"]:
        """The output, from the gated contexts of all heads."""
        gate = self.W_G(query).sigmoid().unflatten(-1, (self.heads, -1))
        return super().output(query, context * gate.transpose(-3, -2))

    @classmethod
    def from_torch(cls, *others: Any, **options: Any) -> NoReturn:
        """Refused (TypeError): PyTorch has no gate."""
        raise TypeError(
            "PyTorch's attention has no gate: use MultiHeadAttention.from_torch"
        )

    def to_torch(self) -> NoReturn:
        """Refused (TypeError): PyTorch has no gate."""
        raise TypeError("PyTorch's attention has no gate, which to_torch would lose")
