"""Facts and questions: which digit is the right one, and that batches can be repeated."""

import pytest
import torch

from attention_course.tasks.lookups import DIGITS, LookupBatches, lookups, overwritten


@pytest.mark.parametrize(("make", "statements"), [(lookups, 6), (overwritten, 12)])
def test_each_question_has_the_last_digit_of_its_city(make, statements):
    batch = make(9, 6, 3)
    for cities, digits, answers in zip(*batch, strict=True):
        stated = list(zip(cities.tolist(), digits.tolist(), strict=True))[:statements]
        facts = dict(stated)  # a later statement replaces an earlier one
        assert len(facts) == 6
        asked = cities[statements:].tolist()
        assert [facts[city] for city in asked] == answers.tolist()
        assert len(set(stated)) == statements  # no city has one digit twice
    assert (batch.digit[:, statements:] == DIGITS).all()


@pytest.mark.parametrize("make", [lookups, overwritten])
def test_batches_have_any_number_of_facts_and_can_be_repeated(make):
    batches = LookupBatches(0, 64, make)
    lengths = {batches[step].city.shape[1] for step in range(40)}
    assert len(lengths) > 20
    assert torch.equal(batches[3].city, LookupBatches(0, 64, make)[3].city)
    assert batches[3].city.shape != LookupBatches(1, 64, make)[3].city.shape
