import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import gradcheck

from companion.attention import (
    CausalLinearAttention,
    DecayAttention,
    GatedDecayAttention,
    LinearBias,
    MultiHeadAttention,
    chunked_decay_attention,
    elu_features,
    parallel_decay_attention,
    recurrent_decay_attention,
    retention_decays,
)
from tests.reference import sun_2023, yang_2024
from tests.tiny import close, doubles

N, SIZE, VALUES = 11, 6, 5


def inputs(*batch, n=N):
    """Query, key, value and the logarithm of decays."""
    query, key = (doubles(*batch, n, SIZE, seed=seed) for seed in (0, 1))
    value = doubles(*batch, n, VALUES, seed=2)
    return query, key, value, torch.nn.functional.logsigmoid(doubles(*batch, n, seed=3))


def forms(query, key, value, log_decay):
    yield parallel_decay_attention(query, key, value, log_decay)
    yield recurrent_decay_attention(query, key, value, log_decay)[0]
    for chunk in (1, 2, 3, 4, N, 64):
        yield chunked_decay_attention(query, key, value, log_decay, chunk)[0]


def close_all(found, expected):
    for a, b in zip(found, expected, strict=True):
        close(a, b)


# The three forms


def test_all_forms_are_equal_and_have_equal_gradients():
    leaves = [x.requires_grad_() for x in inputs(2, 3)]
    wanted = doubles(2, 3, N, VALUES, seed=4)
    first, *others = forms(*leaves)
    expected = torch.autograd.grad(first, leaves, wanted)
    for context in others:
        close(context, first)
        close_all(torch.autograd.grad(context, leaves, wanted), expected)


def test_they_are_the_recurrences_of_the_papers():
    query, key, value, log_decay = inputs()
    lists = [x.tolist() for x in (query, key, value)]
    expected = yang_2024.gated_recurrence(*lists, log_decay.exp().tolist())
    for context in forms(query, key, value, log_decay):
        close(context, expected)
    fixed = torch.full((N,), 0.9, dtype=torch.float64).log()
    expected = sun_2023.recurrence(*lists, 0.9)
    for context in forms(query, key, value, fixed):
        close(context, expected)


@given(st.integers(0, 9), st.integers(0, 9), st.integers(1, 5), st.floats(-60.0, 0.0))
def test_a_matrix_continues_a_sequence(before, after, chunk, log_decay):
    query, key, value, _ = inputs(2, n=before + after)
    fading = torch.full((2, before + after), log_decay, dtype=torch.float64)
    whole, S = recurrent_decay_attention(query, key, value, fading)
    first = [x[:, :before] for x in (query, key, value, fading)]
    rest = [x[:, before:] for x in (query, key, value, fading)]
    start, state = chunked_decay_attention(*first, chunk)
    end, state = chunked_decay_attention(*rest, chunk, state)
    close(torch.cat([start, end], -2), whole)
    close(state, S)


def test_in_float32_neither_fast_nor_slow_forgetting_loses_the_sum():
    query, key, value, _ = (x.float() for x in inputs(2, n=300))
    for decay in (1e-30, 0.01, 0.5, 0.999, 1.0):
        log_decay = torch.full((2, 300), decay).log().requires_grad_()
        exact = recurrent_decay_attention(
            *(x.double() for x in (query, key, value, log_decay))
        )[0]
        context = chunked_decay_attention(query, key, value, log_decay)[0]
        torch.testing.assert_close(context.double(), exact, atol=1e-4, rtol=1e-4)
        (gradient,) = torch.autograd.grad(context.square().sum(), log_decay)
        assert gradient.isfinite().all()


def test_what_comes_after_all_was_forgotten_is_as_if_it_came_first():
    """Also in float32, where the sum of the logarithms is large, and with a decay of 0."""
    query, key, value, log_decay = (x.float() for x in inputs(2))
    fresh = [x[:, 4:] for x in (query, key, value, log_decay)]
    expected = parallel_decay_attention(*fresh)
    for lost in (-1e4, -torch.inf):
        log_decay[:, 4] = lost
        log_decay.requires_grad_()
        for context in forms(query, key, value, log_decay):
            torch.testing.assert_close(context[:, 4:], expected, atol=1e-5, rtol=1e-5)
            (gradient,) = torch.autograd.grad(context.sum(), log_decay)
            assert gradient.isfinite().all()
        log_decay = log_decay.detach()
        gate = torch.full((2, N), 30.0)
        gate[:, 4] = lost  # σ of it is 0
        attention = GatedDecayAttention(1.0)
        found = attention.attend(query, torch.cat([key, gate[..., None]], -1), value)[0]
        short = CausalLinearAttention()(query[:, 4:], key[:, 4:], value[:, 4:])
        torch.testing.assert_close(found[:, 4:], short, atol=1e-4, rtol=1e-4)


# The mechanisms

KINDS = {
    "fixed": (lambda: DecayAttention(0.8, chunk=3), 0),
    "per head": (lambda: DecayAttention([0.8, 0.9, 0.7], chunk=3), 0),
    "gated": (lambda: GatedDecayAttention(chunk=3), 1),
}


@pytest.fixture(params=KINDS)
def kind(request):
    """An attention, and a query, key and value of three heads."""
    build, gates = KINDS[request.param]
    query, value = doubles(2, 3, N, SIZE), doubles(2, 3, N, VALUES, seed=2)
    return build(), query, doubles(2, 3, N, SIZE + gates, seed=1), value


def test_a_fixed_decay_is_the_formula():
    query, key, value = (x[0] for x in inputs(1)[:3])
    expected = yang_2024.averages(
        query.tolist(), key.tolist(), value.tolist(), [0.8] * N
    )
    close(DecayAttention(0.8, chunk=3)(query, key, value), expected)


def test_gates_are_the_last_feature_of_a_key():
    query, key, value, gate = (x[0] for x in inputs(1))
    with_gate = torch.cat([key, gate[:, None]], -1)
    for temperature in (16.0, 1.0):
        decays = [yang_2024.gate(x, temperature) for x in gate.tolist()]
        expected = yang_2024.averages(
            query.tolist(), key.tolist(), value.tolist(), decays
        )
        attention = GatedDecayAttention(temperature, chunk=4)
        close(attention(query, with_gate, value), expected)
        close(attention.attend(query, with_gate, value)[0], expected)


def test_without_forgetting_it_is_linear_attention():
    query, key, value = inputs(2)[:3]
    close(
        DecayAttention(1.0)(query, key, value),
        CausalLinearAttention()(query, key, value),
    )


def test_in_the_score_a_decay_is_a_linear_bias():
    query, key = doubles(2, 4, SIZE), doubles(2, N, SIZE, seed=1)
    linear = CausalLinearAttention().score(query, key)
    slope = -math.log(0.8)
    bias = LinearBias(slope).score(torch.zeros_like(query), key).clamp(max=0)
    visible = torch.ones(4, N).tril(N - 4).bool()
    found = DecayAttention(0.8).score(query, key)
    close(found[:, visible], (linear + bias)[:, visible])


def test_every_head_has_its_decay():
    attention, query, key, value = *[KINDS["per head"][0]()], *inputs(2, 3)[:3]
    together = attention(query, key, value)
    for head, decay in enumerate((0.8, 0.9, 0.7)):
        alone = [x[:, head] for x in (query, key, value)]
        close(together[:, head], DecayAttention(decay)(*alone))


def test_the_decays_of_retention_are_the_formula():
    for heads in (1, 3, 8):
        assert retention_decays(heads) == sun_2023.decays(heads)


@pytest.mark.parametrize("queries", [N, 4, 1])
def test_forward_equals_the_weights_with_padding_and_last_queries(kind, queries):
    attention, query, key, value = kind
    query = query[..., -queries:, :]
    padding = torch.arange(N) < torch.tensor([[N], [N - 4]])
    for mask in (None, padding[:, None, None], torch.rand(2, 1, queries, N) < 0.7):
        context, weights = attention.attend(query, key, value, mask)
        close(attention(query, key, value, mask), context)
        close(weights @ value, context)
        assert (weights >= 0).all()


def test_a_masked_position_is_as_if_it_were_not_there(kind):
    """It neither adds nor forgets."""
    attention, query, key, value = kind
    there = torch.ones(N).bool()
    there[[0, 4, 5, 9]] = False
    alone = [x[..., there, :] for x in (query, key, value)]
    found = attention(query, key, value, there)
    close(found[..., there, :], attention(*alone))
    per_query = there.expand(N, N).clone()
    per_query[:1] = True  # no longer the same for all queries
    found = attention(query, key, value, per_query[None, None])
    close(found[..., there, :], attention(*alone))


def test_no_query_and_no_batch_have_no_context(kind):
    attention, query, key, value = kind
    assert attention(query[..., :0, :], key, value).shape == (2, 3, 0, VALUES)
    assert attention(query[:0], key[:0], value[:0]).shape == (0, 3, N, VALUES)


def test_a_masked_key_may_be_infinite(kind):
    attention, query, key, value = kind
    other = key.clone()
    other[..., 4, :] = torch.inf
    visible = torch.arange(N) != 4
    close(
        attention(query, other, value, visible), attention(query, key, value, visible)
    )


def test_no_position_depends_on_later_ones(kind):
    attention, query, key, value = kind
    leaves = [x.requires_grad_() for x in (query, key, value)]
    context = attention(*leaves)
    for gradient in torch.autograd.grad(context[..., 4, :].square().sum(), leaves):
        assert (gradient[..., 5:, :] == 0).all()
        assert (gradient[..., 4, :] != 0).any()
    _, key_gradient, _ = torch.autograd.grad(
        attention(*leaves)[..., 4, :].sum(), leaves
    )
    assert (key_gradient[..., :5, :] != 0).any(-1).all()


@pytest.mark.parametrize("groups", [4, 2, 1])
@pytest.mark.parametrize("steps", [[1] * N, [4, 1, 0, 6], [N]])
@pytest.mark.parametrize("name", KINDS)
def test_decoding_has_a_state_of_constant_size(name, groups, steps):
    attention = KINDS[name][0]()
    if name == "per head":
        attention = DecayAttention(retention_decays(groups), chunk=3)
    heads = MultiHeadAttention(24, 4, attention, key_value_heads=groups).double()
    x = doubles(2, N, 24)
    state, found = heads.start(x), []
    for part in x.split(steps, 1):
        output, state = heads.extend(part, state)
        found.append(output)
        assert state.S.shape == (2, groups, 6, 7)  # the last column is the denominator
    close(torch.cat(found, 1), heads(x, *heads.project(x)))
    assert state.seen.tolist() == [N, N]


@pytest.mark.parametrize("name", KINDS)
def test_gradients_are_right(name):
    build, gates = KINDS[name]
    sizes = (3, 3 + gates, 2)
    leaves = [
        doubles(1, 3, 5, size, seed=seed).requires_grad_()
        for seed, size in enumerate(sizes)
    ]
    assert gradcheck(build(), leaves, fast_mode=True)
    assert gradcheck(lambda *x: build().attend(*x)[0], leaves, fast_mode=True)


def test_gates_of_multi_head_attention_are_linear_in_the_vectors():
    attention = MultiHeadAttention(8, 2, GatedDecayAttention(), key_value_heads=1)
    assert attention.W_K.weight.shape == (4 + 1, 8)
    key, value = attention.project(torch.randn(1, 3, 8))
    assert key.shape == (1, 1, 3, 5)
    assert value.shape == (1, 1, 3, 4)


@pytest.mark.parametrize("decay", [0.0, -0.1, 1.1, float("nan"), [0.5, 2.0]])
def test_a_decay_that_is_no_fraction_is_an_error(decay):
    with pytest.raises(ValueError, match="decay must be above 0 and at most 1"):
        DecayAttention(decay)


def test_no_decay_is_an_error():
    with pytest.raises(ValueError, match="decays must be at least 1, not 0"):
        DecayAttention([])


@pytest.mark.parametrize("temperature", [0.0, -1.0, float("inf")])
def test_a_temperature_that_is_not_above_zero_is_an_error(temperature):
    with pytest.raises(ValueError, match="temperature must be finite and above 0"):
        GatedDecayAttention(temperature)


def test_decays_for_another_number_of_heads_are_an_error():
    attention = MultiHeadAttention(8, 2, DecayAttention([0.5, 0.6, 0.7]))
    x = torch.zeros(1, 4, 8)
    with pytest.raises(ValueError, match=r"key of shape \(1, 2, 4, 4\) .* 3 heads"):
        attention(x, *attention.project(x))


def test_a_chunk_below_one_is_an_error():
    with pytest.raises(ValueError, match="chunk must be at least 1, not 0"):
        DecayAttention(0.5, chunk=0)
    with pytest.raises(ValueError, match="chunk must be at least 1, not 0"):
        chunked_decay_attention(*inputs(), chunk=0)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("shorter", [0, 1, 2])
def test_unequal_numbers_of_queries_keys_and_values_are_an_error(shorter):
    *given, log_decay = inputs(1)
    given[shorter] = given[shorter][:, :-1]
    for compute in (
        parallel_decay_attention,
        recurrent_decay_attention,
        chunked_decay_attention,
    ):
        with pytest.raises(ValueError, match="each position needs a query, a key and"):
            compute(*given, log_decay)


def test_weights_of_values_are_those_of_the_chunked_form():
    """The same, by the identity matrix as values."""
    query, key, _, log_decay = inputs(2)
    features = elu_features(query), elu_features(key)
    found = chunked_decay_attention(*features, torch.eye(N).double()[None], log_decay)[
        0
    ]
    with_gate = torch.cat([key, log_decay[..., None]], -1)
    decay = torch.nn.functional.logsigmoid(log_decay)
    found = chunked_decay_attention(*features, torch.eye(N).double()[None], decay)[0]
    expected = GatedDecayAttention(1.0).weights(query, with_gate)
    close(expected, found / found.sum(-1, keepdim=True))
