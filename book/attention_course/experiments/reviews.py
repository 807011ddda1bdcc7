"""The reviews of IMDB as token ids."""

from typing import NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from attention_course.data import imdb
from attention_course.data.examples import Labelled
from attention_course.data.vocabulary import SPECIAL, Vocabulary, pad, pad_documents

#: The splits. The reviews have no validation set, so a part of those to train on is held out.
TRAINING, VALIDATION, TEST = "train", "validation", "test"
_TENTH = 10  # of the reviews to train on are held out


class EncodedReview(NamedTuple):
    """The sentences of a review as token ids, and whether it is positive."""

    sentences: list[list[int]]
    positive: bool

    @property
    def words(self) -> list[int]:
        """All words as one sequence."""
        return [word for sentence in self.sentences for word in sentence]


class Reviews(NamedTuple):
    """The examples of each split, and the vocabulary."""

    examples: dict[str, list[EncodedReview]]
    words: Vocabulary


def load_reviews(limit: int | None, size: int, length: int) -> Reviews:
    """The last ``length`` words of each review as token ids.

    The last tenth of the reviews to train on, rounded up, is the validation set. The
    vocabulary holds the most frequent words of the other nine, counted over whole
    reviews.

    Args:
        limit: the number of reviews to take of the two splits on disk, or all.
        size: the entries of the vocabulary, four of which are special.
        length: the words of a review.
    """
    to_train, to_test = (imdb.load(split)[:limit] for split in imdb.SPLITS)
    held_out = -len(to_train) // _TENTH  # from the end
    texts = {
        TRAINING: to_train[:held_out],
        VALIDATION: to_train[held_out:],
        TEST: to_test,
    }
    tokens = {
        split: [imdb.sentences(review.text) for review in texts[split]]
        for split in texts
    }
    for split, reviews in tokens.items():
        if [] in reviews:
            raise ValueError(
                f"review {reviews.index([])} (from 0) of the split {split} has no word"
            )
    read = Vocabulary.of(sentence for review in tokens[TRAINING] for sentence in review)
    words = Vocabulary(read.tokens[len(SPECIAL) : max(size, len(SPECIAL))])
    examples = {
        split: [
            EncodedReview(
                [words.encode(sentence) for sentence in last_words(review, length)],
                positive,
            )
            for review, (_, positive) in zip(tokens[split], texts[split], strict=True)
        ]
        for split in texts
    }
    return Reviews(examples, words)


def last_words(sentences: list[list[str]], count: int) -> list[list[str]]:
    """The last ``count`` words of a document; the first sentence may be incomplete."""
    kept: list[list[str]] = []
    for sentence in reversed(sentences):
        if count > 0:
            kept.insert(0, sentence[-count:])
            count -= len(sentence)
    return kept


def by_length(examples: list[EncodedReview]) -> list[EncodedReview]:
    """The examples in the order of their lengths, so that batches have little padding."""
    return sorted(examples, key=lambda example: len(example.words))


def collate_words(examples: list[EncodedReview]) -> Labelled:
    """A batch for a classifier that reads a review as one sequence of words."""
    return Labelled((pad([example.words for example in examples]),), _labels(examples))


def collate_sentences(examples: list[EncodedReview]) -> Labelled:
    """A batch for a classifier that reads a review sentence by sentence."""
    return Labelled(
        (pad_documents([example.sentences for example in examples]),), _labels(examples)
    )


def _labels(examples: list[EncodedReview]) -> Int[Tensor, " b"]:
    """0 for negative and 1 for positive."""
    return torch.tensor([example.positive for example in examples]).long()
