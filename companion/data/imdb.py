"""The Large Movie Review Dataset: 50,000 reviews from IMDB, half of them positive, half negative.

Maas, Daly, Pham, Huang, Ng and Potts, "Learning Word Vectors for Sentiment Analysis" (2011). A positive
review gave the film at least 7 of 10 stars, a negative one at most 4.
"""

import re
import tarfile
from operator import itemgetter
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from companion.data.download import fetch

#: Where the files are downloaded from.
ADDRESS = "https://ai.stanford.edu/~amaas/data/sentiment/"
#: The files' checksums.
SHA256 = {
    "aclImdb_v1.tar.gz": "c40f74a18d3b61f90feba1e17730e0d38e8b97c05fde7008942e91923d1658fe",
    "aclImdb.tar.xz": "dd3ec6ddaafd8ac2e508d1d522a9c3ba058f754d204136613fe9bcb092d142a1",
}
#: The splits.
SPLITS = ("train", "test")
IN_A_CLASS = (
    12_500  #: reviews of a split that are positive, and as many that are negative
)
_LONGEST = 100_000  # bytes of a review; the longest of the originals has 13,704
_LABELLED = re.compile(r"aclImdb/(train|test)/(pos|neg)/([0-9]{1,5})_[0-9]+\.txt")
_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
_BREAK = "<br />"
_END = re.compile(rf"[.!?]+(?!\w)|{_BREAK}")  # of a sentence; a point in 3.5 ends none


class Review(NamedTuple):
    """What somebody wrote about a film, and whether they liked it."""

    text: str
    positive: bool


def archive() -> Path:
    """The archive of all reviews: the original ``aclImdb_v1.tar.gz``, or ``aclImdb.tar.xz``.

    The latter has the labelled reviews alone. Either is looked for in the folder that the environment
    variable COMPANION_DATA names. If that is not set, the original, 84 MB, is downloaded, once, into the
    user's cache. Its checksum is verified in all cases.

    Raises:
        FileNotFoundError: neither is in the folder COMPANION_DATA.
        ValueError: its checksum is not the right one.
        ConnectionError: the original could not be downloaded.
    """
    return fetch(SHA256, ADDRESS)


def load(split: str) -> list[Review]:
    """The 25,000 reviews of a split, ``train`` or ``test``, in the order of their numbers.

    Each number belongs to a negative and to a positive review, which follow each other; so any first part of
    even length has as many of each.

    Raises:
        ValueError: there is no such split; and all that :func:`archive` raises.
    """
    if split not in SPLITS:
        raise ValueError(
            f"the reviews have no split {split}; they have {' and '.join(SPLITS)}"
        )
    return read_archive(archive(), split, IN_A_CLASS)


def read_archive(path: Path, split: str, in_a_class: int) -> list[Review]:
    """The reviews of a split in an archive that is read from front to end, and never unpacked.

    Only ``aclImdb/{train,test}/{pos,neg}/NUMBER_STARS.txt`` are reviews; all else in it is passed over. Each
    class has ``in_a_class`` of them, numbered from 0.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the archive is damaged; something in it is a link or a device, or its path leads out of
            the archive; a review is too long, or not UTF-8; or a class has other numbers.
    """
    classes: dict[str, dict[int, Review]] = {"neg": {}, "pos": {}}
    try:
        with tarfile.open(path, "r|*") as opened:
            for member in opened:
                _require_harmless(path, member)
                match = _LABELLED.fullmatch(member.name)
                if match and match[1] == split and (file := opened.extractfile(member)):
                    reviews, number = classes[match[2]], int(match[3])
                    if number in reviews or number >= in_a_class:
                        raise ValueError(
                            f"{path} has a review too many, {member.name}: {in_a_class} a class"
                        )
                    text = _decode(path, member, file.read(_LONGEST + 1))
                    reviews[number] = Review(text, match[2] == "pos")
    except (
        tarfile.TarError,
        EOFError,
        TypeError,
    ) as error:  # the last, if cut in gzip's header
        raise ValueError(f"{path} is damaged, or no archive: {error!r}") from error
    counts = {name: len(reviews) for name, reviews in classes.items()}
    if set(counts.values()) != {in_a_class}:
        raise ValueError(
            f"{path} has {counts} reviews in {split}, but should have {in_a_class} of each"
        )
    numbered = [*classes["neg"].items(), *classes["pos"].items()]
    return [review for _, review in sorted(numbered, key=itemgetter(0))]


def words(text: str) -> list[str]:
    """The words of a review in lower case: letters and digits, and apostrophes between them.

    All else stands between words, HTML's line breaks too. Keras, whose edition of these reviews many articles
    use, keeps such a break as the word ``br``, and apostrophes at the edges of words.
    """
    return _WORD.findall(text.lower().replace(_BREAK, " "))


def sentences(text: str) -> list[list[str]]:
    """The same words in sentences, none of them empty: up to full stops and the like, and line breaks."""
    return [found for part in _END.split(text.lower()) if (found := words(part))]


def _require_harmless(path: Path, member: tarfile.TarInfo) -> None:
    name = PurePosixPath(member.name)
    if name.is_absolute() or ".." in name.parts:
        raise ValueError(
            f"{path} is not the original: a path in it leads elsewhere, {member.name!r}"
        )
    if not (member.isfile() or member.isdir()):
        raise ValueError(
            f"{path} is not the original: {member.name!r} in it is neither file nor folder"
        )


def _decode(path: Path, member: tarfile.TarInfo, content: bytes) -> str:
    if len(content) > _LONGEST:
        raise ValueError(
            f"{path}: {member.name} has {member.size} bytes, but a review at most {_LONGEST}"
        )
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: {member.name} is not UTF-8: {error}") from error
