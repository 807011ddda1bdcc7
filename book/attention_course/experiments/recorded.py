"""Recorded runs: the figures and test sentences of experiments that take minutes or hours.

Each is the ``result.json`` that the experiment wrote, unchanged.

Example:
    >>> from attention_course.experiments import recorded
    >>> run = recorded.result("multi30k", "luong-general")
    >>> print(f"{run['test']['greedy']['bleu']:.1f} BLEU")
    37.9 BLEU
    >>> first = recorded.sentences("multi30k", "luong-general")[0]
    >>> print(*first.greedy)
    three men are walking in the middle of the snow .
    >>> first.weights.shape
    torch.Size([1, 1, 12, 5])
"""

from pathlib import Path
from typing import Any, NamedTuple

from jaxtyping import Float
from torch import Tensor

from attention_course.experiments.record import read_result
from attention_course.experiments.sentences import TEXTS, weights_of

FOLDER = Path(__file__).with_name("results")  #: a folder for each experiment


class Sentence(NamedTuple):
    """A test sentence, its translations, and the attention weights of the greedy one."""

    source: list[str]  #: tokens
    reference: list[str]  #: tokens
    greedy: list[str]  #: tokens, without the end of the sentence
    beam: list[str]  #: tokens, without the end of the sentence
    #: Of layers, heads, target and source, rounded to multiples of 1/255; the target's
    #: last row is that of the end of the sentence. None if the model has no attention.
    weights: Float[Tensor, "l h t k"] | None


def result(experiment: str, name: str) -> dict[str, Any]:
    """What a run measured, and what is needed to repeat it.

    Args:
        experiment: ``multi30k`` or ``imdb``.
        name: that of the model, with ``-1`` or ``-2`` after it for another random seed.

    Returns:
        The names in :data:`~attention_course.experiments.record.RESULT` with their values.

    Raises:
        ValueError: no such run is recorded, or its file is damaged.
    """
    path = FOLDER / experiment / f"{name}.json"
    recorded = sorted(f"{p.parent.name}/{p.stem}" for p in FOLDER.glob("*/*.json"))
    if f"{experiment}/{name}" not in recorded:
        raise ValueError(
            f"no run {experiment}/{name} is recorded, only {', '.join(recorded)}"
        )
    return read_result(path)


def sentences(experiment: str, name: str) -> list[Sentence]:
    """Test sentences of a run, the same ones for all translation models."""
    found = result(experiment, name)["sentences"]
    if not found:
        raise ValueError(f"the run {experiment}/{name} has no sentences")
    return [
        Sentence(**{text: one[text].split() for text in TEXTS}, weights=weights_of(one))
        for one in found
    ]
