"""The study of chapter 10: its questions, its readers, and that a run can be repeated."""

import pytest
import torch

from attention_course.studies import cloze
from attention_course.tasks import Cloze


def test_the_questions_of_the_three_sets_differ():
    task = cloze.lists_task()
    training, validation, test = (
        {(asked.document, asked.question) for asked in questions}
        for questions in (
            task.training_questions,
            task.validation_questions,
            task.test_questions,
        )
    )
    assert not training & test
    assert not validation & test
    assert not validation & training


def test_each_length_has_200_test_questions():
    task, number = cloze.lists_task(), 0
    for length in cloze.LENGTHS:
        found = cloze.of_length(length)
        assert task.test_questions[number : number + 200] == found
        words = length + 5 + (length > 1)
        assert {len(asked.question) for asked in found} == {words}
        number += 200
    assert number == len(task.test_questions)


@pytest.mark.parametrize("reader", cloze.READERS)
def test_readers_are_equal_but_in_what_they_attend_with(reader):
    task = cloze.lists_task()
    built = cloze.build(reader, task, seed=1)
    assert type(built) is cloze.READERS[reader]
    other = cloze.build("attention sum", task, seed=1)
    for name, tensor in other.state_dict().items():
        assert torch.equal(built.state_dict()[name], tensor)


def test_a_run_is_measured_as_it_is_recorded(monkeypatch):
    task = cloze.lists_task()
    few = Cloze(
        task.training_questions[:64], task.validation_questions[:8], task.test_questions
    )
    few.words = task.words
    monkeypatch.setattr(cloze, "lists_task", lambda: few)
    monkeypatch.setattr(cloze, "LENGTHS", (2,))
    setting = {"reader": "attention over attention", "steps": 2, "learning_rate": 0.02}
    found = cloze.measure("lists", **setting, seed=0)
    assert set(found) == {"validation", "test"}
    assert len(found["validation"]) == len(found["test"]) == 1
    assert found == cloze.measure("lists", **setting, seed=0)


def test_a_run_on_pairs_has_one_accuracy_for_all_test_questions(monkeypatch):
    task = cloze.pairs_task()
    few = Cloze(
        task.training_questions[:64],
        task.validation_questions[:8],
        task.test_questions[:5],
    )
    few.words = task.words
    monkeypatch.setattr(cloze, "pairs_task", lambda: few)
    setting = {"reader": "attention mean", "steps": 1, "learning_rate": 0.02}
    found = cloze.measure("pairs", **setting, seed=0)
    assert len(found["test"]) == 1
    assert found["test"][0] * 5 == pytest.approx(round(found["test"][0] * 5))


def test_no_territory_of_the_test_pairs_is_asked_about_in_training():
    task = cloze.pairs_task()
    answers = [
        {asked.territories[asked.candidates.index(asked.answer)] for asked in questions}
        for questions in (task.training_questions, task.test_questions)
    ]
    assert not set.intersection(*answers)
