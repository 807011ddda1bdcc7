"""Residual connections around the sub-layers of a Transformer, with layer normalisation."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from companion._checks import check_positive


class Residual(nn.Module, ABC):
    """A residual connection around a sub-layer, with dropout and layer normalisation.

    A stack of layers ends with :meth:`final_norm`.

    Args:
        size: dimension of the inputs.
        dropout: dropout probability of the sub-layer's output.
    """

    def __init__(self, size: int, dropout: float):
        super().__init__()
        check_positive(size=size)
        self.norm: Any = nn.LayerNorm(size)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, x: Float[Tensor, "*b d"], sublayer: Callable[[Tensor], Tensor]
    ) -> Float[Tensor, "*b d"]:
        """The output with this sub-layer in between."""
        return self.post_norm(x, sublayer(self.pre_norm(x)))

    def extend(
        self,
        x: Float[Tensor, "*b d"],
        sublayer: Callable[[Tensor, Any], tuple[Tensor, Any]],
        state: Any,
    ) -> tuple[Float[Tensor, "*b d"], Any]:
        """The same with a sub-layer that takes its state and returns the next one."""
        change, state = sublayer(self.pre_norm(x), state)
        return self.post_norm(x, change), state

    @abstractmethod
    def pre_norm(self, x: Float[Tensor, "*b d"]) -> Float[Tensor, "*b d"]:
        """The input of the sub-layer."""

    @abstractmethod
    def post_norm(
        self, x: Float[Tensor, "*b d"], change: Float[Tensor, "*b d"]
    ) -> Float[Tensor, "*b d"]:
        """The output, from the input ``x`` and the sub-layer's output ``change``."""

    def _dropped(self, change: Float[Tensor, "*b d"]) -> Float[Tensor, "*b d"]:
        return self.dropout(change) if self.training else change

    @abstractmethod
    def final_norm(self) -> nn.Module:
        """The module after the last layer of a stack."""


class PostNorm(Residual):
    """Normalises the sum, as in the original Transformer.

    ::

        LayerNorm(x + Dropout(Sublayer(x)))

    Source: Vaswani et al. 2017, sections 3.1 and 5.4.

    Example:
        >>> residual, sublayer = PostNorm(8, dropout=0.1), nn.Linear(8, 8)
        >>> residual(torch.randn(2, 8), sublayer).shape
        torch.Size([2, 8])
    """

    def pre_norm(self, x: Float[Tensor, "*b d"]) -> Float[Tensor, "*b d"]:
        """``x`` itself."""
        return x

    def post_norm(
        self, x: Float[Tensor, "*b d"], change: Float[Tensor, "*b d"]
    ) -> Float[Tensor, "*b d"]:
        """``LayerNorm(x + Dropout(change))``."""
        return self.norm(x + self._dropped(change))

    def final_norm(self) -> nn.Module:
        """The identity: the last sum is normalised already."""
        return nn.Identity()


class PreNorm(Residual):
    """Normalises the input of the sub-layer and leaves the sum as it is.

    ::

        x + Dropout(Sublayer(LayerNorm(x)))

    No sum is normalised, so a stack needs one LayerNorm at its end.

    Source: Xiong et al. 2020, section 3.2 and figure 1 (b).

    Example:
        >>> residual, x = PreNorm(8, dropout=0.0), torch.randn(2, 8)
        >>> torch.equal(residual(x, torch.zeros_like), x)
        True
    """

    def pre_norm(self, x: Float[Tensor, "*b d"]) -> Float[Tensor, "*b d"]:
        """``LayerNorm(x)``."""
        return self.norm(x)

    def post_norm(
        self, x: Float[Tensor, "*b d"], change: Float[Tensor, "*b d"]
    ) -> Float[Tensor, "*b d"]:
        """``x + Dropout(change)``."""
        return x + self._dropped(change)

    def final_norm(self) -> nn.Module:
        """One last LayerNorm."""
        return nn.LayerNorm(self.norm.normalized_shape)


class PreRMSNorm(PreNorm):
    """As :class:`PreNorm`, with the root mean square norm.

    ::

        x + Dropout(Sublayer(RMSNorm(x))),   RMSNorm(x) = g ∘ x / √(mean of x_i² + ε)

    RMSNorm neither subtracts the mean nor adds a bias.

    Args:
        size, dropout: as of :class:`Residual`.

    Source: Zhang and Sennrich 2019, equation (4); before each sub-layer as in Touvron et
    al. 2023 (LLaMA), section 2.2. ε is 10⁻⁶.

    Example:
        >>> residual = PreRMSNorm(2, dropout=0.0)
        >>> residual.pre_norm(torch.tensor([3.0, -4.0])).detach()
        tensor([ 0.8485, -1.1314])
    """

    def __init__(self, size: int, dropout: float):
        super().__init__(size, dropout)
        self.norm = nn.RMSNorm(size, eps=1e-6)

    def final_norm(self) -> nn.Module:
        """One last RMSNorm."""
        return nn.RMSNorm(self.norm.normalized_shape, eps=1e-6)
