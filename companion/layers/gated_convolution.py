"""The parts of a convolutional network for sentences: normalised weights and gated convolutions."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple, no_type_check

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import glu, linear

from companion._checks import check_gain, check_positive, functorch_is_active


class KeptWeight(NamedTuple):
    """A normalised weight, with the parameters and versions that it is made from."""

    weight: Tensor
    g: Tensor
    v: Tensor
    versions: tuple[int, int]

    def is_of(self, g: Tensor, v: Tensor) -> bool:
        """Whether it was made from these parameters, unchanged as far as PyTorch knows."""
        return self.g is g and self.v is v and self.versions == (g._version, v._version)


class NormalisedWeights(dict[nn.Module, KeptWeight]):
    """The normalised weights of one search, each computed when it is first used.

    Within :meth:`reused`, and there alone, a :class:`WeightNormLinear` takes its weight
    from here. No weight is kept where a gradient is recorded, in a compiled graph, under
    a ``torch.func`` transform, or of parameters that were made in inference mode.

    A weight is computed again if its parameters are replaced, or changed in a way that
    PyTorch reports. It does not report all: ``parameter.data`` and fused optimizers are
    exceptions. So take new ``NormalisedWeights`` for every search.

    Example:
        >>> layer, weights = WeightNormLinear(3, 2), NormalisedWeights()
        >>> with torch.no_grad(), weights.reused():
        ...     layer.weight is layer.weight
        True
        >>> layer.weight is layer.weight
        False
    """

    @contextmanager
    @no_type_check  # a wrapped generator could not be compiled
    def reused(self) -> Iterator[None]:
        """A block in which each weight is computed once, in this thread alone."""
        if _cannot_be_kept():
            yield
            return
        before = _in_use.set(self)
        try:
            yield
        finally:
            _in_use.reset(before)

    def of(self, layer: "WeightNormLinear") -> Float[Tensor, "out in"]:
        """The weight of this layer."""
        g, v, kept = layer.g, layer.v, self.get(layer)
        if g.is_inference() or v.is_inference():  # which count no versions
            return _normalise(g, v)
        if kept is None or not kept.is_of(g, v):
            versions = (g._version, v._version)
            self[layer] = kept = KeptWeight(_normalise(g, v), g, v, versions)
        return kept.weight


_in_use: ContextVar[NormalisedWeights | None] = ContextVar("_in_use", default=None)


def _cannot_be_kept() -> bool:
    """Whether weights computed now belong to a graph or to a transform."""
    if torch.compiler.is_compiling():
        return True
    return torch.is_grad_enabled() or functorch_is_active()


class WeightNormLinear(nn.Module):
    """A linear layer with weight normalisation.

    ::

        y = w x + b,   w = g v / |v| for each row,   at first v ~ N(0, gain / n), b = 0

    At first, the outputs have ``gain`` times the variance of the n inputs. Gehring et
    al. take p after dropout that keeps a fraction p, and 4p before a gated linear unit,
    which passes on about a quarter of the variance.

    w is computed anew whenever it is used, except in a search, where nothing changes:
    see :class:`NormalisedWeights`.

    Args:
        in_features, out_features: dimensions of inputs and outputs.
        gain: the initial variance of the outputs, in units of that of the inputs.

    Raises:
        TypeError: a size is not an integer.
        ValueError: a size is below 1, or the gain is not above 0.

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
        check_gain(gain)
        self.in_features, self.out_features = in_features, out_features
        self.gain = gain
        plain = nn.Linear(in_features, out_features)
        self.bias = plain.bias
        self.g = nn.Parameter(torch.empty_like(plain.bias)[:, None])  # (out, 1)
        self.v = plain.weight
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
        weights = None if _cannot_be_kept() else _in_use.get()
        return _normalise(self.g, self.v) if weights is None else weights.of(self)

    def forward(self, x: Float[Tensor, "*b in"]) -> Float[Tensor, "*b out"]:
        """``w x + b``."""
        return linear(x, self.weight, self.bias)

    def extra_repr(self) -> str:
        """The sizes, for ``print``."""
        return f"in_features={self.in_features}, out_features={self.out_features}"


def _normalise(
    g: Float[Tensor, "out 1"], v: Float[Tensor, "out in"]
) -> Float[Tensor, "out in"]:
    """``g v / |v|`` for each row, where possible by PyTorch's private fused kernel."""
    fused = getattr(torch, "_weight_norm", None)
    # On CUDA the kernel computes |v| with the precision of float32.
    inexact = v.is_cuda and v.dtype == torch.float64
    if fused is None or inexact:
        return v * (g / v.norm(dim=1, keepdim=True))
    return fused(v, g, 0)


def scale_gradient(x: Float[Tensor, "*b"], scale: float) -> Float[Tensor, "*b"]:
    """``x`` itself, whose gradient is multiplied by ``scale`` on its way back.

    Args:
        x: any tensor.
        scale: the factor of its gradient.

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

    Raises:
        TypeError: a size is not an integer.
        ValueError: a size is below 1, or dropout is 1.

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
