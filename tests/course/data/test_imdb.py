import gzip
import hashlib
import io
import lzma
import os
import tarfile
import tracemalloc

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


def member(name, content=b"", kind=tarfile.REGTYPE):
    entry = tarfile.TarInfo(name)
    entry.type, entry.size = kind, len(content)
    entry.linkname = "elsewhere" if kind in (tarfile.SYMTYPE, tarfile.LNKTYPE) else ""
    return entry, io.BytesIO(content)


def pack(reviews=REVIEWS, more=()):
    """A tar file in memory: folders, other files, reviews, and whatever else is asked for."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as packed:
        packed.addfile(*member("aclImdb", kind=tarfile.DIRTYPE))
        for name, text in {**OTHERS, **reviews}.items():
            packed.addfile(*member(f"aclImdb/{name}", text.encode()))
        for entry in more:
            packed.addfile(*entry)
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
    assert read_archive(path, "train", 2) == [
        Review("Naïve 54<br />", False),
        Review("Fine, I can't complain.", True),
        Review("Bad.", False),
        Review("Good.", True),
    ]
    assert [review.text for review in read_archive(path, "test", 2)] == [
        "Flee it",
        "See",
        "Flee",
        "See it",
    ]


def test_the_order_in_the_archive_does_not_matter(archive):
    backwards = dict(reversed(REVIEWS.items()))
    expected = read_archive(archive(pack()), "train", 2)
    assert read_archive(archive(pack(backwards)), "train", 2) == expected


def test_numbers_are_sorted_as_numbers_and_not_as_text(archive):
    many = {
        f"train/{name}/{n}_5.txt": f"{name} {n}"
        for name in ("pos", "neg")
        for n in range(11)
    }
    texts = [review.text for review in read_archive(archive(pack(many)), "train", 11)]
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


@pytest.mark.parametrize("name", ["../x", "/etc/x", "aclImdb/train/pos/../../../x"])
def test_a_path_that_leads_out_of_the_archive_is_named(archive, name):
    path = archive(pack(more=[member(name)]))
    with pytest.raises(ValueError, match=f"leads elsewhere, '{name}'"):
        read_archive(path, "train", 2)


@pytest.mark.parametrize(
    "name", ["train/pos/0_7.txt", "train/pos/1_7.txt", "train/neg/2_4.txt"]
)
def test_a_second_review_of_a_number_and_one_beyond_the_last_are_named(archive, name):
    path = archive(pack(more=[member(f"aclImdb/{name}", b"Again.")]))
    with pytest.raises(
        ValueError, match=rf"a review too many, aclImdb/{name}: 2 a class"
    ):
        read_archive(path, "train", 2)


@pytest.mark.parametrize(
    ("length", "headers", "size"),
    [
        (100_001, {}, 100_001),
        (
            1,
            {"GNU.sparse.map": "0,1", "GNU.sparse.size": "64000000000"},
            64_000_000_000,
        ),
    ],
    ids=["long", "a sparse file that takes no space in the archive"],
)
def test_a_review_that_would_fill_the_memory_is_named(archive, length, headers, size):
    entry, content = member("aclImdb/train/pos/0_7.txt", b"x" * length)
    entry.pax_headers = headers
    path = archive(gzip.compress(pack({}, [(entry, content)])))
    with pytest.raises(
        ValueError, match=rf"0_7\.txt has {size} bytes, but a review at most 100000"
    ):
        read_archive(path, "train", 2)


@pytest.mark.parametrize(
    "kind",
    [
        tarfile.SYMTYPE,
        tarfile.LNKTYPE,
        tarfile.FIFOTYPE,
        tarfile.CHRTYPE,
        tarfile.BLKTYPE,
    ],
)
def test_a_link_or_device_is_named(archive, kind):
    path = archive(pack(more=[member("aclImdb/train/pos/7_7.txt", kind=kind)]))
    with pytest.raises(
        ValueError,
        match=r"'aclImdb/train/pos/7_7\.txt' in it is neither file nor folder",
    ):
        read_archive(path, "train", 2)


@pytest.mark.parametrize("compress", [gzip.compress, lzma.compress, bytes])
@pytest.mark.parametrize("fraction", [0.3, 0.6])
def test_a_truncated_archive_is_damaged(archive, compress, fraction):
    whole = compress(pack({name: os.urandom(500).hex() for name in REVIEWS}))
    with pytest.raises(ValueError, match=r"reviews\.tar (is damaged|has .* reviews)"):
        read_archive(archive(whole[: int(fraction * len(whole))]), "test", 2)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"a captive portal says hello",
        gzip.compress(b"")[:3],
        gzip.compress(b"")[:10] + b"\xff" * 99,
        lzma.compress(b"")[:12] + b"\xff" * 99,
    ],
    ids=["empty", "text", "cut in the header", "no deflate", "no xz"],
)
def test_what_is_no_archive_is_refused(archive, content):
    with pytest.raises(ValueError, match=r"reviews\.tar is damaged, or no archive"):
        read_archive(archive(content), "train", 2)


@pytest.mark.parametrize("compress", [gzip.compress, lzma.compress])
def test_an_archive_of_two_streams_is_whole(archive, compress):
    path = archive(compress(pack()[:5000]) + compress(pack()[5000:]))
    assert read_archive(path, "test", 2) == read_archive(archive(pack()), "test", 2)


def test_the_checksum_of_gzip_is_verified(archive):
    whole = bytearray(gzip.compress(pack()))
    whole[-8] ^= 1  # of the four bytes of the checksum, then four of the length
    with pytest.raises(ValueError, match=r"reviews\.tar is damaged.*CRC check failed"):
        read_archive(archive(bytes(whole)), "train", 2)


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME])
def test_headers_that_would_fill_the_memory_are_refused(archive, kind):
    path = archive(gzip.compress(pack({}, [member("x", bytes(2**26), kind)])))
    tracemalloc.start()
    with pytest.raises(ValueError, match="a header has more than 1,048,576 bytes"):
        read_archive(path, "train", 2)
    assert tracemalloc.get_traced_memory()[1] < 2**23
    tracemalloc.stop()


def test_many_headers_of_one_file_are_refused(archive):
    headers = [member("x", b"", tarfile.XHDTYPE)] * 3000
    with pytest.raises(ValueError, match=r"reviews\.tar is damaged"):
        read_archive(archive(pack({}, headers)), "train", 2)


def test_a_long_map_of_a_sparse_file_is_refused(archive):
    entry, content = member(
        "aclImdb/train/pos/9_7.txt", b"9" * 9 + b"\n" + b"0\n" * 2**20
    )
    entry.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0"}
    with pytest.raises(ValueError, match="a header has more than 1,048,576 bytes"):
        read_archive(archive(pack({}, [(entry, content)])), "train", 2)


def test_a_wrong_count_is_named(archive):
    fewer = {
        name: text for name, text in REVIEWS.items() if name != "train/neg/1_2.txt"
    }
    path = archive(pack(fewer))
    with pytest.raises(
        ValueError,
        match=r"\{'neg': 1, 'pos': 2\} reviews in train, but should have 2 of each",
    ):
        read_archive(path, "train", 2)
    with pytest.raises(
        ValueError, match=r"'pos': 2\} reviews in test, but should have 12500 of each"
    ):
        read_archive(path, "test", imdb.IN_A_CLASS)


def test_a_review_that_is_not_utf_8_is_named(archive):
    path = archive(pack(more=[member("aclImdb/train/pos/2_7.txt", b"caf\xe9")]))
    with pytest.raises(
        ValueError, match=r"aclImdb/train/pos/2_7\.txt is not UTF-8: .*byte 0xe9"
    ):
        read_archive(path, "train", 3)


def test_an_unknown_split_is_named():
    with pytest.raises(ValueError, match="no split valid; they have train and test"):
        load("valid")


@pytest.mark.parametrize("name", imdb.SHA256)
def test_either_archive_is_found_in_the_local_folder(tmp_path, monkeypatch, name):
    monkeypatch.setenv("COMPANION_DATA", str(tmp_path))
    monkeypatch.setattr(imdb, "IN_A_CLASS", 2)
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
    monkeypatch.setattr(imdb, "IN_A_CLASS", 2)
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
