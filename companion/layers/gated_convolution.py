"""Of what a convolutional network of sentences is built: normalised weights, gates, a way around them."""

import math

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import glu
from torch.nn.utils.parametrizations import weight_norm

from companion._checks import check_positive


def weight_normalised(layer: nn.Linear, gain: float) -> nn.Module:
    """Weight normalisation for a linear layer, which keeps ``gain`` times the variance.

    ::

        w = g v / |v|,   at first w ~ N(0, √(gain / n)),   bias 0

    Each output has its own g, and n inputs. Source: Gehring et al. 2017, section 3.5, where the gain is p
    after dropout that keeps the share p, and 4p before a gated linear unit, which passes on about a quarter
    of the variance (appendix A.1). Weight normalisation: Salimans and Kingma 2016, section 2.

    Raises:
        ValueError: the gain is not above 0, as where all is dropped out.
    """
    if not gain > 0:
        raise ValueError(
            f"the gain must be above 0, not {gain}: dropout must be below 1"
        )
    nn.init.normal_(layer.weight, std=math.sqrt(gain / layer.in_features))
    nn.init.zeros_(layer.bias)
    return weight_norm(layer)


def scale_gradient(x: Float[Tensor, "*b"], scale: float) -> Float[Tensor, "*b"]:
    """The very same numbers, whose gradient on its way back is multiplied by ``scale``."""
    fixed = x.detach()
    return fixed + scale * (x - fixed)


class GatedConvolution(nn.Module):
    """A convolution, its gate, and a way around both.

    ::

        [A; B]_i = W [x_{i−k+1}; …; x_i] + b,   y_i = √½ (A_i ∘ σ(B_i) + x_i)

    Which ``width`` = k inputs an output sees is up to the caller, who puts k − 1 more of them before or
    around the others. Dropout is on what the convolution reads. The columns of W are ordered as the weights
    of ``nn.Conv1d``, feature by feature; but all windows are one product, which for a single word is several
    times faster. Source: Gehring et al. 2017, sections 3.2 and 3.4.

    Raises:
        ValueError: a size is below 1, or dropout is 1.
    """

    def __init__(self, size: int, width: int, dropout: float = 0.1):
        super().__init__()
        check_positive(size=size, width=width)
        self.size, self.width = size, width
        self.dropout = nn.Dropout(dropout)
        self.convolution = weight_normalised(
            nn.Linear(size * width, 2 * size), 4 * (1 - dropout)
        )

    def forward(
        self, inputs: Float[Tensor, "b n d"], seen: Float[Tensor, "b m d"]
    ) -> Float[Tensor, "b n d"]:
        """The gated convolution over ``seen``, the inputs and the k − 1 more, plus the inputs themselves."""
        windows = self.dropout(seen).unfold(1, self.width, 1).flatten(2)
        return math.sqrt(0.5) * (glu(self.convolution(windows), -1) + inputs)
