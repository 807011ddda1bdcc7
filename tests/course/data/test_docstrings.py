import importlib

import pytest

from attention_course.data.docstrings import (
    LIBRARIES,
    Document,
    documents,
    sentences,
    split,
)


@pytest.fixture(scope="module")
def found():
    return documents(150)


def test_equally_many_of_each_library_without_duplicates(found):
    assert [sum(x.library == library for x in found) for library in LIBRARIES] == [
        150
    ] * 4
    assert len({x.sentences for x in found}) == len(found)


def test_documents_are_reproducible_and_more_start_with_the_fewer(found):
    assert documents(150) == found
    assert [x for x in documents(160) if x.library == "numpy"][:150] == [
        x for x in found if x.library == "numpy"
    ]


def test_documents_are_sentences_of_words(found):
    for document in found:
        assert len(document.words) >= 20
        assert len(document.sentences) >= 2
        assert all(document.sentences)
        assert all(
            word.isascii() and word.isalpha() and word.islower()
            for word in document.words
        )
        assert document.file.endswith(".py")


def test_words_that_identify_a_library_are_deleted(found):
    words = {word for document in found for word in document.words}
    assert not words & {
        "numpy",
        "np",
        "torch",
        "tensor",
        "matplotlib",
        "pyplot",
        "python",
        "ndarray",
        "axes",
    }
    assert sentences("A torch tensor of numpy. It is not Python's own.") == (
        ("a", "of"),
        ("it", "is", "not", "s", "own"),
    )


def test_a_docstring_is_cut_into_sentences():
    text = """Read a file: see :class:`Path`.

    Parameters
    ----------
    name : str
        Where it is

    Args:
        other: what else

    >>> for line in read("name"):
    ...     print(line)
    printed: a line
    >>> read("other")
    printed(again=3.14)

    .. note:: not this

    Done! Really"""
    assert [" ".join(words) for words in sentences(text)] == [
        "read a file",
        "see path",
        "name",
        "str where it is",
        "other",
        "what else",
        "done",
        "really",
    ]


def test_the_split_is_by_file(found):
    train, test = split(found, fraction=0.5, seed=1)
    assert sorted(train + test) == sorted(found)
    files = [{(x.library, x.file) for x in side} for side in (train, test)]
    assert not files[0] & files[1]
    assert {x.library for x in test} == set(LIBRARIES)
    assert split(found, fraction=0.5, seed=1) == (train, test)
    assert split(found, fraction=0.5, seed=2) != (train, test)


def test_names_in_words(found):
    names = {document.name for document in found}
    assert any(len(name) > 1 for name in names)
    assert all(word.isalpha() and word.islower() for name in names for word in name)


def test_a_package_is_named_by_its_folder(library):
    text = '"""It opens this and that. ' + "It closes them again. " * 5 + '"""'
    (library / "file_readers").mkdir()
    (library / "file_readers" / "__init__.py").write_text(text)
    (library / "line_writer.py").write_text(text.replace("this", "these"))
    names = {x.file: x.name for x in documents(9, ["strange_library"])}
    assert names == {
        "file_readers/__init__.py": ("file", "readers"),
        "line_writer.py": ("line", "writer"),
    }


def test_a_side_without_files_is_an_error():
    with pytest.raises(
        ValueError, match="the 1 files of numpy leaves 1 to train on and 0"
    ):
        split([Document("numpy", "a.py", ("a",), (("b",), ("c",)))], 0.3, seed=0)


@pytest.fixture
def library(tmp_path, monkeypatch):
    """An installed library whose folder is still empty."""
    monkeypatch.syspath_prepend(tmp_path)
    folder = tmp_path / "strange_library"
    folder.mkdir()
    importlib.invalidate_caches()
    return folder


DOCSTRING = '"""Le caf\u00e9 est ouvert ' + "mais " * 20 + 'ferme. Really?"""\r\n'
FILES = {
    "mark": b"\xef\xbb\xbf" + DOCSTRING.encode(),
    "latin": b"# -*- coding: latin-1 -*-\r\n"
    + DOCSTRING.replace("Le", "Un").encode("latin-1"),
    "old": b"print 'of Python 2'",
    "bytes": b"x = '\xff'",
    "null": b"x = 1\0",
    "signs": b"x = " + b"-" * 100_000 + b"1",
    "sum": b"x = " + b"1 + " * 20_000 + b"1",
}


def test_files_are_read_in_their_declared_encoding_and_invalid_ones_skipped(
    library,
):
    for name, code in FILES.items():
        (library / f"{name}.py").write_bytes(code)
    (library / "folder.py").mkdir()
    found = {x.file: x.sentences[0][:4] for x in documents(9, ["strange_library"])}
    assert found == {
        "mark.py": ("le", "caf", "est", "ouvert"),
        "latin.py": ("un", "caf", "est", "ouvert"),
    }


def test_a_library_without_files_is_an_error(library):
    with pytest.raises(
        ValueError, match=r"there are no Python files in .*strange_library"
    ):
        documents(1, ["strange_library"])


def test_an_unknown_library_is_an_error():
    with pytest.raises(ValueError, match="'no_such_library' is not installed"):
        documents(1, ["no_such_library"])
