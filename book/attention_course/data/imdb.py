"""The Large Movie Review Dataset: 50,000 reviews from IMDB, half positive, half negative.

Source: Maas, Daly, Pham, Huang, Ng and Potts, "Learning Word Vectors for Sentiment
Analysis" (2011). A positive review gave the film at least 7 of 10 stars, a negative one at
most 4.
"""

import gzip
import io
import lzma
import re
import tarfile
import zlib
from collections.abc import Callable, Iterator
from operator import itemgetter
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, cast

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
IN_A_CLASS = 12_500  #: positive reviews in a split, and as many negative ones
_LONGEST = 100_000  # bytes of a review; the longest of the originals has 13,704
_MOST = 2**20  # bytes that are read of one member of an archive, with its headers
_OPEN: dict[bytes, Callable[..., Any]] = {
    b"\x1f\x8b": gzip.open,
    b"\xfd7": lzma.open,
}  # by a file's first bytes
_DAMAGED = (
    tarfile.TarError,
    gzip.BadGzipFile,
    lzma.LZMAError,
    zlib.error,
    EOFError,
    RecursionError,  # headers of headers of headers …
)
_LABELLED = re.compile(r"aclImdb/(train|test)/(pos|neg)/([0-9]{1,5})_[0-9]+\.txt")
_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
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
    return read_archive(archive(), split, IN_A_CLASS)


def read_archive(path: Path, split: str, in_a_class: int) -> list[Review]:
    """The reviews of a split, read from an archive that is never unpacked to disk.

    Only ``aclImdb/{train,test}/{pos,neg}/NUMBER_STARS.txt`` are reviews; other files are
    skipped. The archive is a tar file, which may be compressed by gzip or xz; its
    checksums are verified, and the memory that its headers can demand is bounded.

    Args:
        path: the archive.
        split: ``train`` or ``test``.
        in_a_class: the number of reviews in each class, numbered from 0.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the archive is damaged; it contains a link, a device or a path that
            leads out of it; a review is too long, or not UTF-8; or a class has other
            numbers.
    """
    classes: dict[str, dict[int, Review]] = {"neg": {}, "pos": {}}
    for member, content in _members(path):
        match = _LABELLED.fullmatch(member.name)
        if match and match[1] == split and member.isfile():
            reviews, number = classes[match[2]], int(match[3])
            if number in reviews or number >= in_a_class:
                raise ValueError(
                    f"{path} has a review too many, {member.name}: {in_a_class} a class"
                )
            reviews[number] = Review(_decode(path, member, content), match[2] == "pos")
    counts = {name: len(reviews) for name, reviews in classes.items()}
    if set(counts.values()) != {in_a_class}:
        raise ValueError(
            f"{path} has {counts} reviews in {split}, but should have {in_a_class} of each"
        )
    numbered = [*classes["neg"].items(), *classes["pos"].items()]
    return [review for _, review in sorted(numbered, key=itemgetter(0))]


def words(text: str) -> list[str]:
    """The words of a review in lower case: letters and digits, with inner apostrophes.

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


class _Bounded:
    """A file that tarfile reads forwards only, and at most ``_MOST`` bytes per member."""

    def __init__(self, file: io.BufferedIOBase):
        self._file, self.left = file, _MOST

    def read(self, size: int) -> bytes:
        self.left -= size
        if self.left < 0:
            raise tarfile.ReadError(f"a header has more than {_MOST:,} bytes")
        return self._file.read(size)

    def tell(self) -> int:
        return self._file.tell()

    def seek(self, position: int) -> None:
        if position < self._file.tell():
            raise tarfile.ReadError("a header leads back to an earlier position")
        self._file.seek(position)


def _members(path: Path) -> Iterator[tuple[tarfile.TarInfo, bytes]]:
    """The members of an archive in their order, with at most ``_LONGEST`` + 1 bytes each."""
    with path.open("rb") as start:
        open_file = _OPEN.get(start.read(2), open)
    try:
        with cast(io.BufferedIOBase, open_file(path, "rb")) as file:
            bounded: Any = _Bounded(file)
            with tarfile.open(fileobj=bounded, mode="r:") as archive:
                for member in archive:
                    _require_harmless(path, member)
                    content = archive.extractfile(member)
                    yield member, content.read(_LONGEST + 1) if content else b""
                    bounded.left = _MOST
            while file.read(_MOST):  # to the end, where gzip stores its checksum
                pass
    except _DAMAGED as error:
        raise ValueError(f"{path} is damaged, or no archive: {error!r}") from error


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
