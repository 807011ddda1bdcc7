import pytest

from attention_course.data.docstrings import Document, documents
from attention_course.data.names import LONGEST, name_pairs


def document(file, name, description):
    return Document("numpy", file, tuple(name.split()), (tuple(description.split()),))


THREE = [
    document("a.py", "read file", "open it and read"),
    document("a.py", "write file", "open it " * 20),
    document("a.py", "close", "a name of a single word"),
    document("b.py", "lonely name", "there is no other in this file"),
]


def test_each_description_has_its_own_name_and_another_of_its_file():
    assert [tuple(pair) for pair in name_pairs(THREE, seed=0)] == [
        (("read", "file"), ("open", "it", "and", "read"), True),
        (("write", "file"), ("open", "it", "and", "read"), False),
        (("write", "file"), ("open", "it") * 12 + ("open",), True),
        (("read", "file"), ("open", "it") * 12 + ("open",), False),
    ]


def test_a_name_with_the_same_description_is_never_the_other_name():
    aliases = [
        document("a.py", "add item", "put it in"),
        document("a.py", "push item", "put it in"),
        document("b.py", "join item", "put it in"),
        document("b.py", "pop item", "take it out"),
    ]
    with pytest.raises(ValueError, match="these 2 documents"):
        name_pairs(aliases[:2], seed=0)
    # In b.py "join item" has the same description, so that it is right in a.py, too.
    join, pop = (
        document("a.py", "join item", "put two in one"),
        document("a.py", "pop item", "take it out"),
    )
    for seed in range(20):
        pairs = name_pairs([*aliases, join, pop], seed)
        true, false = (
            {x[:2] for x in pairs if x.belong is belong} for belong in (True, False)
        )
        assert not true & false
        wrong = {
            x.name
            for x in pairs
            if x.description == ("put", "it", "in") and not x.belong
        }
        assert wrong == {("pop", "item")}


def test_pairs_of_real_documents():
    found = documents(60)
    pairs = name_pairs(found, seed=0)
    own = {(x.name, x.words[:LONGEST]) for x in found}
    assert all(pair.belong == ((pair.name, pair.description) in own) for pair in pairs)
    assert sum(pair.belong for pair in pairs) == len(pairs) / 2
    assert name_pairs(found, seed=0) == pairs
    assert name_pairs(found, seed=1) != pairs


def test_documents_without_two_names_in_a_file_are_an_error():
    with pytest.raises(ValueError, match="these 2 documents"):
        name_pairs(THREE[2:], seed=0)
