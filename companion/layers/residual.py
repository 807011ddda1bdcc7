"""Around every sub-layer of a Transformer: its input is added to what it makes, and normalised."""

from abc import ABC, abstractmethod

from jaxtyping import Float
from torch import Tensor, nn


class Residual(nn.Module, ABC):
    """How the change that a sub-layer makes is joined to its input.

    A layer calls ``post_norm(x, sublayer(pre_norm(x)))``, and a stack of layers ends with :meth:`final_norm`.
    """

    def __init__(self, size: int, dropout: float):
        super().__init__()
        self.norm = nn.LayerNorm(size)
        self.dropout = nn.Dropout(dropout)

    @abstractmethod
    def pre_norm(self, x: Float[Tensor, "*b d"]) -> Float[Tensor, "*b d"]:
        """What the sub-layer is given."""

    @abstractmethod
    def post_norm(
        self, x: Float[Tensor, "*b d"], change: Float[Tensor, "*b d"]
    ) -> Float[Tensor, "*b d"]:
        """What comes out, from the input and what the sub-layer made of it."""

    @abstractmethod
    def final_norm(self) -> nn.Module:
        """What follows the last layer of a stack."""


class PostNorm(Residual):
    """Normalise the sum, as the paper writes it.

    ::

        LayerNorm(x + Dropout(Sublayer(x)))

    Source: Vaswani et al. 2017, sections 3.1 and 5.4.
    """

    def pre_norm(self, x: Float[Tensor, "*b d"]) -> Float[Tensor, "*b d"]:
        """The input itself."""
        return x

    def post_norm(
        self, x: Float[Tensor, "*b d"], change: Float[Tensor, "*b d"]
    ) -> Float[Tensor, "*b d"]:
        """``LayerNorm(x + Dropout(change))``."""
        return self.norm(x + self.dropout(change))

    def final_norm(self) -> nn.Module:
        """Nothing: the last sum is normalised already."""
        return nn.Identity()


class PreNorm(Residual):
    """Normalise what goes into the sub-layer, and leave the sum alone.

    ::

        x + Dropout(Sublayer(LayerNorm(x)))

    Source: Xiong et al. 2020, section 3.2 and figure 1 (b). The sum is never normalised, so a stack needs one
    LayerNorm at its end.
    """

    def pre_norm(self, x: Float[Tensor, "*b d"]) -> Float[Tensor, "*b d"]:
        """``LayerNorm(x)``."""
        return self.norm(x)

    def post_norm(
        self, x: Float[Tensor, "*b d"], change: Float[Tensor, "*b d"]
    ) -> Float[Tensor, "*b d"]:
        """``x + Dropout(change)``."""
        return x + self.dropout(change)

    def final_norm(self) -> nn.Module:
        """One last LayerNorm."""
        return nn.LayerNorm(self.norm.normalized_shape)
