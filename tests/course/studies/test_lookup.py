"""The study of chapter 3 on lookups: its questions, and that a run can be repeated."""

import pytest
import torch

from attention_course.studies import lookup


def test_the_label_is_the_digit_of_the_city_that_is_asked_for():
    cities, digits, mask, asked, label = lookup.lookups(
        200, torch.Generator().manual_seed(0)
    )
    found = (cities == asked[:, None]) & mask
    assert (found.sum(1) == 1).all()
    assert torch.equal(digits[found], label)
    assert set(mask.sum(1).tolist()) == set(range(1, 17))


@pytest.mark.parametrize("reader", lookup.BEST)
def test_a_run_can_be_repeated(reader):
    setting = {"reader": reader, "steps": 2, "learning_rate": 0.01}
    found = lookup.measure(**setting, seed=3)
    assert len(found["test"]) == len(lookup.FACTS)
    assert found == lookup.measure(**setting, seed=3)
    assert found != lookup.measure(**setting, seed=4)
