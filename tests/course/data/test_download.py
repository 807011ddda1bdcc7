import hashlib
import os
import time

import pytest

from attention_course.data import download

CONTENT = b"the original"
CHECKSUMS = {"file.gz": hashlib.sha256(CONTENT).hexdigest()}


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache, and a server that sends the original."""

    def serve(url, output_file, pooch):
        with open(output_file, "wb") as file:
            file.write(CONTENT)

    monkeypatch.delenv("COMPANION_DATA", raising=False)
    monkeypatch.setattr(download.pooch, "os_cache", lambda name: tmp_path)
    monkeypatch.setattr("pooch.core.choose_downloader", lambda *args, **kwargs: serve)
    return tmp_path


def write_old(path, age):
    path.write_bytes(b"half of it")
    then = time.time() - age
    os.utime(path, (then, then))


@pytest.mark.parametrize("folder", ["", "set"])
def test_what_a_killed_download_has_left_is_removed(cache, folder):
    (cache / folder).mkdir(exist_ok=True)
    write_old(cache / folder / "tmpabc_1234", age=3600)
    assert download.fetch(CHECKSUMS, "https://x/", folder).read_bytes() == CONTENT
    assert [path.name for path in (cache / folder).iterdir()] == ["file.gz"]


def test_what_another_download_is_writing_and_other_files_stay(cache):
    write_old(cache / "tmp_recent_", age=5)
    write_old(cache / "other.gz", age=3600)
    write_old(cache / "tmp-notes.txt", age=3600)
    (cache / "tmp__folder").mkdir()
    os.utime(cache / "tmp__folder", (0, 0))
    download.fetch(CHECKSUMS, "https://x/")
    names = sorted(path.name for path in cache.iterdir())
    assert names == [
        "file.gz",
        "other.gz",
        "tmp-notes.txt",
        "tmp__folder",
        "tmp_recent_",
    ]
