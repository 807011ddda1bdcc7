"""A study of chapter 9: which sentences of a film review have weight, and which ones matter.

The model is HN-ATT of the experiment on IMDB, after its first epoch, with one seed. It reads
the first reviews of the test set as often as they have sentences, each time without one of them.

One seed takes about two minutes on one CPU core. The folder ``runs/reviews-0`` has
the trained model, and the same command goes on from there.
"""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from attention_course.data.vocabulary import PAD, UNK, pad_documents
from attention_course.studies.recording import grid
from companion._checks import needs_extra
from companion.models.hierarchical import HierarchicalAttention

TITLE = (
    "Chapter 9: sentences of film reviews, their weights and what removing them changes"
)
#: What trains a model, for ``attention_course.experiments.imdb``.
COMMAND = "hierarchical-attention --size 64 --rate 0.002 --steps 704 --every 704 --seed {seed}"
REVIEWS = 1000  #: of the test set
#: A review that is recorded has so many sentences, and so many words.
SHORT = range(4, 8), range(30, 61)
EXAMPLES = 6  #: reviews that are recorded
OFTEN = 40  #: times that a word occurs whose weight is recorded
_Review = Sequence[Sequence[int]]


class Read(NamedTuple):
    """What a model says of a review, and what it says without each of its sentences."""

    words: Float[Tensor, "s n"]  #: the weights of words in their sentences
    sentences: Float[Tensor, " s"]  #: the weights of the sentences
    positive: float  #: the probability that the review is positive
    without: Float[Tensor, " s"]  #: the same without each sentence


@torch.no_grad()
def read(model: HierarchicalAttention, review: _Review) -> Read:
    """Read a review of at least two sentences, whole and without each of them."""
    count = len(review)
    without = [[*review[:i], *review[i + 1 :]] for i in range(count)]
    words, sentences = model.attention_maps(pad_documents([review]))
    positive = _positive(model, [review, *without])
    return Read(words[0], sentences[0], float(positive[0]), positive[1:])


@torch.no_grad()
def _positive(
    model: HierarchicalAttention, reviews: Sequence[_Review]
) -> Float[Tensor, " b"]:
    return model(pad_documents(reviews)).softmax(-1)[:, 1]


@torch.no_grad()
def unmasked(
    model: HierarchicalAttention, documents: Int[Tensor, "b s n"]
) -> Float[Tensor, "b c"]:
    """The logits of a model that reads padding, and gives it weight, like everything else."""

    def level(rnn: Any, pooling: Any, vectors: Tensor) -> Tensor:
        states, _ = rnn(vectors)
        key, _ = pooling.attention.project(states)
        weights = (key @ pooling.query).softmax(-1)
        return (weights[..., None] * states).sum(-2)

    encoder: Any = model.encoder
    words = encoder.words.embedding(documents).flatten(0, 1)
    sentences = level(encoder.words.rnn, encoder.pooling, words)
    sentences = sentences.unflatten(0, documents.shape[:2])
    logits: Tensor = model.W(level(encoder.rnn, model.pooling, sentences))
    return logits


def beside_a_longer_one(
    model: HierarchicalAttention, review: _Review
) -> tuple[int, int]:
    """The classes without masks: of a review alone, and padded by ten words and eight sentences."""
    alone = pad_documents([review])
    padded = functional.pad(alone, (0, 10, 0, 8), value=PAD)
    first, second = (int(unmasked(model, x).argmax()) for x in (alone, padded))
    return first, second


def effects(found: Sequence[Read]) -> dict[str, Any]:
    """What removing a sentence changes, on average over reviews.

    Returns:
        for the sentence with the ``most`` weight, the one with the ``least`` and ``any``
        sentence the mean change of the probability, and how often the prediction becomes the
        other one; ``same``, how often the sentence with the most weight is the one that
        changes the probability most, with ``chance``, how often a random one is; and
        ``weight``, the mean of the largest weight.
    """
    figures: dict[str, list[list[float]]] = {"most": [], "least": [], "any": []}
    for one in found:
        change = (one.without - one.positive).abs()
        turned = ((one.without > 0.5) != (one.positive > 0.5)).float()
        chosen: dict[str, Any] = {
            "most": one.sentences.argmax(),
            "least": one.sentences.argmin(),
            "any": slice(None),
        }
        for name, which in chosen.items():
            figures[name].append([float(x[which].mean()) for x in (change, turned)])
    same = [
        bool(one.sentences.argmax() == (one.without - one.positive).abs().argmax())
        for one in found
    ]
    return {
        **{name: torch.tensor(rows).mean(0).tolist() for name, rows in figures.items()},
        "same": sum(same) / len(same),
        "chance": sum(1 / len(one.sentences) for one in found) / len(found),
        "weight": sum(float(one.sentences.max()) for one in found) / len(found),
    }


def gains(
    reviews: Sequence[_Review], found: Sequence[Read], least: int
) -> dict[int, float]:
    """The mean weight of each word that occurs often, in its sentence's uniform weight.

    Args:
        least: how often a word occurs.
    """
    total: dict[int, list[float]] = {}
    for review, one in zip(reviews, found, strict=True):
        for sentence, weights in zip(review, one.words, strict=True):
            for word, weight in zip(sentence, weights.tolist(), strict=False):
                total.setdefault(word, []).append(weight * len(sentence))
    return {
        word: sum(each) / len(each)
        for word, each in total.items()
        if len(each) >= least and word != UNK
    }


def measure(seed: int) -> dict[str, Any]:
    """One model.

    Returns:
        ``accuracy`` on the whole test set; the :func:`effects` on its first reviews;
        ``moved``, how often the prediction changes with padding if nothing is masked;
        the words with the largest and the smallest :func:`gains`; and the first
        reviews of the right size with their weights.
    """
    reviews, tokens = _reviews()
    model, found, accuracy = _reads(seed)
    classes = [beside_a_longer_one(model, review.sentences) for review in reviews]
    by_word = gains([r.sentences for r in reviews], found, OFTEN)
    ranked = sorted(by_word, key=by_word.__getitem__, reverse=True)
    of_the_size = [
        (review, one)
        for review, one in zip(reviews, found, strict=True)
        if len(review.sentences) in SHORT[0]
        and len(review.words) in SHORT[1]
        and UNK not in review.words
    ]
    return {
        "accuracy": accuracy,
        **effects(found),
        "moved": sum(first != second for first, second in classes) / len(classes),
        "words": {
            tokens[word]: round(by_word[word], 2)
            for word in [*ranked[:10], *ranked[-10:]]
        },
        "examples": [
            {
                "texts": [
                    " ".join(tokens[word] for word in sentence)
                    for sentence in review.sentences
                ],
                "words": [
                    weights[: len(sentence)].tolist()
                    for sentence, weights in zip(
                        review.sentences, one.words, strict=True
                    )
                ],
                "sentences": one.sentences.tolist(),
                "label": review.positive,
                "positive": one.positive,
                "without": one.without.tolist(),
            }
            for review, one in of_the_size[:EXAMPLES]
        ],
    }


@cache
def _reviews() -> tuple[list[Any], tuple[str, ...]]:
    """The first reviews of the test set with several sentences, and the tokens."""
    from attention_course.experiments.reviews import TEST, load_reviews

    reviews = load_reviews(None, 20_000, 100)
    several = [r for r in reviews.examples[TEST] if len(r.sentences) > 1]
    return several[:REVIEWS], reviews.words.tokens


@cache
def _reads(seed: int) -> tuple[HierarchicalAttention, list[Read], float]:
    """A trained model, what it says of the reviews, and its accuracy on the whole test set."""
    from attention_course.experiments.imdb import parser, run
    from attention_course.experiments.record import read_result

    with needs_extra("experiments"):
        from safetensors.torch import load_file

    folder = Path("runs", f"reviews-{seed}")
    options = COMMAND.format(seed=seed).split()
    arguments = parser().parse_args([*options, "--output", str(folder)])
    if not (folder / "result.json").exists():
        run(arguments, options)
    reviews, tokens = _reviews()
    model = arguments.build(len(tokens), arguments)
    model.load_state_dict(load_file(folder / "weights.safetensors"))
    accuracy = read_result(folder / "result.json")["test"]["accuracy"]
    model.eval()
    return model, [read(model, review.sentences) for review in reviews], accuracy


def settings() -> list[dict[str, Any]]:
    """The settings of all runs: what :func:`measure` is called with."""
    return grid(seed=0)
