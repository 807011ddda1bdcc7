"""The Large Movie Review Dataset: 50,000 reviews from IMDB, half positive, half negative.

Source: Maas, Daly, Pham, Huang, Ng and Potts, "Learning Word Vectors for Sentiment
Analysis" (2011). A positive review gave the film at least 7 of 10 stars, a negative one at
most 4.
"""

import re
import tarfile
from pathlib import Path
from typing import NamedTuple
from unicodedata import category

from attention_course.data.download import fetch

#: Where the files are downloaded from.
ADDRESS = "https://ai.stanford.edu/~amaas/data/sentiment/"
#: The files' checksums.
SHA256 = {
    "aclImdb_v1.tar.gz": "c40f74a18d3b61f90feba1e17730e0d38e8b97c05fde7008942e91923d1658fe",
    "aclImdb.tar.xz": "dd3ec6ddaafd8ac2e508d1d522a9c3ba058f754d204136613fe9bcb092d142a1",
}
#: The splits.
SPLITS = ("train", "test")
_LABELLED = re.compile(r"aclImdb/(train|test)/(pos|neg)/([0-9]{1,5})_[0-9]+\.txt")
# Accents and vowel signs, which Python's \w leaves out, and what selects a Chinese glyph.
_MARKS = "".join(
    character
    for character in map(chr, (*range(0x1F000), *range(0xE0100, 0xE01F0)))
    if category(character).startswith("M")
)
# The lookahead is for speed: no mark comes before U+0300.
_PART = rf"[^\W_]+(?:(?![\0-\u02ff])[{_MARKS}]+[^\W_]*)*"
# Between two parts may be an apostrophe, or the non-joiner or joiner of Persian and Hindi.
_WORD = re.compile(rf"{_PART}(?:['\u200c\u200d]{_PART})*")
_BREAK = "<br />"
# The end of a sentence; the point in 3.5 is none.
_END = re.compile(rf"[.!?]+(?!\w)|{_BREAK}")


class Review(NamedTuple):
    """A review of a film, and whether its author liked the film."""

    text: str
    positive: bool


def archive() -> Path:
    """The archive of all reviews: the original ``aclImdb_v1.tar.gz``, or ``aclImdb.tar.xz``.

    The latter contains only the labelled reviews. Either is taken from the folder that
    the environment variable COMPANION_DATA names. If that is not set, the original, 84
    MB, is downloaded once into the user's cache. The checksum is verified in all cases.

    Raises:
        FileNotFoundError: neither is in the folder COMPANION_DATA.
        ValueError: the checksum is not the expected one.
        ConnectionError: the original could not be downloaded.
    """
    return fetch(SHA256, ADDRESS)


def load(split: str) -> list[Review]:
    """The 25,000 reviews of a split, ``train`` or ``test``, in the order of their numbers.

    Each number belongs to a negative and to a positive review, which follow each other,
    so that any first part of even length is balanced.
    """
    if split not in SPLITS:
        raise ValueError(
            f"the reviews have no split {split}; they have {' and '.join(SPLITS)}"
        )
    return read_archive(archive(), split)


def read_archive(path: Path, split: str) -> list[Review]:
    """The reviews of a split, read from an archive that is never unpacked to disk.

    Only ``aclImdb/{train,test}/{pos,neg}/NUMBER_STARS.txt`` are reviews; other files are
    skipped. The archive is a tar file, which may be compressed by gzip or xz.
    """
    found = {}
    with tarfile.open(path, "r|*") as archive:
        for member in archive:
            match = _LABELLED.fullmatch(member.name)
            content = archive.extractfile(member)
            if match and match[1] == split and content:
                positive = match[2] == "pos"
                review = Review(content.read().decode("utf-8"), positive)
                found[int(match[3]), positive] = review
    return [found[place] for place in sorted(found)]


def words(text: str) -> list[str]:
    """The words of a review in lower case: letters with their marks, digits, inner apostrophes.

    Everything else separates words, including HTML's line breaks. Keras, whose edition
    of these reviews many articles use, keeps such a break as the word ``br``, and
    apostrophes at the edges of words.

    Example:
        >>> words("I can't complain.<br />Really!")
        ['i', "can't", 'complain', 'really']
    """
    return _WORD.findall(text.lower().replace(_BREAK, " "))


def sentences(text: str) -> list[list[str]]:
    """The same words in sentences, which end at full stops and the like, and line breaks.

    No sentence is empty.
    """
    return [found for part in _END.split(text.lower()) if (found := words(part))]
