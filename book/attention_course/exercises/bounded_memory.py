"""The exercises of chapter 13: a decay for each feature, and the weights of the delta rule."""

import torch
from torch import Tensor

from attention_course.exercises.exercise import Exercise, normal


def _gated_linear(
    query: Tensor, key: Tensor, value: Tensor, gate: Tensor, read_first: bool = False
) -> Tensor:
    S = key[:, 0, :, None] * value[:, 0, None, :] * 0
    contexts = []
    for i in range(query.shape[1]):
        written = key[:, i, :, None] * value[:, i, None, :]
        before, S = S, gate[:, i, :, None] * S + written
        contexts.append(
            torch.einsum("bd,bde->be", query[:, i], before if read_first else S)
        )
    return torch.stack(contexts, 1)


GATED_LINEAR = Exercise(
    inputs={
        "query": normal(2, 7, 3, seed=131),
        "key": normal(2, 7, 3, seed=132),
        "value": normal(2, 7, 5, seed=133),
        "gate": normal(2, 7, 3, seed=134).sigmoid(),
    },
    solution=_gated_linear,
    mistakes={
        "Nothing is forgotten: multiply the state by the gate first.": (
            lambda q, k, v, g: _gated_linear(q, k, v, torch.ones_like(g))
        ),
        "Each position forgets by the gate of the one before: S_i has g_i.": (
            lambda q, k, v, g: _gated_linear(
                q, k, v, torch.cat([torch.ones_like(g[:, :1]), g[:, :-1]], 1)
            )
        ),
        "A position's own pair is decayed, too: forget first, and write then.": (
            lambda q, k, v, g: _gated_linear(q, g * k, v, g)
        ),
        "A position is read before it is written: add k_i v_iᵀ to the state first.": (
            lambda q, k, v, g: _gated_linear(q, k, v, g, read_first=True)
        ),
        "All features fade alike: the gate has one number for each row of the state.": (
            lambda q, k, v, g: _gated_linear(
                q, k, v, g.mean(-1, keepdim=True).expand_as(g)
            )
        ),
        "It is divided by a sum: here nothing is normalised.": lambda q, k, v, g: (
            _gated_linear(q, k, v, g)
            / _gated_linear(q, k, torch.ones_like(v[..., :1]), g)
        ),
        "Query and key are swapped.": lambda q, k, v, g: _gated_linear(k, q, v, g),
    },
    hints={
        "in-place|inplace|modified by an inplace": (
            "Write S = … * S + … instead of S += …: the gradient needs the earlier states."
        )
    },
)


def _delta_weights(query: Tensor, key: Tensor, beta: Tensor, offset: int = 0) -> Tensor:
    n = key.shape[1]
    system = (beta[..., None] * (key @ key.mT)).tril(-1) + torch.eye(n, dtype=key.dtype)
    read = (query @ key.mT).tril(offset)
    return torch.linalg.solve(system.mT, read.mT).mT * beta[:, None]


DELTA_WEIGHTS = Exercise(
    inputs={
        "query": normal(2, 7, 5, seed=135),
        "key": torch.nn.functional.normalize(normal(2, 7, 5, seed=136), dim=-1),
        "beta": normal(2, 7, seed=137).sigmoid(),
    },
    solution=_delta_weights,
    mistakes={
        "These are the weights of a plain sum: a later write also erases.": (
            lambda q, k, b: (q @ k.mT).tril() * b[:, None]
        ),
        "β is missing in what is written: a column of the weights has its position's β.": (
            lambda q, k, b: _delta_weights(q, k, b) / b[:, None]
        ),
        "A position is read before it is written: its own weight is on the diagonal.": (
            lambda q, k, b: _delta_weights(q, k, b, offset=-1)
        ),
        "It is not causal: position i reads what is written at j ≤ i.": (
            lambda q, k, b: _delta_weights(q, k, b, offset=k.shape[1])
        ),
        "β multiplies the rows of the weights: it belongs to the position that writes.": (
            lambda q, k, b: _delta_weights(q, k, b) / b[:, None] * b[..., None]
        ),
        "Rows and columns are swapped: row i has the weights of query i.": (
            lambda q, k, b: _delta_weights(q, k, b).mT
        ),
    },
)
EXERCISES = {"13.1": GATED_LINEAR, "13.2": DELTA_WEIGHTS}
