"""The feed-forward networks of a Transformer's layers: the paper's, and today's gated one."""

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import silu

from companion._checks import check_positive


class FeedForward(nn.Sequential):
    """The position-wise feed-forward network: the same two layers at every position.

    ::

        FFN(x) = max(0, x W_1 + b_1) W_2 + b_2

    Args:
        d_model: features of the input and of the output.
        d_ff: features of the hidden layer.

    Source: Vaswani et al. 2017, section 3.3, equation (2).

    Example:
        >>> FeedForward(d_model=8, d_ff=32)(torch.randn(2, 5, 8)).shape
        torch.Size([2, 5, 8])
    """

    def __init__(self, d_model: int, d_ff: int):
        check_positive(d_model=d_model, d_ff=d_ff)
        super().__init__(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))


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
