"""What the drawings of chapter 2 compute: attention weights, with location and without."""

import pytest

from attention_course.data import numbers
from attention_course.diagrams import bahdanau
from tests.course.diagrams.test_drawing import elements, texts


def shades(drawing):
    return [
        float(rect.get("fill-opacity"))
        for rect in elements(drawing, "rect")
        if rect.get("fill-opacity")
    ]


def test_the_words_are_the_task_s():
    shown = texts(bahdanau.architecture())
    assert set(numbers.english_words(180)) <= set(shown)
    assert "yi−1: cent" in shown
    assert "yi: quatre" in shown
    assert numbers.french_words(180)[:2] == ("cent", "quatre")


def test_the_lines_are_as_thick_as_weights_that_sum_to_1():
    curves = [
        float(path.get("stroke-width"))
        for path in elements(bahdanau.architecture(), "path")
        if " C" in path.get("d")
    ]
    assert len(curves) == 4
    assert sum(curves) == pytest.approx(4 * 0.8 + 10, abs=0.02)
    assert curves.index(max(curves)) == 3  # "eighty"


def test_the_weights_of_one_step_sum_to_1():
    assert sum(shades(bahdanau.circle())) == pytest.approx(1, abs=0.02)


class TestLocationSensitive:
    @pytest.fixture
    def rows(self):
        values = shades(bahdanau.location_sensitive())
        positive = 6 + 5 + 6 + 6  # the first feature is zero, for nothing is before it
        assert len(values) == positive
        return values[:6], [0.0, *values[6:11]], values[11:17], values[17:]

    def test_all_weights_sum_to_1(self, rows):
        previous, _, weights, without = rows
        for row in (previous, weights, without):
            assert sum(row) == pytest.approx(1, abs=0.03)

    def test_features_are_the_weights_of_the_position_before(self, rows):
        previous, features, _, _ = rows
        assert features[1:] == previous[:-1]

    def test_only_location_tells_equal_tokens_apart(self, rows):
        _, _, weights, without = rows
        assert without[0] == without[2] == without[4] > 0.25
        assert weights[2] > 0.9
