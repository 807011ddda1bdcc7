import math

import pytest

from attention_course.data.manual import passages, texts


def test_the_manual_is_prose_on_single_lines():
    found = texts()
    assert len(found) > 50
    assert all(text and "\n" not in text for text in found)


def test_passages_have_one_length_and_remainders_are_dropped():
    assert passages(["abcdefg", "hi", "jkl"], 3) == ["abc", "def", "jkl"]


@pytest.mark.parametrize("length", [0, -1])
def test_a_length_below_one_is_an_error(length):
    with pytest.raises(ValueError, match=f"length must be at least 1, not {length}"):
        passages(["abc"], length)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("length", ["3", None, 2.5, math.nan, 1e15])
def test_a_length_that_is_no_integer_is_an_error(length):
    with pytest.raises(TypeError, match=f"length must be an integer, not {length!r}"):
        passages(["abc"], length)
