"""The reviews of IMDB in numbers."""

from typing import NamedTuple

import torch

from companion.data import imdb
from companion.data.examples import Labelled
from companion.data.vocabulary import SPECIAL, Vocabulary, pad

TRAINING, TEST = imdb.SPLITS
Example = tuple[list[int], bool]


class Reviews(NamedTuple):
    """The splits, each review as the numbers of its last words and whether it is positive; the vocabulary."""

    examples: dict[str, list[Example]]
    words: Vocabulary


def load_reviews(limit: int | None, size: int, length: int) -> Reviews:
    """The last ``length`` words of each review, in a vocabulary of ``size`` entries, four of them special.

    The vocabulary holds the words that are most frequent in the training split, all of each review counted.
    Of each split only the first ``limit`` reviews, if a limit is given.

    Raises:
        ValueError: a review has no word; and all that :func:`companion.data.imdb.load` raises.
    """
    texts = {split: imdb.load(split)[:limit] for split in imdb.SPLITS}
    tokens = {split: [imdb.words(review.text) for review in texts[split]] for split in texts}
    for split, reviews in tokens.items():
        if [] in reviews:
            raise ValueError(f"review {reviews.index([])} (from 0) of the split {split} has no word")
    words = Vocabulary(Vocabulary.of(tokens[TRAINING]).tokens[len(SPECIAL) : max(size, len(SPECIAL))])
    examples = {
        split: [
            (words.encode(review[-length:]), positive)
            for review, (_, positive) in zip(tokens[split], texts[split], strict=True)
        ]
        for split in texts
    }
    return Reviews(examples, words)


def collate(examples: list[Example]) -> Labelled:
    """A batch for a classifier of two classes, 0 for negative and 1 for positive."""
    tokens, positive = zip(*examples, strict=True)
    return Labelled((pad(tokens),), torch.tensor(positive).long())
