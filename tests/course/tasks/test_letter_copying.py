"""The task of copying two letters: what is copied, how long, and that no training sequence is held out."""

import pytest

from attention_course.tasks import two_letters


@pytest.mark.parametrize("held_out", [600, 1_000])
def test_two_letters_are_copied_and_no_training_sequence_is_in_another_set(held_out):
    task = two_letters(held_out)
    sets = task.training_pairs, task.validation_pairs, task.test_pairs
    assert all(pair.source == pair.target for pairs in sets for pair in pairs)
    assert {letter for pair in sets[2] for letter in pair.source} == {"a", "b"}
    lengths = [{len(pair.source) for pair in pairs} for pairs in sets]
    assert lengths == [{*range(5, 26)}, {*range(10, 26)}, {*range(10, 41)}]
    training, *held = ({pair.source for pair in pairs} for pairs in sets)
    assert len(task.training_pairs) == 20_000
    assert len(task.test_pairs) <= held_out
    assert not training & (held[0] | held[1])
