from attention_course.data.manual import passages, texts


def test_the_manual_is_prose_on_single_lines():
    found = texts()
    assert len(found) > 50
    assert all(text and "\n" not in text for text in found)


def test_passages_have_one_length_and_remainders_are_dropped():
    assert passages(["abcdefg", "hi", "jkl"], 3) == ["abc", "def", "jkl"]
