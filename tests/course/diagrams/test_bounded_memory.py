"""What the drawings of chapter 13 compute."""

from attention_course.diagrams import bounded_memory
from tests.course.diagrams.test_drawing import elements, texts


def test_the_three_memories_hold_what_the_picture_says():
    ends = {
        name: bounded_memory.states(name)[-1] for name in ("add", "forget", "replace")
    }
    assert ends["add"].tolist() == [[1, 0, 1], [0, 1, 0]]
    assert ends["forget"].tolist() == [[0.25, 0, 1], [0, 0.5, 0]]
    assert ends["replace"].tolist() == [[0, 0, 1], [0, 1, 0]]
    shown = texts(bounded_memory.overwriting())
    assert shown.count("¼") == 1
    assert shown.count("½") == 2


def test_the_state_does_not_grow():
    squares = [
        rect
        for rect in elements(bounded_memory.recurrence(), "rect")
        if rect.get("class", "").startswith("fill-paper") and rect.get("x")
    ]
    assert len(squares) == 4 * 16


def test_keys_that_are_read_are_counted_as_they_are_drawn():
    drawing = bounded_memory.selection()
    shaded = [rect for rect in elements(drawing, "rect") if rect.get("fill-opacity")]
    assert len(shaded) == 13
    assert "6 compressed keys and 13 tokens are read, of 24" in texts(drawing)
