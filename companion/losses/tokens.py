"""The cross-entropy of tokens, as a sum and the number of its terms."""

from dataclasses import dataclass

from jaxtyping import Float, Int, Num
from torch import Tensor
from torch.nn.functional import cross_entropy

from companion._checks import check_integer_tensor
from companion.attention.base import at_least_float32


@dataclass(frozen=True)
class Loss:
    """A sum of losses, and how many there are.

    The mean over several batches or processes is ``Σ total / Σ count``.

    Args:
        total: the sum of the losses, a scalar with a gradient.
        count: how many losses the sum has.
    """

    total: Float[Tensor, ""]
    count: Num[Tensor, ""]


def token_loss(
    logits: Float[Tensor, "*b vocabulary"],
    target: Int[Tensor, "*b"],
    pad: int | None = None,
    smoothing: float = 0.0,
) -> Loss:
    """The cross-entropy of target tokens, summed in at least 32 bits.

    ::

        total = − Σ_t Σ_y q(y) log p_t(y),   q(y) = (1 − ε) [y = target_t] + ε / V

    Args:
        logits: of each token of the vocabulary.
        target: the correct token.
        pad: the token that is left out, as padding; by default −100, as in PyTorch.
        smoothing: ε of label smoothing.

    Source: Szegedy et al. 2016, section 7, with ε / V for each of the V labels.

    Example:
        >>> loss = token_loss(torch.zeros(1, 3, 10), torch.tensor([[7, 2, 0]]), pad=0)
        >>> loss.count.item(), (loss.total / loss.count).exp().item()
        (2, 10.0)
    """
    check_integer_tensor("a target", target)
    correct, ignored = target.long(), -100 if pad is None else pad
    total = cross_entropy(
        to_float32(logits).flatten(0, -2),
        correct.flatten(),
        ignore_index=ignored,
        reduction="sum",
        label_smoothing=smoothing,
    )
    return Loss(total, (correct != ignored).sum())


def to_float32(logits: Float[Tensor, "*b c"]) -> Float[Tensor, "*b c"]:
    """The same in at least 32 bits; a sum in 16 bits has only two or three digits.

    Args:
        logits: of any floating-point type; c classes.
    """
    return at_least_float32(logits)
