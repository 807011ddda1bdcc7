"""The exercises of chapter 2, Bahdanau attention: weights, and the gradient of a score."""

from torch import Tensor

from attention_course.exercises.exercise import Exercise, normal
from attention_course.exercises.weights import EXPECTED_POSITION, MASKED_SOFTMAX


def _context(weights: Tensor, values: Tensor) -> Tensor:
    return weights[:, None] @ values


def _along(vectors: Tensor, gradient: Tensor) -> Tensor:
    """The product of each vector with the gradient of the context."""
    return (vectors @ gradient[..., None]).squeeze(-1)


def _score_gradient(weights: Tensor, values: Tensor, gradient: Tensor) -> Tensor:
    return weights * _along(values - _context(weights, values), gradient)


SCORE_GRADIENT = Exercise(
    inputs={
        "weights": (2 * normal(3, 7, seed=31)).softmax(-1),
        "values": normal(3, 7, 5, seed=32),
        "gradient": normal(3, 5, seed=33),
    },
    solution=_score_gradient,
    mistakes={
        "This is the gradient of the weights: go on through the softmax.": (
            lambda a, h, g: _along(h, g)
        ),
        "The context is not subtracted: the factor is h_j − c.": (
            lambda a, h, g: a * _along(h, g)
        ),
        "The factor α_j is missing.": lambda a, h, g: _along(h - _context(a, h), g),
        "The sign is reversed: it is h_j − c, not c − h_j.": (
            lambda a, h, g: -_score_gradient(a, h, g)
        ),
        "The mean of the states is subtracted: take their average under the weights, the context.": (
            lambda a, h, g: a * _along(h - h.mean(1, keepdim=True), g)
        ),
        "Only the diagonal of the softmax's derivative is used: a score changes all weights.": (
            lambda a, h, g: a * (1 - a) * _along(h, g)
        ),
        "The diagonal of the softmax's derivative is missing: α_j (1 − α_j), not −α_j².": (
            lambda a, h, g: -a * _along(_context(a, h).expand_as(h), g)
        ),
        "The products with the gradient are not summed over the components.": (
            lambda a, h, g: a[..., None] * (h - _context(a, h)) * g[:, None]
        ),
        "The gradient of the context is not used: this is ∂c/∂e, a vector for each position.": (
            lambda a, h, g: a[..., None] * (h - _context(a, h))
        ),
        "The components are summed without the gradient of the context.": (
            lambda a, h, g: a * (h - _context(a, h)).sum(-1)
        ),
    },
    hints={
        "must match|size mismatch|cannot be multiplied": "The gradient is (b, v), with no axis for "
        "the positions: insert one, or multiply by gradient[..., None]."
    },
)
EXERCISES = {"2.1": MASKED_SOFTMAX, "2.2": SCORE_GRADIENT, "2.3": EXPECTED_POSITION}
