import gzip
import hashlib
import socket

import pytest

from attention_course.data import download, multi30k
from attention_course.data.multi30k import load, load_pairs, tokenize
from attention_course.data.vocabulary import Vocabulary

pytestmark = pytest.mark.slow


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Set COMPANION_DATA to a new folder; returns a function that writes an original there."""
    monkeypatch.setenv("COMPANION_DATA", str(tmp_path))
    (tmp_path / "multi30k").mkdir()

    def write(name, text):
        content = gzip.compress(text if isinstance(text, bytes) else text.encode())
        path = tmp_path / "multi30k" / name
        path.write_bytes(content)
        monkeypatch.setitem(multi30k.SHA256, name, hashlib.sha256(content).hexdigest())
        return path

    return write


@pytest.fixture
def no_network(tmp_path, monkeypatch):
    """No COMPANION_DATA, an empty cache, and an address on this machine without a server."""
    monkeypatch.delenv("COMPANION_DATA", raising=False)
    monkeypatch.setattr(download.pooch, "os_cache", lambda name: tmp_path / "cache")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        monkeypatch.setattr(
            multi30k, "ADDRESS", f"http://127.0.0.1:{taken.getsockname()[1]}/"
        )
        yield tmp_path / "cache"


def test_lines_are_sentences(write):
    write("val.en.gz", "One.\nTwo\x0b\x85 \u2028words.\n")
    assert load("val", "en") == ["One.", "Two\x0b\x85 \u2028words."]


def test_pairs_are_source_and_target(write):
    write("val.de.gz", "Eins\nZwei\n")
    write("val.en.gz", "One\nTwo\n")
    assert load_pairs("val", "de", "en") == [("Eins", "One"), ("Zwei", "Two")]


def test_tokens_are_words_and_punctuation_in_lower_case():
    assert tokenize(["Two dogs, e.g. mine, don't bark."], "en") == [
        ["two", "dogs", ",", "e.g.", "mine", ",", "do", "n't", "bark", "."]
    ]
    assert tokenize(["Ein Hund."], "de", lower=False) == [["Ein", "Hund", "."]]
    assert tokenize(["Ein Hund läuft z.B. schnell."], "de") == [
        ["ein", "hund", "läuft", "z.b.", "schnell", "."]
    ]


def test_the_download_is_verified_and_kept(write, no_network, monkeypatch):
    path = write("val.en.gz", "One\nTwo\n")
    monkeypatch.delenv("COMPANION_DATA", raising=False)

    def serve(url, output_file, pooch):
        assert url == multi30k.ADDRESS + "val.en.gz"
        with open(output_file, "wb") as file:
            file.write(path.read_bytes())

    monkeypatch.setattr("pooch.core.choose_downloader", lambda *args, **kwargs: serve)
    assert load("val", "en") == ["One", "Two"]
    path.write_bytes(b"something else")
    assert load("val", "en") == ["One", "Two"]  # from the cache


def test_a_download_of_another_file_is_refused_and_not_kept(no_network, monkeypatch):
    def serve(url, output_file, pooch):
        with open(output_file, "wb") as file:
            file.write(b"a captive portal says hello")

    monkeypatch.setattr("pooch.core.choose_downloader", lambda *args, **kwargs: serve)
    with pytest.raises(ValueError, match=multi30k.SHA256["val.en.gz"]):
        load("val", "en")
    assert not [path for path in no_network.rglob("*") if path.is_file()]


def test_no_network(no_network):
    with pytest.raises(
        ConnectionError,
        match=r"127\.0\.0\.1.*/val\.en\.gz could not be .*set COMPANION_DATA",
    ):
        load("val", "en")
    assert not [path for path in no_network.rglob("*") if path.is_file()]


@pytest.mark.parametrize(("split", "language"), [("validation", "en"), ("val", "it")])
def test_an_unknown_split_or_language_is_named(split, language):
    with pytest.raises(
        ValueError, match=rf"no {split}\.{language}\.gz; it has .*train\.de\.gz"
    ):
        load(split, language)


def test_a_missing_file_is_named_with_its_folder(write, tmp_path):
    with pytest.raises(
        FileNotFoundError,
        match=rf"val\.de\.gz is not in {tmp_path}.*set COMPANION_DATA",
    ):
        load("val", "de")


def test_a_truncated_file_is_refused_with_both_checksums(write):
    path = write("val.de.gz", "Eins\nZwei\n")
    path.write_bytes(path.read_bytes()[:-5])
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    with pytest.raises(
        ValueError, match=rf"{path} .*{found}.*{multi30k.SHA256['val.de.gz']}"
    ):
        load("val", "de")


@pytest.mark.data
class TestRealData:
    def test_every_file_is_the_original(self):
        lines = {
            "train": 29000,
            "val": 1014,
            "test_2016_flickr": 1000,
            "test_2017_flickr": 1000,
        }
        for split, expected in lines.items():
            assert {len(load(split, language)) for language in ("de", "en", "fr")} == {
                expected
            }

    @pytest.mark.parametrize(("language", "size"), [("de", 7853), ("en", 5893)])
    def test_vocabularies_are_those_of_the_tutorials(self, language, size):
        sentences = tokenize(load("train", language), language)
        assert len(Vocabulary.of(sentences, minimum_frequency=2)) == size
