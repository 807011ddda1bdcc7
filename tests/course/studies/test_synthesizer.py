"""The study of chapter 8: its tasks, its models, and that a run can be repeated."""

import pytest
import torch

from attention_course.studies import synthesizer
from attention_course.tasks import Classification, TranslationTask
from companion.attention import Mixture, PatternAttention, RandomSynthesizer, ScaledDot
from companion.attention.synthesizer import Synthesizer


def test_each_kind_is_what_its_name_says():
    kinds = [synthesizer.attention_of(kind, 32) for kind in synthesizer.KINDS]
    assert isinstance(kinds[0], PatternAttention)
    assert torch.equal(
        kinds[0].rule(torch.arange(3)[:, None], torch.arange(3)), torch.eye(3) > 0
    )
    assert isinstance(kinds[1], ScaledDot)
    for one in kinds[2:-1]:
        assert isinstance(one, Synthesizer)
        assert (one.max_length, one.heads) == (32, 4)
    assert isinstance(kinds[-1], Mixture)
    assert [type(one) for one in kinds[-1].attentions] == [RandomSynthesizer, ScaledDot]


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
