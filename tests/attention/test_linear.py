import pytest
import torch
from torch import nn
from torch.autograd import gradcheck

from companion.attention import (
    CausalLinearAttention,
    LinearAttention,
    MultiHeadAttention,
    chunked_linear_attention,
    elu_features,
    linear_attention,
    parallel_linear_attention,
    recurrent_linear_attention,
)
from tests.reference import katharopoulos_2020
from tests.tiny import close, doubles

N, SIZE, VALUES = 11, 6, 5


@pytest.fixture
def inputs():
    """Query, key and value; the first two are features."""
    query, key = (elu_features(doubles(2, 3, N, SIZE, seed=seed)) for seed in (0, 1))
    return query, key, doubles(2, 3, N, VALUES, seed=2)


def forms(query, key, value):
    contexts = [parallel_linear_attention(query, key, value)]
    contexts.append(recurrent_linear_attention(query, key, value)[0])
    for chunk in (1, 2, 3, 4, N, 64):
        contexts.append(chunked_linear_attention(query, key, value, chunk)[0])
    return contexts


def test_all_forms_are_equal_and_have_equal_gradients(inputs):
    leaves = [x.requires_grad_() for x in inputs]
    wanted = doubles(*inputs[2].shape, seed=3)
    first, *others = forms(*leaves)
    expected = torch.autograd.grad(first, leaves, wanted)
    for context in others:
        close(context, first)
        close_all(torch.autograd.grad(context, leaves, wanted), expected)


def close_all(found, expected):
    for a, b in zip(found, expected, strict=True):
        close(a, b)


def test_they_are_the_recurrence_of_the_paper():
    query, key, value = (doubles(N, SIZE, seed=seed) for seed in range(3))
    expected = katharopoulos_2020.recurrence(
        query.tolist(), key.tolist(), value.tolist()
    )
    for context in forms(elu_features(query), elu_features(key), value):
        close(context, expected)
    close(CausalLinearAttention(chunk=3)(query, key, value), expected)


def test_weights_are_the_formula():
    query, key = doubles(4, SIZE), doubles(N, SIZE, seed=1)
    expected = [
        katharopoulos_2020.linear_weights(q, key.tolist()) for q in query.tolist()
    ]
    close(LinearAttention().weights(query, key), expected)


def test_linear_attention_without_a_mask_is_its_definition(inputs):
    query, key, value = inputs
    products = query @ key.mT
    expected = products / products.sum(-1, keepdim=True) @ value
    close(linear_attention(query, key, value), expected)


def test_sums_continue_a_sequence(inputs):
    whole, S, z = chunked_linear_attention(*inputs, chunk=4)
    for form in (chunked_linear_attention, recurrent_linear_attention):
        first = [x[..., :5, :] for x in inputs]
        rest = [x[..., 5:, :] for x in inputs]
        start, *sums = form(*first)
        end, *sums = form(*rest, S=sums[0], z=sums[1])
        close(torch.cat([start, end], -2), whole)
        close_all(sums, (S, z))


@pytest.mark.parametrize(
    "form",
    [chunked_linear_attention, recurrent_linear_attention, parallel_linear_attention],
)
def test_no_position_has_no_context(form, inputs):
    found = form(*(x[..., :0, :] for x in inputs))
    contexts = found if isinstance(found, torch.Tensor) else found[0]
    assert contexts.shape == (*inputs[2].shape[:-2], 0, VALUES)


@pytest.mark.parametrize("chunk", [1, 3, 64])
@pytest.mark.parametrize("queries", [N, 4, 1])
def test_forward_equals_the_definition_with_padding_and_last_queries(chunk, queries):
    attention = CausalLinearAttention(chunk=chunk)
    query, key = doubles(2, queries, SIZE), doubles(2, N, SIZE, seed=1)
    value = doubles(2, N, VALUES, seed=2)
    padding = torch.arange(N) < torch.tensor([[N], [N - 4]])
    products = (elu_features(query) @ elu_features(key).mT).tril(N - queries)
    for mask in (None, padding[:, None], torch.ones(2, queries, N).bool()):
        context, weights = attention.attend(query, key, value, mask)
        close(attention(query, key, value, mask), context)
        visible = products if mask is None else products * mask
        close(weights, visible / visible.sum(-1, keepdim=True))


def test_a_position_at_which_everything_is_masked_has_a_context_of_zero():
    attention, x = CausalLinearAttention(), doubles(2, N, SIZE).requires_grad_()
    mask = torch.ones(2, 1, N).bool()
    mask[1] = False
    context = attention(x, x, x, mask)
    assert (context[1] == 0).all()
    context.square().sum().backward()
    assert x.grad.isfinite().all()
    assert (x.grad[1] == 0).all()


@pytest.mark.parametrize("kind", [LinearAttention, CausalLinearAttention])
def test_a_masked_key_may_be_infinite(kind):
    attention, x = kind(), doubles(2, N, SIZE)
    key = x.clone()
    key[:, 4] = torch.inf
    visible = torch.arange(N) != 4
    close(attention(x, key, x, visible), attention(x, x, x, visible))


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.usefixtures("unchecked")
def test_one_exported_program_serves_all_lengths():
    attention = Sequence(CausalLinearAttention(chunk=3))
    length = torch.export.Dim("length", min=2, max=40)
    program = torch.export.export(
        attention, (doubles(2, 7, SIZE),), dynamic_shapes=({1: length},)
    )
    for n in (2, 3, 4, 31):
        x = doubles(2, n, SIZE)
        close(program.module()(x), attention(x))


class Sequence(nn.Module):
    """Attention of a sequence to itself."""

    def __init__(self, attention):
        super().__init__()
        self.attention = attention

    def forward(self, x):
        return self.attention(x, x, x)


CASES = {
    "relu": (torch.relu, torch.tensor([-1.0, 1.0, 2.0])),
    "elu in float32": (elu_features, torch.tensor([-200.0, 1.0, 0.0])),
    "relu in float16": (torch.relu, torch.tensor([-1.0, 3.0, 200.0]).half()),
    "elu in float16": (elu_features, torch.tensor([-200.0, -7.0, 200.0]).half()),
}


@pytest.mark.parametrize("kind", [LinearAttention, CausalLinearAttention])
@pytest.mark.parametrize("case", CASES)
def test_where_all_products_are_zero_weights_and_context_are_zero(kind, case):
    feature_map, rows = CASES[case]
    attention, x = kind(feature_map), rows[:, None].expand(3, 4)
    key, value = x.flip(0).contiguous(), x.sign() + torch.arange(3)[:, None].to(x.dtype)
    hidden = torch.tensor([True, False, True])
    for mask in (None, hidden, torch.ones(3, 3).bool()):
        weights, context = (
            attention.weights(x, key, mask),
            attention(x, key, value, mask),
        )
        assert weights.dtype == context.dtype == x.dtype
        torch.testing.assert_close(context, weights @ value)
        assert (weights[0] == 0).all()
        assert (weights.sum(-1)[-1] - 1).abs() < 1e-3


@pytest.mark.parametrize("x", [-10.0, -17.0, -18.0, -40.0])
def test_features_of_small_numbers_are_exact(x):
    number = torch.tensor([x]).requires_grad_()
    found = elu_features(number)
    torch.testing.assert_close(
        found, torch.tensor([x], dtype=torch.float64).exp().float()
    )
    assert torch.equal(torch.autograd.grad(found, number)[0], found)


@pytest.mark.parametrize("kind", [LinearAttention, CausalLinearAttention])
def test_all_values_of_one_have_the_average_one(kind):
    """elu(x) + 1 rounds to 0 below about −17, and so would every weight."""
    query, key, ones = (
        torch.full((1, 6, 4), -18.0),
        torch.randn(1, 6, 4),
        torch.ones(1, 6, 2),
    )
    attention = kind() if kind is LinearAttention else kind(chunk=4)
    mask = torch.ones(6, 6).bool()
    contexts = [attention(query, key, ones), attention(query, key, ones, mask)]
    if attention.causal:
        state = attention.start(key, ones)
        contexts.append(attention.extend(query, key, ones, state)[0])
    for context in contexts:
        torch.testing.assert_close(context, ones)


def test_the_gradient_of_the_features_at_zero_is_one():
    zero = torch.zeros(1, requires_grad=True)
    elu_features(zero).backward()
    assert zero.grad == 1


def test_products_of_zero_give_no_gradient():
    attention, x = LinearAttention(torch.relu), -doubles(1, N, SIZE).abs()
    x.requires_grad_()
    attention.attend(x, x, x)[0].sum().backward()
    assert (x.grad == 0).all()


def test_scores_of_half_precision_are_those_of_float32():
    """In float16 itself, the smallest normal number is e⁻⁹·⁷."""
    x = torch.tensor([[-7.0, -7.0]])
    found = LinearAttention().score(x.half(), x.half())
    torch.testing.assert_close(
        found.float(), LinearAttention().score(x, x), atol=0.01, rtol=0
    )


def test_no_position_depends_on_later_ones():
    x = doubles(1, N, SIZE).requires_grad_()
    context = CausalLinearAttention(chunk=3)(x, x, x)
    (gradient,) = torch.autograd.grad(context[0, 4].sum(), x)
    assert (gradient[0, 5:] == 0).all()
    assert (gradient[0, :5] != 0).any(-1).all()


@pytest.mark.parametrize("groups", [4, 2, 1])
@pytest.mark.parametrize("steps", [[1] * N, [4, 1, 6]])
def test_decoding_has_a_state_of_constant_size(groups, steps):
    heads = MultiHeadAttention(
        24, 4, CausalLinearAttention(chunk=3), key_value_heads=groups
    ).double()
    x = doubles(2, N, 24)
    state, found = heads.start(x), []
    for part in x.split(steps, 1):
        output, state = heads.extend(part, state)
        found.append(output)
        assert state.S.shape == (2, groups, 6, 6)
        assert state.z.shape == (2, groups, 6)
    close(torch.cat(found, 1), heads(x, *heads.project(x)))
    assert state.seen.tolist() == [N, N]


def test_gradients_are_right():
    inputs = [doubles(1, 5, 3, seed=seed).requires_grad_() for seed in range(3)]
    assert gradcheck(CausalLinearAttention(chunk=2), inputs, fast_mode=True)


def test_sums_over_many_keys_are_exact_in_half_precision():
    """In bfloat16, a sum of ones stops at 256."""
    x = torch.zeros(1, 2000, 2, dtype=torch.bfloat16)
    value = (torch.arange(2000) % 2).to(torch.bfloat16).view(1, -1, 1)
    context = CausalLinearAttention()(x, x, value)
    assert context.dtype == torch.bfloat16
    assert abs(context[0, -1].item() - 0.5) < 0.01


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("chunk", [0, -1])
def test_a_chunk_below_one_is_an_error(chunk):
    x = doubles(1, 3, 2)
    for call in (
        lambda: CausalLinearAttention(chunk=chunk),
        lambda: chunked_linear_attention(x, x, x, chunk),
    ):
        with pytest.raises(ValueError, match=f"chunk must be at least 1, not {chunk}"):
            call()


def test_no_further_position_leaves_the_sums_as_they_are():
    attention, x = CausalLinearAttention(chunk=2), doubles(2, 4, N, SIZE)
    _, state = attention.extend(x, x, x, attention.start(x, x))
    none = x[:, :, :0]
    context, after = attention.extend(none, none, none, state)
    assert context.shape == (2, 4, 0, SIZE)
    close_all(after, state)


def test_more_queries_than_keys_are_an_error():
    with pytest.raises(ValueError, match="5 queries cannot be the last positions of 3"):
        CausalLinearAttention()(torch.zeros(1, 5, 4), *2 * [torch.zeros(1, 3, 4)])


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("shorter", [0, 1, 2])
@pytest.mark.parametrize(
    "compute",
    [recurrent_linear_attention, chunked_linear_attention, parallel_linear_attention],
)
def test_unequal_numbers_of_queries_keys_and_values_are_an_error(shorter, compute):
    x = torch.rand(1, 5, 4)
    inputs = [x[:, :4] if i == shorter else x for i in range(3)]
    with pytest.raises(ValueError, match=r"each position needs .* 4"):
        compute(*inputs)
    attention = CausalLinearAttention()
    with pytest.raises(ValueError, match="not of the same positions of one batch"):
        attention.extend(*inputs, attention.start(x, x))
