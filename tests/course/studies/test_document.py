"""The study of chapter 9: its documents, its models, and that a run can be repeated."""

import pytest
import torch

from attention_course.data.docstrings import Document
from attention_course.studies import document
from attention_course.studies.document import (
    LENGTHS,
    MODELS,
    RATES,
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


def test_an_unknown_model_is_an_error():
    with pytest.raises(
        ValueError, match=r"model must be one of 'HN-ATT', .*, not 'HAN'"
    ):
        build("HAN", 60)


@pytest.mark.parametrize(
    ("sentences", "counts"),
    [("short", [3000, 400, 500, 500]), ("long", [3000, 300, 300, 150])],
)
def test_the_sets_have_their_sizes(monkeypatch, sentences, counts):
    monkeypatch.setattr(document, "sources", lambda: (SOURCE, SOURCE, SOURCE))
    document.splits.cache_clear()
    sets = document.splits(1, sentences)
    document.splits.cache_clear()
    assert [len(one) for one in sets] == counts
    assert [len(one[0].texts) for one in sets] == [LENGTHS[0]] * 3 + [LENGTHS[1]]


@pytest.mark.parametrize("model", MODELS)
def test_a_run_is_measured_as_it_is_recorded(monkeypatch, model):
    few = [compose(SOURCE, count, 4, 1, seed=0) for count in (400, 3, 2, 2)]
    monkeypatch.setattr(document, "splits", lambda distance, sentences: few)
    setting = {"sentences": "short", "distance": 1, "learning_rate": 0.01, "steps": 1}
    found = document.measure(model, **setting, seed=3)
    assert set(found) == {"validation", "test", "long"}
    assert len(found["validation"]) == 1
    assert found == document.measure(model, **setting, seed=3)


def test_every_model_has_every_rate_and_the_hardest_question_three_seeds():
    settings = document.settings()
    for model in MODELS[:4]:
        rates = [
            one["learning_rate"]
            for one in settings
            if (one["model"], one["sentences"], one["distance"]) == (model, "short", 2)
        ]
        assert sorted(rates) == list(RATES)
    long = [one for one in settings if one["sentences"] == "long"]
    for model, steps, rates in [
        *((model, 400, [0.02]) for model in document.ORDERED),
        ("flat attention", 250, document.LONG_RATES),
    ]:
        for rate in rates:
            same = {"model": model, "steps": steps, "learning_rate": rate}
            seeds = [one["seed"] for one in long if same.items() <= one.items()]
            assert sorted(seeds) == [0, 1, 2]
