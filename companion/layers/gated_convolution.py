"""The parts of a convolutional network for sentences: normalised weights and gated convolutions."""

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import glu, linear

from companion._checks import check_above_zero, check_positive


class WeightNormLinear(nn.Module):
    """A linear layer with weight normalisation.

    ::

        y = w x + b,   w = g v / |v| for each row,   at first v ~ N(0, gain / n), b = 0

    At first, the outputs have ``gain`` times the variance of the n inputs. Gehring et
    al. take p after dropout that keeps a fraction p, and 4p before a gated linear unit,
    which passes on about a quarter of the variance.

    Args:
        in_features, out_features: dimensions of inputs and outputs.
        gain: the initial variance of the outputs, in units of that of the inputs.

    Source: Salimans and Kingma 2016, section 2, equation (2). The initialisation is
    that of Gehring et al. 2017, section 3.5 and appendix A.

    Example:
        >>> layer = WeightNormLinear(3, 2)
        >>> torch.allclose(layer.weight.norm(dim=1, keepdim=True), layer.g)
        True
    """

    def __init__(self, in_features: int, out_features: int, gain: float = 1.0):
        super().__init__()
        check_positive(in_features=in_features, out_features=out_features)
        check_above_zero(gain=gain)
        self.in_features, self.out_features = in_features, out_features
        self.gain = gain
        plain = nn.Linear(in_features, out_features)
        self.bias = plain.bias
        self.g = nn.Parameter(torch.empty_like(plain.bias)[:, None])  # (out, 1)
        self.v = plain.weight
        self._kept: Tensor | None = None  # the weight within normalised_once
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Initialise g, v and the bias again."""
        nn.init.normal_(self.v, std=math.sqrt(self.gain / self.in_features))
        self.g.copy_(self.v.norm(dim=1, keepdim=True))
        nn.init.zeros_(self.bias)

    @property
    def weight(self) -> Float[Tensor, "out in"]:
        """The normalised weight w."""
        if self._kept is not None and not torch.is_grad_enabled():
            return self._kept
        if self.v.is_cuda and self.v.dtype == torch.float64:
            # where PyTorch's kernel computes |v| with the precision of float32
            return self.v * (self.g / self.v.norm(dim=1, keepdim=True))
        return torch._weight_norm(self.v, self.g, 0)

    def forward(self, x: Float[Tensor, "*b in"]) -> Float[Tensor, "*b out"]:
        """``w x + b``."""
        return linear(x, self.weight, self.bias)


#: The normalised weights of some layers.
NormalisedWeights = dict[WeightNormLinear, Tensor]


def normalised_weights(module: nn.Module) -> NormalisedWeights:
    """The present weight of every :class:`WeightNormLinear` in a module."""
    layers = (x for x in module.modules() if isinstance(x, WeightNormLinear))
    return {layer: layer.weight for layer in layers}


@contextmanager
def normalised_once(weights: NormalisedWeights) -> Iterator[None]:
    """A block in which layers use these weights, unless a gradient is recorded."""
    for layer, weight in weights.items():
        layer._kept = weight
    try:
        yield
    finally:
        for layer in weights:
            layer._kept = None


def scale_gradient(x: Float[Tensor, "*b"], scale: float) -> Float[Tensor, "*b"]:
    """``x`` itself, whose gradient is multiplied by ``scale`` on its way back.

    Args:
        x, scale: any tensor, and the factor of its gradient.

    Example:
        >>> x = torch.ones(2, requires_grad=True)
        >>> scale_gradient(x, 0.5).sum().backward()
        >>> x.grad
        tensor([0.5000, 0.5000])
    """
    constant = x.detach()
    return constant + scale * (x - constant)


class GatedConvolution(nn.Module):
    """A convolution with a gated linear unit and a residual connection.

    ::

        [A; B]_i = W [x_{i−k+1}; …; x_i] + b,   y_i = √½ (A_i ∘ σ(B_i) + x_i)

    The columns of W are in the order of ``nn.Conv1d``'s weights, dimension by
    dimension. All windows are multiplied in one matrix product, which is faster than a
    convolution where there is a single token, as in decoding.

    Args:
        size: dimension of inputs and outputs.
        width: k, the number of inputs in a window.
        dropout: dropout probability of what the convolution reads, below 1.

    Source: Gehring et al. 2017, sections 3.2 and 3.4.

    Example:
        >>> block, x = GatedConvolution(size=8, width=3), torch.randn(2, 5, 8)
        >>> block(x, nn.functional.pad(x, (0, 0, 2, 0))).shape  # causal: both zeros before
        torch.Size([2, 5, 8])
    """

    def __init__(self, size: int, width: int, dropout: float = 0.1):
        super().__init__()
        check_positive(size=size, width=width)
        self.size, self.width = size, width
        self.dropout = nn.Dropout(dropout)
        self.convolution = WeightNormLinear(
            size * width, 2 * size, gain=4 * (1 - dropout)
        )

    def forward(
        self, inputs: Float[Tensor, "b n d"], padded: Float[Tensor, "b m d"]
    ) -> Float[Tensor, "b n d"]:
        """The gated convolution over ``padded``, plus the inputs.

        Args:
            inputs: one vector for each output.
            padded: the inputs with k − 1 more vectors, zeros or earlier inputs. Where
                they are decides which inputs a window holds.
        """
        windows = self.dropout(padded).unfold(1, self.width, 1).flatten(2)  # (b, n, dk)
        gated = glu(self.convolution(windows), -1)
        return math.sqrt(0.5) * (gated + inputs)
