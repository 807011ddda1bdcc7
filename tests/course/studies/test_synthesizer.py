"""The study of chapter 8: its tasks, its models, and that a run can be repeated."""

import pytest
import torch

from attention_course.data.comparisons import TRANSLATIONS
from attention_course.studies import synthesizer
from attention_course.tasks import Classification, TranslationTask
from companion.attention import (
    FixedRandom,
    Mixture,
    PatternAttention,
    RandomSynthesizer,
    ScaledDot,
)
from companion.attention.synthesizer import Synthesizer


def test_each_kind_is_what_its_name_says():
    kinds = {kind: synthesizer.attention_of(kind, 32) for kind in synthesizer.KINDS}
    none, mixture = kinds.pop("none"), kinds.pop("random + dot")
    assert isinstance(none, PatternAttention)
    assert torch.equal(
        none.rule(torch.arange(3)[:, None], torch.arange(3)), torch.eye(3) > 0
    )
    assert isinstance(kinds.pop("dot product"), ScaledDot)
    assert isinstance(mixture, Mixture)
    assert [type(one) for one in mixture.attentions] == [RandomSynthesizer, ScaledDot]
    for one in kinds.values():
        assert isinstance(one, Synthesizer)
        assert (one.max_length, one.heads) == (32, 4)
    for kind in ("random", "zero", "fixed random", "fixed row", "fixed zero"):
        table = kinds[kind]
        assert isinstance(table, FixedRandom) == kind.startswith("fixed")
        assert (table.R == 0).all() == kind.endswith("zero")
        assert (table.R[:, :1] == table.R).all() == kind.endswith(("row", "zero"))


@pytest.mark.parametrize("make", [synthesizer.larger, synthesizer.plain_numbers])
def test_no_pair_is_in_two_sets(make):
    task = make()
    sets = [
        {pair.source for pair in pairs}
        for pairs in (task.training_pairs, task.validation_pairs, task.test_pairs)
    ]
    assert len(set.union(*sets)) == sum(map(len, sets))


def test_no_source_of_the_classifiers_is_in_two_sets():
    task, test = synthesizer.shared()
    sets = [
        {example.texts for example in part}
        for part in (task.training_examples, task.test_examples, test)
    ]
    assert len(set.union(*sets)) == sum(map(len, sets)) == 12_000


def test_in_order_words_alternate_and_a_number_of_both_languages_comes_first():
    (texts, test), (task, sorted_test) = synthesizer.shared(), synthesizer.in_order()
    parts = (
        (texts.training_examples, task.training_examples),
        (texts.test_examples, task.test_examples),
        (test, sorted_test),
    )
    for before, after in parts:
        for one, other in zip(before, after, strict=True):
            assert sorted(other.texts[0]) == sorted(one.texts[0])
            assert other.label == one.label
            first, second, third, fourth = other.texts[0]
            assert {first, third} <= TRANSLATIONS.keys()
            assert (TRANSLATIONS[first] == second) == (one.label == "shared")
            assert TRANSLATIONS[third] != fourth


def few(task):
    """The task with a few pairs of each set, and all words."""
    return TranslationTask(
        task.training_pairs[:200], task.validation_pairs[:2], task.test_pairs[:40]
    )


def test_a_translation_is_measured_as_it_is_recorded(monkeypatch):
    data = few(synthesizer.larger())
    monkeypatch.setattr(synthesizer, "larger", lambda: data)
    setting = {"task": "larger", "model": "random + dot", "steps": 2}
    setting["learning_rate"] = 0.01
    found = synthesizer.measure(**setting, embedding=1.0, seed=3)
    assert set(found) == {"validation", "test", "history"}
    assert found == synthesizer.measure(**setting, embedding=1.0, seed=3)
    losses = {
        tuple(synthesizer.measure(**setting, embedding=factor, seed=seed)["history"])
        for factor, seed in [(1.0, 3), (1.0, 4), (0.3, 3)]
    }
    assert len(losses) == 3


def test_a_classification_is_measured_on_both_sets(monkeypatch):
    data, test = synthesizer.shared()
    part = Classification(data.training_examples[:200], data.test_examples[:30])
    monkeypatch.setattr(synthesizer, "shared", lambda: (part, test[:20]))
    setting = {"task": "shared", "model": "dense", "steps": 2, "learning_rate": 0.01}
    found = synthesizer.measure(**setting, embedding=1.0, seed=3)
    assert found == synthesizer.measure(**setting, embedding=1.0, seed=3)
    assert found["validation"] == found["history"][-1]
    assert found["test"] * 20 == pytest.approx(round(found["test"] * 20))
