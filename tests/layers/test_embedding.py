import pytest
import torch

from companion.layers import Embedding, ScaledEmbedding

PAD = 3


def test_vectors_are_small_and_padding_is_zero():
    torch.manual_seed(0)
    weight = Embedding(1009, 31, pad=PAD).weight.detach()
    assert torch.equal(weight[PAD], torch.zeros(31))
    others = weight[torch.arange(1009) != PAD]
    assert others.std().item() == pytest.approx(0.1, rel=0.02)
    assert others.mean().item() == pytest.approx(0, abs=0.002)


def test_each_token_gets_its_own_row():
    embedding = Embedding(7, 3)
    tokens = torch.tensor([[3, 0, 6], [1, 1, 2]])
    vectors = embedding(tokens)
    assert vectors.shape == (2, 3, 3)
    for row, sentence in enumerate(tokens.tolist()):
        for position, token in enumerate(sentence):
            assert torch.equal(vectors[row, position], embedding.weight[token])


def test_padding_learns_nothing():
    embedding = Embedding(7, 3, pad=PAD)
    embedding(torch.tensor([PAD, PAD, 5])).sum().backward()
    assert torch.equal(embedding.weight.grad[PAD], torch.zeros(3))
    assert torch.equal(embedding.weight.grad[5], torch.ones(3))


def test_a_scaled_embedding_is_multiplied_by_the_root_of_its_size():
    torch.manual_seed(0)
    embedding = ScaledEmbedding(1009, 16, pad=PAD)
    others = embedding.weight[torch.arange(1009) != PAD]
    assert others.std().item() == pytest.approx(1 / 4, rel=0.02)
    assert torch.equal(embedding.weight[PAD], torch.zeros(16))
    tokens = torch.tensor([[3, 0, 6]])
    assert torch.equal(embedding(tokens), 4 * embedding.weight[tokens])


@pytest.mark.parametrize("kind", [Embedding, ScaledEmbedding])
def test_without_padding_all_vectors_are_alike(kind):
    embedding, tokens = kind(5, 3), torch.arange(5)
    assert embedding.weight.any(1).all()
    embedding(tokens).sum().backward()
    gradient = embedding.weight.grad
    assert gradient[0].all()
    assert torch.equal(gradient, gradient[:1].expand(5, 3))


@pytest.mark.parametrize("kind", [Embedding, ScaledEmbedding])
def test_it_can_be_initialised_again(kind):
    torch.manual_seed(0)
    embedding = kind(9, 4, pad=PAD)
    before = embedding.weight.clone()
    with torch.no_grad():
        embedding.weight.fill_(torch.nan)
    torch.manual_seed(0)
    embedding.reset_parameters()
    assert torch.equal(embedding.weight, before)


def test_it_needs_no_private_function_of_pytorchs(monkeypatch):
    monkeypatch.delattr(torch.nn.Embedding, "_fill_padding_idx_with_zero")
    assert (Embedding(7, 3, pad=PAD).weight[PAD] == 0).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bool])
@pytest.mark.usefixtures("unchecked")
def test_tokens_that_are_no_integers_are_an_error(dtype):
    with pytest.raises(TypeError, match=f"tokens must hold integers, not {dtype}"):
        Embedding(7, 3)(torch.ones(2, 3, dtype=dtype))


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("size", "shown"), [("3", "'3'"), (None, "None"), (2.5, "2.5")]
)
def test_a_size_that_is_no_integer_is_an_error(size, shown):
    with pytest.raises(
        TypeError, match=f"embedding_size must be an integer, not {shown}"
    ):
        Embedding(7, size)


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


@pytest.mark.compiled
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


@pytest.mark.parametrize("pad", [-1, 7])
def test_padding_outside_the_vocabulary_is_an_error(pad):
    with pytest.raises(ValueError, match=f"pad is {pad}, but .* 0 to 6"):
        Embedding(7, 3, pad=pad)
