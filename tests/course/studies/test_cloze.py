"""The second study of chapter 10: its questions, its readers, and that a run can be repeated."""

import pytest
import torch

from attention_course.studies import cloze
from attention_course.tasks import Cloze


@pytest.mark.parametrize("reader", cloze.READERS)
def test_readers_are_equal_but_in_what_they_attend_with(reader):
    task = cloze.pairs_task()
    built = cloze.build(reader, task, seed=1)
    assert type(built) is cloze.READERS[reader]
    other = cloze.build("attention sum", task, seed=1)
    for name, tensor in other.state_dict().items():
        assert torch.equal(built.state_dict()[name], tensor)


def test_a_run_is_measured_as_it_is_recorded(monkeypatch):
    task = cloze.pairs_task()
    few = Cloze(
        task.training_questions[:64],
        task.validation_questions[:8],
        task.test_questions[:5],
    )
    few.words = task.words
    monkeypatch.setattr(cloze, "pairs_task", lambda: few)
    monkeypatch.setattr(cloze, "STEPS", 2)
    found = cloze.measure("attention mean", learning_rate=0.02, seed=0)
    assert set(found) == {"validation", "test"}
    assert len(found["validation"]) == 1
    assert found["test"] * 5 == pytest.approx(round(found["test"] * 5))
    assert found == cloze.measure("attention mean", learning_rate=0.02, seed=0)


def test_no_territory_of_the_test_pairs_is_asked_about_in_training():
    task = cloze.pairs_task()
    answers = [
        {asked.territories[asked.candidates.index(asked.answer)] for asked in questions}
        for questions in (task.training_questions, task.test_questions)
    ]
    assert not set.intersection(*answers)
