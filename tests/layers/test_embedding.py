import pytest
import torch

from companion.data.vocabulary import PAD
from companion.layers import Embedding


def test_vectors_are_small_and_padding_is_zero():
    torch.manual_seed(0)
    weight = Embedding(1009, 31).weight.detach()
    assert torch.equal(weight[PAD], torch.zeros(31))
    assert weight[PAD + 1 :].std().item() == pytest.approx(0.1, rel=0.02)
    assert weight[PAD + 1 :].mean().item() == pytest.approx(0, abs=0.002)


def test_each_token_gets_its_own_row():
    embedding = Embedding(7, 3)
    tokens = torch.tensor([[3, 0, 6], [1, 1, 2]])
    vectors = embedding(tokens)
    assert vectors.shape == (2, 3, 3)
    for row, sentence in enumerate(tokens.tolist()):
        for place, token in enumerate(sentence):
            assert torch.equal(vectors[row, place], embedding.weight[token])


def test_padding_learns_nothing():
    embedding = Embedding(7, 3)
    embedding(torch.tensor([0, 0, 5])).sum().backward()
    assert torch.equal(embedding.weight.grad[PAD], torch.zeros(3))
    assert torch.equal(embedding.weight.grad[5], torch.ones(3))


def test_no_tokens_give_no_vectors():
    assert Embedding(7, 3)(torch.zeros(2, 0, dtype=torch.int64)).shape == (2, 0, 3)


@pytest.mark.parametrize(
    ("tokens", "smallest", "largest"), [([1, 7, 2], 1, 7), ([3, -1, 2], -1, 3)]
)
def test_a_token_outside_the_vocabulary_is_an_error_with_the_numbers(
    tokens, smallest, largest
):
    with pytest.raises(
        ValueError, match=f"from {smallest} to {largest}.* 7 entries 0 to 6"
    ):
        Embedding(7, 3)(torch.tensor(tokens))
    assert Embedding(7, 3)(torch.tensor([0, 6])).shape == (2, 3)


@pytest.mark.usefixtures("unchecked")
def test_compiled_into_one_graph():
    embedding = Embedding(7, 3)
    tokens = torch.tensor([[1, 2], [6, 0]])
    compiled = torch.compile(embedding, fullgraph=True, backend="eager")
    assert torch.equal(compiled(tokens), embedding(tokens))


def test_sizes_below_one_are_errors_by_the_callers_names():
    for sizes, name in (((0, 3), "vocabulary_size"), ((7, 0), "embedding_size")):
        with pytest.raises(ValueError, match=f"^{name} must be at least 1, not 0"):
            Embedding(*sizes)
