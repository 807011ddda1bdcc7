import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd import gradcheck

from companion.attention import attention_over_attention, pointer_sum
from tests.reference import cui_2017
from tests.tiny import close


@settings(deadline=None, max_examples=50)
@given(
    st.integers(1, 6),
    st.integers(1, 6),
    st.integers(0, 3),
    st.integers(0, 3),
    st.integers(0, 9),
)
def test_it_is_the_papers_whatever_the_padding(
    words, asked, padding, more_padding, seed
):
    torch.manual_seed(seed)
    scores = 3 * torch.randn(words + padding, asked + more_padding, dtype=torch.float64)
    document, question = (
        torch.arange(words + padding) < words,
        torch.arange(asked + more_padding) < asked,
    )
    shares = attention_over_attention(scores, document, question)
    close(
        shares[:words],
        cui_2017.attention_over_attention(scores[:words, :asked].tolist()),
    )
    close(shares.sum(), torch.tensor(1.0).double())
    assert not shares[words:].any()


def test_its_gradients_are_right():
    scores = torch.randn(2, 5, 3, dtype=torch.float64, requires_grad=True)
    document, question = torch.rand(2, 5) < 0.8, torch.rand(2, 3) < 0.8
    document[:, 0] = question[:, 0] = True
    assert gradcheck(lambda x: attention_over_attention(x, document, question), scores)


def test_of_no_words_nothing_is_asked():
    none = torch.zeros(5, dtype=torch.bool)
    shares = attention_over_attention(
        torch.randn(5, 3), none, torch.ones(3, dtype=torch.bool)
    )
    assert torch.equal(shares, torch.zeros(5))


def test_a_word_has_the_shares_of_all_its_places():
    shares = torch.tensor([[0.1, 0.2, 0.3, 0.4, 0.0]])
    found = pointer_sum(
        shares, torch.tensor([[5, 6, 5, 7, 0]]), torch.tensor([[5, 7, 9]])
    )
    torch.testing.assert_close(found, torch.tensor([[0.4, 0.4, 0.0]]))
