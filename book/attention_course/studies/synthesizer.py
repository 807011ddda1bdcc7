"""The study of chapter 8: encoders whose self-attention scores words with and without keys.

Two tasks: the larger of two numbers, and a number that occurs in two languages; the second
also with its words in a fixed order. Only the self-attention of the encoder differs.

All runs take a few minutes on one CPU core.
"""

from functools import cache
from typing import Any

import torch

from attention_course.data import comparisons, numbers
from attention_course.data.vocabulary import PAD, Vocabulary
from attention_course.studies.recording import check_choice
from attention_course.tasks.text_classification import Classification, Example, evaluate
from attention_course.tasks.translation import TranslationTask
from companion.attention.base import Attention
from companion.attention.pooling import mean_pooling
from companion.attention.scores import ScaledDot
from companion.attention.sparse import PatternAttention
from companion.attention.synthesizer import (
    DenseSynthesizer,
    FixedRandom,
    Mixture,
    RandomSynthesizer,
)
from companion.layers.residual import PreNorm
from companion.models.seq2seq import EncoderDecoder
from companion.models.text_classifier import Classifier
from companion.models.transformer import (
    TransformerDecoder,
    TransformerDecoderLayer,
    TransformerEncoder,
    TransformerEncoderLayer,
)

TITLE = "Chapter 8: self-attention with and without keys, on two tasks"
#: The kinds of self-attention. With "none" a word attends to itself only. A "fixed" table is
#: never trained. In "fixed row" all rows of the table are alike, so that all words get the
#: same average; the last two tables begin at zero, where it is the mean.
KINDS = (
    "none",
    "dot product",
    "dense",
    "random",
    "fixed random",
    "random + dot",
    "fixed row",
    "zero",
    "fixed zero",
)
#: Dimension of a word, and the number of heads.
SIZE, HEADS = 64, 4


def attention_of(kind: str, longest: int = 8) -> Attention:
    """The self-attention of one of :data:`KINDS`, with parameters for each head.

    Args:
        kind: one of :data:`KINDS`.
        longest: the most positions that a synthesizer has scores for.

    Raises:
        ValueError: there is no such kind.

    Example:
        >>> attention_of("fixed random")
        FixedRandom(max_length=8, heads=4)
    """
    check_choice("kind", kind, KINDS)
    part = SIZE // HEADS  # the dimension of a head
    return {
        "none": lambda: PatternAttention(_itself),
        "dot product": lambda: ScaledDot(),
        "dense": lambda: DenseSynthesizer(part, longest, HEADS),
        "random": lambda: RandomSynthesizer(longest, HEADS),
        "fixed random": lambda: FixedRandom(longest, HEADS),
        "random + dot": lambda: Mixture(RandomSynthesizer(longest, HEADS), ScaledDot()),
        "fixed row": lambda: _of_one_row(FixedRandom(longest, HEADS)),
        "zero": lambda: _at_zero(RandomSynthesizer(longest, HEADS)),
        "fixed zero": lambda: _at_zero(FixedRandom(longest, HEADS)),
    }[kind]()


@torch.no_grad()
def _at_zero(table: RandomSynthesizer) -> RandomSynthesizer:
    table.R.zero_()
    return table


@torch.no_grad()
def _of_one_row(table: RandomSynthesizer) -> RandomSynthesizer:
    table.R.copy_(table.R[:, :1].expand_as(table.R))
    return table


def _itself(i: torch.Tensor, j: torch.Tensor) -> torch.Tensor:
    return i == j


def encoder(words: Vocabulary, attention: Attention) -> TransformerEncoder:
    """A Transformer encoder of one layer with this self-attention."""
    layer = TransformerEncoderLayer(SIZE, HEADS, 128, 0.0, attention, PreNorm)
    return TransformerEncoder(len(words), [layer], 0.0, pad=PAD)


def translator(task: TranslationTask, attention: Attention) -> EncoderDecoder:
    """An encoder with this self-attention, and a Transformer decoder of one layer."""
    layer = TransformerDecoderLayer(SIZE, HEADS, 128, 0.0, residual=PreNorm)
    return EncoderDecoder(
        encoder(task.source, attention),
        TransformerDecoder(len(task.target), [layer], 0.0, pad=PAD),
    )


def classifier(task: Classification, attention: Attention) -> Classifier:
    """An encoder with this self-attention, the mean of its states, and a linear layer."""
    states = encoder(task.words, attention)
    return Classifier(states, mean_pooling, SIZE, len(task.labels))


@cache
def larger() -> TranslationTask:
    """Two English numbers; the larger one in French is the target.

    There are 2,106 pairs for training, 150 for validation and 300 for the test.
    """
    pairs = comparisons.larger(seed=0)
    return TranslationTask(pairs[450:], validation=pairs[:150], test=pairs[150:450])


@cache
def plain_numbers() -> TranslationTask:
    """Numbers below a thousand from English into French; most words are translated alone.

    There are 699 pairs for training, 100 for validation and 200 for the test.
    """
    order = torch.randperm(999, generator=torch.Generator().manual_seed(0))
    pairs = [
        numbers.Pair(n, numbers.english_words(n), numbers.french_words(n))
        for n in (order + 1).tolist()
    ]
    return TranslationTask(pairs[300:], validation=pairs[:100], test=pairs[100:300])


@cache
def shared() -> tuple[Classification, list[Example]]:
    """Two English and two French words, and whether one number is there in both languages.

    Returns:
        The task, which is tested on 500 sources for validation, and 500 other sources
        for the final test. There are 11,000 for training.
    """
    examples = [
        Example((words,), "shared" if both else "none shared")
        for words, both in comparisons.shared(12_000, 2, seed=0)
    ]
    return Classification(examples[1000:], examples[:500]), examples[500:1000]


@cache
def in_order() -> tuple[Classification, list[Example]]:
    """The same sources as English, French, English, French; a number in both comes first."""
    texts, test = shared()
    return (
        Classification(
            [_in_order(example) for example in texts.training_examples],
            [_in_order(example) for example in texts.test_examples],
        ),
        [_in_order(example) for example in test],
    )


def _in_order(example: Example) -> Example:
    """Its words sorted, by whether the number is there in both languages."""
    (words,) = example.texts
    english = [word for word in words if word in comparisons.TRANSLATIONS]
    french = [word for word in words if word not in english]
    for one, other in comparisons.TRANSLATIONS.items():
        if one in english and other in french:
            english.insert(0, english.pop(english.index(one)))
            french.insert(0, french.pop(french.index(other)))
    two = zip(english, french, strict=True)
    return Example((tuple(word for pair in two for word in pair),), example.label)


def measure(
    task: str,
    model: str,
    steps: int,
    learning_rate: float,
    embedding: float,
    seed: int,
) -> dict[str, Any]:
    """Train one model, and measure it on the validation set and on the test set.

    Args:
        task: ``larger``, ``shared`` or ``in order``.
        model: one of :data:`KINDS`.
        embedding: a factor of the encoder's initial word embeddings. Those of positions
            stay as they are.

    Returns:
        ``validation`` and ``test``, the fraction of right answers: exact matches of a
        translation, or right classes; and ``history``, every 50 steps the validation
        loss of a translation, or the validation accuracy of a classification.
    """
    check_choice("task", task, ["larger", "shared", "in order"])
    torch.manual_seed(seed)
    attention = attention_of(model)
    if task == "larger":
        data = larger()
        translation = translator(data, attention)
        _scale(translation.encoder, embedding)
        history = data.train(translation, steps, learning_rate)
        figures = [
            _exact(data, translation, part)
            for part in (data.validation_pairs, data.test_pairs)
        ]
        curve = [record["held_out_loss"] for record in history]
    else:
        texts, test = shared() if task == "shared" else in_order()
        classification = classifier(texts, attention)
        _scale(classification.encoder, embedding)
        history = texts.train(classification, steps, learning_rate)
        figures = [
            texts.accuracy(classification),
            evaluate(classification, [texts.collate(test)])["accuracy"],
        ]
        curve = [record["accuracy"] for record in history]
    return {
        "validation": round(figures[0], 4),
        "test": round(figures[1], 4),
        "history": [round(one, 4) for one in curve],
    }


@torch.no_grad()
def _scale(encoder: Any, factor: float) -> None:
    encoder.embedding.weight.mul_(factor)


def _exact(task: TranslationTask, model: EncoderDecoder, pairs: Any) -> float:
    """The fraction of pairs that are translated exactly."""
    found = task.translate(model, [pair.source for pair in pairs])
    right = [one.target == pair.target for one, pair in zip(found, pairs, strict=True)]
    return sum(right) / len(right)


def settings() -> list[dict[str, Any]]:
    """The settings of all runs: what :func:`measure` is called with."""
    rates, seeds = (0.002, 0.005, 0.01, 0.02), (0, 1, 2)
    few = ("none", "dot product", "dense", "random", "random + dot")
    chosen = [
        *(("larger", kind, 200, rate, 1.0, 0) for kind in KINDS for rate in rates),
        *(("larger", kind, 200, 0.01, 1.0, s) for kind in KINDS for s in seeds),
        *(
            ("larger", kind, 200, 0.005, embedding, s)
            for kind in few[:2]
            for embedding in (1.0, 0.3)
            for s in seeds
        ),
        *(
            ("larger", kind, 600, 0.002, 1.0, s)
            for kind in ("none", "dot product", "random", "random + dot")
            for s in seeds
        ),
        *(("shared", kind, 250, rate, 1.0, 0) for kind in few for rate in rates),
        *(("shared", kind, 250, 0.005, 1.0, s) for kind in few for s in seeds),
        *(
            ("in order", kind, 250, 0.005, 1.0, s)
            for kind in ("none", "random")
            for s in seeds
        ),
        *(
            ("shared", kind, 1000, 0.005, 1.0, s)
            for kind in ("dense", "random")
            for s in seeds
        ),
    ]
    chosen = list(dict.fromkeys(chosen))
    names = ("task", "model", "steps", "learning_rate", "embedding", "seed")
    return [dict(zip(names, setting, strict=True)) for setting in chosen]
