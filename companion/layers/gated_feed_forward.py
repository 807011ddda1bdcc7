"""The gated feed-forward network of today's Transformers: SwiGLU (Shazeer 2020)."""

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import silu

from companion._checks import check_positive


class SwiGLU(nn.Module):
    """A feed-forward network in which one half of the hidden layer gates the other.

    ::

        SwiGLU(x) = W_down (Swish(W_gate x) ∘ W_up x),   Swish(z) = z σ(z)

    Args:
        d_model: features of the input and of the output.
        d_ff: features of the hidden layer. It has three matrices instead of two, so 2/3
            of the usual size keeps the number of parameters.

    Source: Shazeer 2020, equation (6), where the matrices are W, V and W_2, without biases.

    Example:
        >>> SwiGLU(d_model=8, d_ff=20)(torch.randn(2, 5, 8)).shape
        torch.Size([2, 5, 8])
    """

    def __init__(self, d_model: int, d_ff: int):
        super().__init__()
        check_positive(d_model=d_model, d_ff=d_ff)
        self.gate = nn.Linear(d_model, d_ff, bias=False)
        self.up = nn.Linear(d_model, d_ff, bias=False)
        self.down = nn.Linear(d_ff, d_model, bias=False)

    def forward(self, x: Float[Tensor, "*b d"]) -> Float[Tensor, "*b d"]:
        """The new vector of each position."""
        return self.down(silu(self.gate(x)) * self.up(x))
