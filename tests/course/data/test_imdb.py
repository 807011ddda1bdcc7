import gzip
import hashlib
import io
import lzma
import tarfile

import pytest

from attention_course.data import imdb
from attention_course.data.imdb import Review, load, read_archive, words

REVIEWS = {
    "train/pos/1_10.txt": "Good.",
    "train/neg/1_2.txt": "Bad.",
    "train/pos/0_7.txt": "Fine, I can't complain.",
    "train/neg/0_4.txt": "Naïve 54<br />",
    "test/pos/1_8.txt": "See it",
    "test/neg/1_1.txt": "Flee",
    "test/pos/0_8.txt": "See",
    "test/neg/0_1.txt": "Flee it",
}
OTHERS = {
    "README": "x",
    "train/unsup/0_0.txt": "x",
    "train/pos/labels.txt": "x",
    "train/pos/5_7.txt.bak": "x",
}


def pack(reviews=REVIEWS):
    """A tar file in memory: folders, other files, and reviews."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as packed:
        for name, text in {**OTHERS, **reviews}.items():
            entry = tarfile.TarInfo(f"aclImdb/{name}")
            entry.size = len(text.encode())
            packed.addfile(entry, io.BytesIO(text.encode()))
    return buffer.getvalue()


@pytest.fixture
def archive(tmp_path):
    """Writes an archive with the given bytes."""

    def write(content):
        (tmp_path / "reviews.tar").write_bytes(content)
        return tmp_path / "reviews.tar"

    return write


@pytest.mark.parametrize("compress", [gzip.compress, lzma.compress, bytes])
def test_reviews_are_sorted_by_number_with_the_classes_alternating(archive, compress):
    path = archive(compress(pack()))
    assert read_archive(path, "train") == [
        Review("Naïve 54<br />", False),
        Review("Fine, I can't complain.", True),
        Review("Bad.", False),
        Review("Good.", True),
    ]
    assert [review.text for review in read_archive(path, "test")] == [
        "Flee it",
        "See",
        "Flee",
        "See it",
    ]


def test_the_order_in_the_archive_does_not_matter(archive):
    backwards = dict(reversed(REVIEWS.items()))
    expected = read_archive(archive(pack()), "train")
    assert read_archive(archive(pack(backwards)), "train") == expected


def test_numbers_are_sorted_as_numbers_and_not_as_text(archive):
    many = {
        f"train/{name}/{n}_5.txt": f"{name} {n}"
        for name in ("pos", "neg")
        for n in range(11)
    }
    texts = [review.text for review in read_archive(archive(pack(many)), "train")]
    assert texts == [f"{name} {n}" for n in range(11) for name in ("neg", "pos")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It's GOOD.<br /><br />Really!", ["it's", "good", "really"]),
        ("'Quoted' words, don't they", ["quoted", "words", "don't", "they"]),
        (
            "10/10: a well-made film_noir",
            ["10", "10", "a", "well", "made", "film", "noir"],
        ),
        ("Amélie\x96rock'n'roll", ["amélie", "rock'n'roll"]),
        ("...!", []),
        ("हिन्दी, தமிழ்", ["हिन्दी", "தமிழ்"]),
        ("nai\u0308ve cafe\u0301s'", ["nai\u0308ve", "cafe\u0301s"]),
        ("İstanbul", ["i\u0307stanbul"]),  # the lower case of İ is i and a mark
        ("שָׁלוֹם สวัสดี", ["שָׁלוֹם", "สวัสดี"]),
        ("می\u200cخواهم क्\u200dष", ["می\u200cخواهم", "क्\u200dष"]),
        ("葛\U000e0100城 \u0301 x\u200c", ["葛\U000e0100城", "x"]),
    ],
)
def test_words_are_letters_digits_and_apostrophes_between_them(text, expected):
    assert words(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "Great! 3.5 stars, it's fun...<br /><br />Go on",
            [["great"], ["3", "5", "stars", "it's", "fun"], ["go", "on"]],
        ),
        ("no end", [["no", "end"]]),
        ("?!", []),
    ],
)
def test_sentences_end_at_full_stops_and_line_breaks(text, expected):
    assert imdb.sentences(text) == expected
    assert [word for sentence in expected for word in sentence] == imdb.words(text)


def test_an_unknown_split_is_named():
    with pytest.raises(ValueError, match="no split valid; they have train and test"):
        load("valid")


@pytest.mark.parametrize("name", imdb.SHA256)
def test_either_archive_is_found_in_the_local_folder(tmp_path, monkeypatch, name):
    monkeypatch.setenv("COMPANION_DATA", str(tmp_path))
    (tmp_path / name).write_bytes(pack())
    with pytest.raises(
        ValueError, match=rf"{name} is damaged or another version.*{imdb.SHA256[name]}"
    ):
        load("train")
    monkeypatch.setitem(imdb.SHA256, name, hashlib.sha256(pack()).hexdigest())
    assert len(load("train")) == 4


def test_of_two_archives_the_first_counts_with_its_own_checksum(tmp_path, monkeypatch):
    monkeypatch.setenv("COMPANION_DATA", str(tmp_path))
    for name in imdb.SHA256:
        (tmp_path / name).write_text(name)
        monkeypatch.setitem(
            imdb.SHA256, name, hashlib.sha256(name.encode()).hexdigest()
        )
    assert imdb.archive() == tmp_path / "aclImdb_v1.tar.gz"
    (tmp_path / "aclImdb_v1.tar.gz").write_text("aclImdb.tar.xz")
    with pytest.raises(
        ValueError, match=r"aclImdb_v1\.tar\.gz is damaged or another version"
    ):
        imdb.archive()


def test_a_folder_with_neither_archive_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("COMPANION_DATA", str(tmp_path))
    message = rf"aclImdb_v1\.tar\.gz or aclImdb\.tar\.xz is not in {tmp_path}.*set COMPANION_DATA"
    with pytest.raises(FileNotFoundError, match=message):
        load("train")


def test_the_original_is_downloaded(tmp_path, monkeypatch):
    def serve(url, output_file, pooch):
        assert url == "https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz"
        with open(output_file, "wb") as file:
            file.write(pack())

    monkeypatch.delenv("COMPANION_DATA", raising=False)
    monkeypatch.setitem(
        imdb.SHA256, "aclImdb_v1.tar.gz", hashlib.sha256(pack()).hexdigest()
    )
    monkeypatch.setattr(
        "attention_course.data.download.pooch.os_cache", lambda name: tmp_path / "cache"
    )
    monkeypatch.setattr("pooch.core.choose_downloader", lambda *args, **kwargs: serve)
    assert [review.text for review in load("test")] == [
        "Flee it",
        "See",
        "Flee",
        "See it",
    ]
    assert (tmp_path / "cache" / "aclImdb_v1.tar.gz").exists()


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.parametrize(
    ("split", "checksum"), [("train", "a6df9f28193bf3ee"), ("test", "48dcde204319e88f")]
)
def test_the_reviews_are_the_originals(split, checksum):
    reviews = load(split)
    assert len(reviews) == 25_000
    assert [review.positive for review in reviews] == [False, True] * 12_500
    joined = "\n".join(" ".join(words(review.text)) for review in reviews)
    assert hashlib.sha256(joined.encode()).hexdigest()[:16] == checksum
