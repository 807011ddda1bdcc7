import pytest

from companion.data.docstrings import Document, documents
from companion.data.names import LONGEST, name_pairs


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


def test_pairs_of_real_documents():
    found = documents(60)
    pairs = name_pairs(found, seed=0)
    own = {(x.name, x.words[:LONGEST]) for x in found}
    assert all(pair.belong == ((pair.name, pair.description) in own) for pair in pairs)
    assert sum(pair.belong for pair in pairs) == len(pairs) / 2
    assert name_pairs(found, seed=0) == pairs
    assert name_pairs(found, seed=1) != pairs


def test_no_pair_at_all_is_an_error():
    with pytest.raises(ValueError, match="these 2 documents"):
        name_pairs(THREE[2:], seed=0)
