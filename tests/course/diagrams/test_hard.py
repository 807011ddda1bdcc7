"""Numbers on the drawings of chapter 4."""

import re

import pytest

from attention_course.diagrams.hard import gumbel
from tests.course.diagrams.test_drawing import elements


def columns():
    """The numbers of each column of the table, by its left edge."""
    found = {}
    for text in elements(gumbel(), "text"):
        content = "".join(text.itertext()).replace("−", "-")
        if re.fullmatch(r"-?\d\.\d\d?|[01]", content):
            found.setdefault(float(text.get("x")), []).append(float(content))
    return {x: numbers for x, numbers in sorted(found.items()) if len(numbers) == 5}


def test_scores_and_noise_are_added():
    scores, noise, sums, *_ = columns().values()
    for score, added, total in zip(scores, noise, sums, strict=True):
        assert score + added == pytest.approx(total, abs=0.051)


def test_the_softmax_becomes_the_argmax():
    _, _, sums, *weights = columns().values()
    best = sums.index(max(sums))
    assert [sum(numbers) for numbers in weights] == pytest.approx([1] * 4)
    largest = [numbers[best] for numbers in weights]
    assert largest == sorted(largest)
    assert largest[-1] == 1


def test_the_noise_changes_which_is_largest():
    scores, _, sums, *_ = columns().values()
    assert scores.index(max(scores)) != sums.index(max(sums))
