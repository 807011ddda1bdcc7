"""The first study of chapter 10: its questions, what it measures, and that a run can be repeated."""

from collections import Counter

import pytest
import torch

from attention_course.data.vocabulary import Vocabulary
from attention_course.studies import descriptions as study
from companion.attention import attention_over_attention

PAIRS = [((f"a{k}", "the"), (f"b{k}", "le", "la")) for k in range(6)]


@pytest.fixture
def words():
    return Vocabulary.of(part for pair in PAIRS for part in pair)


def test_one_sentence_describes_one_description_and_the_others_none():
    translation = dict(PAIRS)
    asked = study.ask(PAIRS, 3, (1, 2, 3), 60, seed=0)
    for one in asked:
        assert len(set(one.descriptions)) == 3
        french = [translation[english] for english in one.descriptions]
        assert one.sentences[one.sentence] == french[one.described]
        assert len(set(one.sentences) & set(french)) == 1
    assert set(Counter(len(one.sentences) for one in asked)) == {1, 2, 3}
    assert (
        {one.described for one in asked} == {one.sentence for one in asked} == {0, 1, 2}
    )
    assert asked == study.ask(PAIRS, 3, (1, 2, 3), 60, seed=0)


def test_a_batch_says_to_which_part_each_word_belongs(words):
    asked = study.ask(PAIRS, 2, [1], 1, seed=0) + study.ask(PAIRS, 3, [2], 1, seed=1)
    batch = study.collate(words, asked)
    assert batch.description.tolist() == [[1, 1, 2, 2, 0, 0], [1, 1, 2, 2, 3, 3]]
    assert batch.sentence.tolist() == [[1, 1, 1, 0, 0, 0], [1, 1, 1, 2, 2, 2]]
    assert batch.described[1].item() == asked[1].described + 1
    assert batch.right[1].item() == asked[1].sentence + 1
    assert words.decode(batch.document[0]) == [
        word for part in asked[0].descriptions for word in part
    ]


def test_what_is_inside_agrees_with_the_reader(words):
    asked = study.ask(PAIRS, 3, [1, 2], 40, seed=2)
    batch = study.collate(words, asked)
    reader = study.build("attention over attention", len(words), seed=0).eval()
    M = study.scores(reader, batch)
    masks = batch.document != 0, batch.question != 0
    with torch.no_grad():
        weights = reader(batch.document, batch.question)
    torch.testing.assert_close(weights, attention_over_attention(M, *masks))
    found = study.inside(reader, batch, 3)
    assert found["right"] == study.right(weights, batch, 3).mean()
    proportion = (batch.sentence == batch.right).sum(1) / masks[1].sum(1)
    assert found["uniform"] == pytest.approx(proportion.mean().item())
    assert found["on_right"] == pytest.approx(found["uniform"], abs=0.05)


def test_weights_from_the_question_do_not_depend_on_the_document(words):
    reader = study.build("question's own weights", len(words), seed=0)
    batch = study.collate(words, study.ask(PAIRS, 2, [1], 2, seed=0))
    weights = reader(batch.document, batch.question)
    torch.testing.assert_close(weights.sum(1), torch.ones(2))
    for name, tensor in (
        study.build("attention mean", len(words), 0).state_dict().items()
    ):
        assert torch.equal(reader.state_dict()[name], tensor)


def test_a_run_is_measured_as_it_is_recorded(monkeypatch, words):
    monkeypatch.setattr(study, "vocabulary", lambda: words)
    monkeypatch.setattr(study, "translations", lambda split: PAIRS * 4)
    monkeypatch.setattr(
        study, "_training", lambda: study.ask(PAIRS, 4, [1], 64, seed=1)
    )
    monkeypatch.setattr(study, "STEPS", 2)
    monkeypatch.setattr(study.questions, "__defaults__", (100, 4))
    found = study.measure("attention over attention", learning_rate=0.01, seed=0)
    assert set(found) == {"validation", "test", "inside", "longer", "examples"}
    assert len(found["test"]) == len(found["inside"]) == len(study.SENTENCES)
    assert [one["right"] for one in found["inside"]] == pytest.approx(found["test"])
    assert len(found["examples"]) == 4
    assert found == study.measure(
        "attention over attention", learning_rate=0.01, seed=0
    )
