"""The study of chapter 2 on attention weights: what the French word *cent* attends to.

Two encoders meet two kinds of French. One encoder is bidirectional; the states of the
other describe one word each, and nothing of its neighbours. One French is the usual one,
in which *cent* has an s unless a number follows; the other has no plural.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attention_course.data import numbers
from attention_course.data.numbers import Pair
from attention_course.data.vocabulary import PAD
from attention_course.studies.recording import check_choice, grid
from attention_course.tasks.number_translation import (
    bahdanau_translator,
    french_numbers,
)
from attention_course.tasks.translation import Translation, TranslationTask
from companion.models.bahdanau import BahdanauEncoder
from companion.models.seq2seq import EncoderDecoder

TITLE = "Chapter 2: what the French word cent attends to"
FRENCH = ("usual", "no plural")
_SINGULAR = {
    "cents": "cent",
    "vingts": "vingt",
    "millions": "million",
    "milliards": "milliard",
}
_LONGEST_SOURCE = 40  # more than the words of any number
_AFTER = 3  # words


class EmbeddingEncoder(nn.Module):
    """States that describe one word and its position, and none of its neighbours.

    ::

        h_j = E x_j + P_j

    Args:
        vocabulary_size: the number of source tokens.
        size: dimension of a state.

    Source: none; it is ours, as a control for the bidirectional encoder.

    Example:
        >>> states, mask = EmbeddingEncoder(9, 6)(torch.tensor([[4, 5, 0]]))
        >>> states.shape, mask.tolist()
        (torch.Size([1, 3, 6]), [[True, True, False]])
    """

    def __init__(self, vocabulary_size: int, size: int):
        super().__init__()
        self.words = nn.Embedding(vocabulary_size, size)
        self.positions = nn.Embedding(_LONGEST_SOURCE, size)

    def forward(
        self, source: Int[Tensor, "b k"]
    ) -> tuple[Float[Tensor, "b k size"], Bool[Tensor, "b k"]]:
        """The states of each sentence, and the mask of its words."""
        position = torch.arange(source.shape[1], device=source.device)
        return self.words(source) + self.positions(position), source != PAD


#: What encodes the source.
ENCODERS: dict[str, Callable[..., nn.Module]] = {
    "bidirectional": BahdanauEncoder,
    "words alone": lambda words, size, units, pad: EmbeddingEncoder(words, 2 * units),
}


@cache
def numbers_in(french: str) -> TranslationTask:
    """English numbers of up to twelve digits and their translations into one French."""
    check_choice("french", french, FRENCH)
    task = french_numbers()
    if french == "usual":
        return task
    training, validation, test = (
        [
            pair._replace(
                target=tuple(_SINGULAR.get(word, word) for word in pair.target)
            )
            for pair in pairs
        ]
        for pairs in (task.training_pairs, task.validation_pairs, task.test_pairs)
    )
    return TranslationTask(training, validation, test)


def build(encoder: str, task: TranslationTask, seed: int = 0) -> EncoderDecoder:
    """An untrained model of the study, whose encoder is one of :data:`ENCODERS`."""
    check_choice("encoder", encoder, ENCODERS)
    torch.manual_seed(seed)
    words = len(task.source), len(task.target)
    return bahdanau_translator(*words, ENCODERS[encoder])


def weights_of_cent(translations: Sequence[Translation]) -> Float[Tensor, "n 2"]:
    """The weight of each *cent* on "hundred", and on the three words after it together.

    Only a "hundred" is counted that three words or more follow.
    """
    rows = []
    for source, target, weights in translations:
        assert weights is not None
        french = [i for i, word in enumerate(target) if word in ("cent", "cents")]
        english = [j for j, word in enumerate(source) if word == "hundred"]
        for i, j in zip(french, english, strict=True):
            if target[i] == "cent" and j + _AFTER < len(source):
                after = weights[i, j + 1 : j + 1 + _AFTER].sum()
                rows.append(torch.stack([weights[i, j], after]))
    return torch.stack(rows)


def measure(encoder: str, french: str, seed: int) -> dict[str, float]:
    """Train one model; its exact match, and what *cent* attends to in right translations.

    Returns:
        ``test``, the exact match on the test set, and the mean weight of *cent* on
        "hundred" and on the three words ``after`` it, in validation and test set.
    """
    task = numbers_in(french)
    model = build(encoder, task, seed)
    task.train(model, steps=400, learning_rate=0.02)
    pairs: list[Pair] = [*task.validation_pairs, *task.test_pairs]
    found = task.translate(model, [pair.source for pair in pairs])
    right = [
        one for one, pair in zip(found, pairs, strict=True) if one.target == pair.target
    ]
    hundred, after = weights_of_cent(right).mean(0).tolist()
    (test,) = task.exact_match(model, [(1, numbers.LONGEST_FRENCH)])
    return {"test": test, "hundred": hundred, "after": after}


def settings() -> list[dict[str, Any]]:
    """The settings of all runs: what :func:`measure` is called with."""
    return grid(encoder=[*ENCODERS], french=FRENCH, seed=range(3))
