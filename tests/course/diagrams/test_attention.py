"""Numbers on the drawings of chapter 3, and the chapters on its map."""

import re

import pytest

from attention_course.diagrams.attention import hard_and_soft_lookup, kinds, lookup
from tests.conftest import ROOT
from tests.course.diagrams.test_drawing import texts


@pytest.mark.parametrize("make", [lookup, hard_and_soft_lookup])
def test_the_weights_that_a_reader_sees_sum_to_one(make):
    numbers = [text for text in texts(make()) if re.fullmatch(r"0\.\d\d", text)]
    assert len(numbers) >= 3
    assert sum(map(float, numbers)) == pytest.approx(1)


def test_every_chapter_is_on_the_map():
    chapters = {int(path.name[:2]) for path in (ROOT / "book").glob("[01][0-9]_*.md")}
    assert {int(text) for text in texts(kinds()) if text.isdigit()} == chapters
