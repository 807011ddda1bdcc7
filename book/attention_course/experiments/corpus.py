"""Multi30k, German to English, as token ids."""

from typing import NamedTuple

from attention_course.data import multi30k
from attention_course.data.batching import Encoded
from attention_course.data.vocabulary import Vocabulary

#: The languages.
SOURCE, TARGET = "de", "en"
#: The splits.
TRAINING, VALIDATION, TEST = "train", "val", "test_2016_flickr"


class Corpus(NamedTuple):
    """The splits as token ids, both vocabularies, and the test references as text."""

    pairs: dict[str, list[Encoded]]
    source: Vocabulary
    target: Vocabulary
    references: list[str]


def load_corpus(limit: int | None) -> Corpus:
    """Multi30k as token ids, with the words that occur twice in the training set.

    Args:
        limit: the number of pairs to take of each split, or all.
    """
    tokens = {}
    for split in (TRAINING, VALIDATION, TEST):
        sources, targets = zip(
            *multi30k.load_pairs(split, SOURCE, TARGET)[:limit], strict=True
        )
        tokens[split] = (
            multi30k.tokenize(sources, SOURCE),
            multi30k.tokenize(targets, TARGET),
        )
    source, target = (
        Vocabulary.of(sentences, minimum_frequency=2) for sentences in tokens[TRAINING]
    )
    pairs: dict[str, list[Encoded]] = {
        split: [
            (source.encode(s), target.encode(t)) for s, t in zip(*sides, strict=True)
        ]
        for split, sides in tokens.items()
    }
    return Corpus(
        pairs, source, target, [" ".join(sentence) for sentence in tokens[TEST][1]]
    )
