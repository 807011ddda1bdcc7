import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import gradcheck

from companion.attention import (
    attention_over_attention,
    pointer_sum,
    two_way_attention,
)
from tests.reference import cui_2017, scalars
from tests.tiny import close


@given(
    st.integers(1, 6),
    st.integers(1, 6),
    st.integers(0, 3),
    st.integers(0, 3),
    st.integers(0, 9),
)
def test_it_is_the_formula_whatever_the_padding(
    words, asked, padding, more_padding, seed
):
    torch.manual_seed(seed)
    scores = 3 * torch.randn(words + padding, asked + more_padding, dtype=torch.float64)
    document, question = (
        torch.arange(words + padding) < words,
        torch.arange(asked + more_padding) < asked,
    )
    weights = attention_over_attention(scores, document, question)
    close(
        weights[:words],
        cui_2017.attention_over_attention(scores[:words, :asked].tolist()),
    )
    close(weights.sum(), torch.tensor(1.0).double())
    assert not weights[words:].any()


def test_its_gradients_are_right():
    scores = torch.randn(2, 5, 3, dtype=torch.float64, requires_grad=True)
    document, question = torch.rand(2, 5) < 0.8, torch.rand(2, 3) < 0.8
    document[:, 0] = question[:, 0] = True
    assert gradcheck(lambda x: attention_over_attention(x, document, question), scores)


def test_the_weights_of_an_empty_document_are_zero():
    none = torch.zeros(5, dtype=torch.bool)
    weights = attention_over_attention(
        torch.randn(5, 3), none, torch.ones(3, dtype=torch.bool)
    )
    assert torch.equal(weights, torch.zeros(5))


def test_the_probability_of_a_word_is_the_sum_over_its_positions():
    weights = torch.tensor([[0.1, 0.2, 0.3, 0.4, 0.0]])
    found = pointer_sum(
        weights, torch.tensor([[5, 6, 5, 7, 0]]), torch.tensor([[5, 7, 9]])
    )
    torch.testing.assert_close(found, torch.tensor([[0.4, 0.4, 0.0]]))


def test_both_attentions_are_the_formula():
    torch.manual_seed(0)
    scores = 2 * torch.randn(2, 6, 4, dtype=torch.float64)
    words, asked = [6, 4], [2, 4]
    document = torch.arange(6) < torch.tensor(words)[:, None]
    question = torch.arange(4) < torch.tensor(asked)[:, None]
    alpha, beta = two_way_attention(scores, document, question)
    for row, (n, m) in enumerate(zip(words, asked, strict=True)):
        matrix = scores[row, :n, :m].tolist()
        columns = [scalars.softmax(x) for x in scalars.transposed(matrix)]
        close(alpha[row, :m, :n], columns)
        average = [
            sum(column) / n
            for column in scalars.transposed([scalars.softmax(x) for x in matrix])
        ]
        close(beta[row, :m], average)
        assert not alpha[row, :, n:].any()
        assert not beta[row, m:].any()
    close(
        (beta[:, None] @ alpha)[:, 0],
        attention_over_attention(scores, document, question),
    )


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("weights", "document", "words"),
    [((2, 5), (2, 4), (2, 3)), ((2, 5), (2, 5), (3, 1)), ((5,), (2, 5), (2, 3))],
)
def test_a_pointer_sum_of_shapes_that_do_not_fit_is_an_error(weights, document, words):
    with pytest.raises(ValueError, match="do not fit documents of") as error:
        pointer_sum(
            torch.rand(weights),
            torch.zeros(document, dtype=torch.int64),
            torch.zeros(words, dtype=torch.int64),
        )
    assert all(str(shape) in str(error.value) for shape in (weights, document, words))
