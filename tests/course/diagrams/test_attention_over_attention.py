"""What the drawings of chapter 10 compute."""

from math import exp

import pytest

from attention_course.diagrams import attention_over_attention as drawings
from tests.course.diagrams.test_drawing import texts


def weights_by_loops(scores):
    """Attention over attention, one number at a time."""
    rows, columns = range(len(scores)), range(len(scores[0]))
    down = [sum(exp(scores[i][t]) for i in rows) for t in columns]
    along = [sum(exp(score) for score in scores[i]) for i in rows]
    beta = [
        sum(exp(scores[i][t]) / along[i] for i in rows) / len(rows) for t in columns
    ]
    weights = [
        sum(exp(scores[i][t]) / down[t] * beta[t] for t in columns) for i in rows
    ]
    return beta, weights


def test_the_example_is_computed_from_the_scores_that_are_drawn():
    beta, weights = weights_by_loops(drawings._SCORES)
    drawn = texts(drawings.architecture())
    scores = [text for text in drawn if text.isdigit()]
    assert scores == [str(score) for row in drawings._SCORES for score in row]
    numbers = [text for text in drawn if text.startswith("0.")]
    assert numbers == [f"{number:.2f}" for number in beta + weights]


def test_the_weights_of_a_word_are_added_up_to_the_second_decimal():
    _, weights = weights_by_loops(drawings._SCORES)
    first, second, total = 0.30, 0.25, 0.55
    assert (weights[0], weights[3]) == pytest.approx((first, second), abs=0.005)
    assert weights[0] + weights[3] == pytest.approx(total, abs=0.005)
    assert "0.30 + 0.25 = 0.55" in texts(drawings.pointer_sum())
    assert max(weights) == weights[2] < weights[0] + weights[3]
