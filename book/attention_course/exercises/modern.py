"""The exercises of chapter 12: caches of layers with and without windows, and a learned sink."""

import torch
from torch import Tensor

from attention_course.exercises.exercise import Exercise, normal


def _cached(
    lengths: Tensor, layers: int, every: int, window: int, numbers: int
) -> Tensor:
    return numbers * _of_kinds(lengths, layers, layers // every, window)


def _of_kinds(lengths: Tensor, layers: int, full: int, window: int) -> Tensor:
    """The tokens that all layers together cache, of which some attend to all."""
    return full * lengths + (layers - full) * lengths.clamp(max=window)


CACHED = Exercise(
    inputs={
        "lengths": torch.tensor([3, 7, 10, 50, 1000]),
        "layers": 13,
        "every": 5,
        "window": 12,
        "numbers": 7,
    },
    solution=_cached,
    mistakes={
        "Layers with a window cache `window` tokens even where there are fewer: clamp the lengths.": (
            lambda n, layers, every, window, numbers: (
                numbers * (layers // every * n + (layers - layers // every) * window)
            )
        ),
        "The two kinds of layers are swapped: every `every`-th attends to all tokens.": (
            lambda n, layers, every, window, numbers: (
                numbers * _of_kinds(n, layers, layers - layers // every, window)
            )
        ),
        "There is one layer too many without a window: the first is not one, only every `every`-th.": (
            lambda n, layers, every, window, numbers: (
                numbers * _of_kinds(n, layers, layers // every + 1, window)
            )
        ),
        "Every layer has a window: every `every`-th attends to all tokens.": (
            lambda n, layers, every, window, numbers: (
                numbers * _of_kinds(n, layers, 0, window)
            )
        ),
        "No layer has a window: only every `every`-th attends to all tokens.": (
            lambda n, layers, every, window, numbers: numbers * layers * n
        ),
        "Keys and values are counted once more: `numbers` has both.": (
            lambda n, layers, every, window, numbers: (
                2 * _cached(n, layers, every, window, numbers)
            )
        ),
        "Tokens are counted, not numbers: a layer caches `numbers` of them for each.": (
            lambda n, layers, every, window, numbers: _of_kinds(
                n, layers, layers // every, window
            )
        ),
    },
)


def _with_sink(scores: Tensor, sink: Tensor) -> Tensor:
    return torch.cat([scores, _beside(scores, sink)], -1).softmax(-1)[..., :-1]


def _beside(scores: Tensor, sink: Tensor) -> Tensor:
    """A sink for each query, as a column of scores."""
    return sink[:, None, None].expand(*scores.shape[:-1], 1)


SINK = Exercise(
    inputs={
        "scores": normal(3, 5, 7, seed=122) + 1000,
        "sink": normal(3, seed=123) + 1000,
    },
    solution=_with_sink,
    mistakes={
        "The weights sum to 1: exp(s) must stay in the denominator.": (
            lambda scores, sink: scores.softmax(-1) + 0 * _beside(scores, sink)
        ),
        "exp of a score near 1,000 overflows: append the sink to the scores, and use softmax.": (
            lambda scores, sink: (
                scores.exp()
                / (_beside(scores, sink).exp() + scores.exp().sum(-1, keepdim=True))
            )
        ),
        "The weight of the sink is returned as well: leave it out.": (
            lambda scores, sink: torch.cat([scores, _beside(scores, sink)], -1).softmax(
                -1
            )
        ),
        "The last key is left out instead of the sink: leave out the column that you have added.": (
            lambda scores, sink: torch.cat([_beside(scores, sink), scores], -1).softmax(
                -1
            )[..., :-1]
        ),
        "All heads have one sink: each has its own.": lambda scores, sink: _with_sink(
            scores, sink.mean().expand(3)
        ),
        "The sink is added to the denominator as it is, without exp.": (
            lambda scores, sink: (
                (scores - 1000).exp()
                / (_beside(scores, sink) + (scores - 1000).exp().sum(-1, keepdim=True))
            )
        ),
    },
    hints={
        "must match": (
            "`sink` has one number a head: sink[:, None, None] broadcasts to (h, q, k)."
        )
    },
)


EXERCISES = {"12.1": CACHED, "12.2": SINK}
