import pytest

from attention_course.notebook import show_source
from companion.attention import Attention, masked_softmax


def test_show_source_gives_the_exact_source_which_compiles():
    shown = show_source(masked_softmax, Attention.forward)
    assert repr(shown).startswith("def masked_softmax(")
    assert "\n\n\ndef forward(" in repr(shown)
    assert shown._repr_markdown_() == f"```python\n{shown!r}\n```"
    compile(repr(shown), "shown", "exec")


def test_code_that_contains_a_fence_gets_a_longer_one():
    def example():
        """```"""

    assert show_source(example)._repr_markdown_().startswith("````python\n")


@pytest.mark.parametrize("thing", [3, len])
def test_an_object_without_python_source_is_an_error(thing):
    with pytest.raises(TypeError, match=f"not {type(thing).__name__}"):
        show_source(thing)


def test_code_that_is_in_no_file_is_an_error():
    made = {}
    exec("def example(): pass", made)
    with pytest.raises(OSError, match="source code"):
        show_source(made["example"])


def test_show_source_without_arguments_is_an_error():
    with pytest.raises(TypeError, match="at least one"):
        show_source()
