"""The study of chapter 9: its documents, its models, and that a run can be repeated."""

import pytest
import torch

from attention_course.data.docstrings import Document
from attention_course.studies import document
from attention_course.studies.document import (
    MODELS,
    TYPES,
    build,
    compose,
)

#: Four sentences of every type, two of them optional; and some that no document takes.
SENTENCES = (
    *(
        (kind, *words, *["more"] * length)
        for kind in TYPES
        for words in (("of", "width"), ("optional", "axis"))
        for length in (0, 10)
    ),
    ("the", "optional", "name"),
    ("int",),
    ("int", *["very"] * 20),
)
SOURCE = [Document("numpy", "a.py", ("name",), SENTENCES)]


@pytest.mark.parametrize("distance", [0, 2])
@pytest.mark.parametrize("sentences", ["short", "long"])
def test_the_label_is_the_type_at_the_distance(distance, sentences):
    settings = 200, 8, distance
    examples = compose(SOURCE, *settings, seed=3, sentences=sentences)
    fewest, most = document.SENTENCES[sentences]
    places = set()
    for example in examples:
        marked = ["optional" in sentence for sentence in example.texts]
        assert len(marked) == 8
        assert sum(marked) == 1
        place = marked.index(True)
        assert example.label == example.texts[place + distance][0]
        assert set(example.texts) <= set(SENTENCES[:-3])
        assert all(fewest <= len(sentence) <= most for sentence in example.texts)
        places.add(place)
    assert places == set(range(8 - distance))
    assert {example.label for example in examples} == set(TYPES)
    assert examples == compose(SOURCE, *settings, seed=3, sentences=sentences)
    assert examples != compose(SOURCE, *settings, seed=4, sentences=sentences)


def test_one_text_has_a_stop_after_each_sentence():
    (example,) = document.one_text(compose(SOURCE, 1, 3, 0, seed=0))
    (text,) = example.texts
    assert text.count(".") == 3
    assert text[-1] == "."
    assert example.label in text


@pytest.mark.parametrize("words", [60, 90, 200, 7_000, 13_000])
def test_no_model_has_fewer_parameters_than_the_one_with_attention(words):
    counts = {
        name: sum(p.numel() for p in build(name, words).parameters()) for name in MODELS
    }
    least = counts.pop("HN-ATT")
    assert all(least <= count < 1.15 * least for count in counts.values()), counts


@pytest.mark.parametrize("model", MODELS)
def test_a_seed_decides_the_initial_weights(model):
    first, again, other = (
        next(build(model, 60, seed).parameters()) for seed in (0, 0, 1)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("model", MODELS)
def test_a_run_is_measured_as_it_is_recorded(monkeypatch, model):
    few = [compose(SOURCE, count, 4, 1, seed=0) for count in (400, 3, 2, 2)]
    monkeypatch.setattr(document, "splits", lambda distance, sentences: few)
    setting = {"sentences": "short", "distance": 1, "learning_rate": 0.01, "steps": 1}
    found = document.measure(model, **setting, seed=3)
    assert set(found) == {"validation", "test", "long"}
    assert len(found["validation"]) == 1
    assert found == document.measure(model, **setting, seed=3)
