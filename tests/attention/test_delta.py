import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.autograd import gradcheck
from torch.nn.functional import logsigmoid, normalize

from companion.attention import (
    Cosine,
    DeltaAttention,
    GatedDeltaAttention,
    HardAttention,
    MultiHeadAttention,
    PerHead,
    Rotary,
    chunked_decay_attention,
    chunked_delta_rule,
    recurrent_delta_rule,
)
from tests.reference import schlag_2021, yang_2024, yang_2025
from tests.reference.scalars import sigmoid
from tests.tiny import close, doubles

N, SIZE, VALUES = 11, 6, 5


def inputs(*batch, n=N):
    """Query, key of norm 1, value, β, and the logarithm of decays."""
    query, key = (doubles(*batch, n, SIZE, seed=seed) for seed in (0, 1))
    value = doubles(*batch, n, VALUES, seed=2)
    beta, gate = doubles(*batch, n, seed=3).sigmoid(), doubles(*batch, n, seed=4)
    return query, normalize(key, dim=-1), value, beta, logsigmoid(gate)


def forms(*given):
    yield recurrent_delta_rule(*given)[0]
    for chunk in (1, 2, 3, 4, N, 64):
        yield chunked_delta_rule(*given, chunk=chunk)[0]


def close_all(found, expected):
    for a, b in zip(found, expected, strict=True):
        close(a, b)


# The two forms


@pytest.mark.parametrize("gated", [False, True])
def test_all_forms_are_equal_and_have_equal_gradients(gated):
    leaves = [x.requires_grad_() for x in inputs(2, 3)[: 5 if gated else 4]]
    wanted = doubles(2, 3, N, VALUES, seed=5)
    first, *others = forms(*leaves)
    expected = torch.autograd.grad(first, leaves, wanted)
    for context in others:
        close(context, first)
        close_all(torch.autograd.grad(context, leaves, wanted), expected)


def test_they_are_the_recurrences_of_the_papers():
    given = inputs()
    *ungated, log_decay = (x.tolist() for x in given)
    expected = schlag_2021.recurrence(*ungated)
    for context in forms(*given[:4]):
        close(context, expected)
    expected = yang_2025.recurrence(*ungated, given[4].exp().tolist())
    for context in forms(*given):
        close(context, expected)
    assert log_decay


@given(st.integers(0, 9), st.integers(0, 9), st.integers(1, 5), st.booleans())
def test_a_matrix_continues_a_sequence(before, after, chunk, gated):
    given = inputs(2, n=before + after)[: 5 if gated else 4]
    whole, S = recurrent_delta_rule(*given)
    first, rest = [x[:, :before] for x in given], [x[:, before:] for x in given]
    start, state = chunked_delta_rule(*first, chunk=chunk)
    end, state = chunked_delta_rule(*rest, chunk=chunk, S=state)
    close(torch.cat([start, end], -2), whole)
    close(state, S)


@given(st.integers(1, 40), st.integers(1, 9), st.floats(0.0, 1.0))
def test_keys_that_repeat_leave_the_forms_equal(n, chunk, beta):
    """The same key at every position makes the triangular system as large as it can be."""
    query, _, value, *_ = inputs(1, n=n)
    key = normalize(torch.ones(1, n, SIZE).double(), dim=-1)
    given = query, key, value, torch.full((1, n), beta).double()
    close(chunked_delta_rule(*given, chunk=chunk)[0], recurrent_delta_rule(*given)[0])


def test_without_erasing_it_would_be_a_sum():
    """Keys at right angles have nothing to erase."""
    query, _, value, beta, log_decay = inputs(n=SIZE)
    key = torch.eye(SIZE).double()
    expected = chunked_decay_attention(query, key, beta[:, None] * value, log_decay)[0]
    for context in forms(query, key, value, beta, log_decay):
        close(context, expected)


# What it is for


def test_a_value_replaces_what_its_key_held_and_nothing_else():
    key = torch.eye(3).double()[[0, 1, 2, 1]]
    value = doubles(4, VALUES)
    for form in (recurrent_delta_rule, chunked_delta_rule):
        _, S = form(key, key, value, torch.ones(4).double())
        close(S, value[[0, 3, 2]])


def test_a_step_is_one_of_gradient_descent():
    query, key, value, beta, _ = inputs(n=1)
    S = doubles(SIZE, VALUES, seed=9).requires_grad_()
    error = (S.mT @ key[0] - value[0]).square().sum() / 2
    (gradient,) = torch.autograd.grad(error, S)
    _, after = recurrent_delta_rule(query, key, value, beta, S=S)
    close(after, S - beta * gradient)


@given(st.lists(st.floats(-9.0, 9.0), min_size=SIZE, max_size=SIZE), st.floats(-30, 30))
def test_the_eigenvalues_of_a_step_are_between_zero_and_one(numbers, logit):
    """So that no number of steps makes the matrix explode."""
    key = torch.tensor([[*numbers, logit]]).double()
    _, k, beta = DeltaAttention().prepare(key[:, :SIZE], key)
    step = torch.eye(SIZE).double() - beta * k.mT @ k
    found = torch.linalg.eigvalsh(step)
    assert ((found > -1e-12) & (found < 1 + 1e-12)).all()
    wanted = 1 - (beta if key[0, :SIZE].any() else 0 * beta)
    torch.testing.assert_close(found.min(), wanted.squeeze())


def test_longer_keys_would_diverge_and_ours_are_normalised():
    _, key, value, *_ = inputs(n=64)
    long, ones = 2 * normalize(torch.ones_like(key), dim=-1), torch.ones(64).double()
    _, S = recurrent_delta_rule(long, long, value, ones)
    assert S.abs().max() > 1e9
    gates = torch.full((64, 1), 30.0).double()
    context = DeltaAttention()(long, torch.cat([long, gates], -1), value)
    close(context, value)


# The mechanisms

KINDS = {
    "delta": (lambda: DeltaAttention(chunk=3), 1),
    "gated delta": (lambda: GatedDeltaAttention(chunk=3), 2),
}


@pytest.fixture(params=KINDS)
def kind(request):
    """An attention, and a query, key and value of three heads."""
    build, gates = KINDS[request.param]
    query, value = doubles(2, 3, N, SIZE), doubles(2, 3, N, VALUES, seed=2)
    return build(), query, doubles(2, 3, N, SIZE + gates, seed=1), value


def test_they_are_the_papers_of_unit_vectors_and_of_gates_in_the_key():
    query, value = doubles(N, SIZE), doubles(N, VALUES, seed=2)
    key = doubles(N, SIZE + 2, seed=1)
    queries, keys = (
        [schlag_2021.unit(x[:SIZE]) for x in vectors.tolist()]
        for vectors in (query, key)
    )
    betas = sigmoid(key[:, SIZE].tolist())
    expected = schlag_2021.recurrence(queries, keys, value.tolist(), betas)
    close(DeltaAttention(chunk=4)(query, key[:, :-1], value), expected)
    close(DeltaAttention().attend(query, key[:, :-1], value)[0], expected)
    for temperature in (16.0, 1.0):
        decays = [yang_2024.gate(x, temperature) for x in key[:, -1].tolist()]
        expected = yang_2025.recurrence(queries, keys, value.tolist(), betas, decays)
        attention = GatedDeltaAttention(temperature, chunk=4)
        close(attention(query, key, value), expected)
        close(attention.attend(query, key, value)[0], expected)


def test_the_score_is_the_cosine_without_the_gates(kind):
    attention, query, key, _ = kind
    expected = Cosine().score(query, key[..., :SIZE])
    close(attention.score(query, key), expected)


@pytest.mark.parametrize("queries", [N, 4, 1])
def test_forward_equals_the_weights_with_padding_and_last_queries(kind, queries):
    attention, query, key, value = kind
    query = query[..., -queries:, :]
    padding = torch.arange(N) < torch.tensor([[N], [N - 4]])
    for mask in (None, padding[:, None, None], torch.rand(2, 1, queries, N) < 0.7):
        context, weights = attention.attend(query, key, value, mask)
        close(attention(query, key, value, mask), context)
        close(weights @ value, context)


def test_weights_are_what_the_recurrence_gives_for_the_identity_matrix(kind):
    attention, query, key, _ = kind
    one_hot = torch.eye(N).double().expand(2, 3, N, N)
    close(attention.weights(query, key), attention(query, key, one_hot))


def test_a_masked_position_is_as_if_it_were_not_there(kind):
    """It neither writes nor erases, and nothing is forgotten there."""
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


def test_every_query_may_have_a_mask_of_its_own(kind):
    attention, query, key, value = kind
    mask = torch.rand(2, 1, N, N) < 0.6
    together = attention(query, key, value, mask)
    for i in range(N):
        one = query[..., i : i + 1, :]
        found = attention(one, key, value, mask[:, :, i : i + 1], torch.tensor([i]))
        close(together[..., i : i + 1, :], found)


def test_no_query_and_no_batch_have_no_context(kind):
    attention, query, key, value = kind
    assert attention(query[..., :0, :], key, value).shape == (2, 3, 0, VALUES)
    assert attention(query[:0], key[:0], value[:0]).shape == (0, 3, N, VALUES)


def test_a_masked_key_may_be_infinite(kind):
    attention, query, key, value = kind
    other = key.clone()
    other[..., 4, :SIZE] = torch.inf
    visible = torch.arange(N) != 4
    close(
        attention(query, other, value, visible), attention(query, key, value, visible)
    )


def test_no_position_depends_on_later_ones(kind):
    attention, query, key, value = kind
    leaves = [x.requires_grad_() for x in (query, key, value)]
    gradients = torch.autograd.grad(attention(*leaves)[..., 4, :].sum(), leaves)
    for gradient in gradients:
        assert (gradient[..., 5:, :] == 0).all()
        assert (gradient[..., 4, :] != 0).any(-1).all()
    for gradient in gradients[1:]:
        assert (gradient[..., :5, :] != 0).any(-1).all()


@pytest.mark.parametrize("groups", [4, 2, 1])
@pytest.mark.parametrize("steps", [[1] * N, [4, 1, 0, 6], [N]])
@pytest.mark.parametrize("name", KINDS)
def test_decoding_has_a_state_of_constant_size(name, groups, steps):
    heads = MultiHeadAttention(24, 4, KINDS[name][0](), key_value_heads=groups).double()
    x = doubles(2, N, 24)
    state, found = heads.start(x), []
    for part in x.split(steps, 1):
        output, state = heads.extend(part, state)
        found.append(output)
        assert state.S.shape == (2, groups, 6, 6)
    close(torch.cat(found, 1), heads(x, *heads.project(x)))
    assert state.seen.tolist() == [N, N]


@pytest.mark.parametrize("name", KINDS)
def test_gradients_are_right(name):
    build, gates = KINDS[name]
    leaves = [
        doubles(1, 5, size, seed=seed).requires_grad_()
        for seed, size in enumerate((3, 3 + gates, 2))
    ]
    mask = torch.rand(1, 5, 5) < 0.7
    assert gradcheck(build(), leaves, fast_mode=True)
    assert gradcheck(lambda *x: build()(*x, mask), leaves, fast_mode=True)


@pytest.mark.parametrize("gated", [False, True])
def test_gradients_of_the_chunked_form_are_right(gated):
    leaves = [x.requires_grad_() for x in inputs(1, n=7)[: 5 if gated else 4]]
    rule = lambda *x: chunked_delta_rule(*x, chunk=3)  # noqa: E731
    assert gradcheck(rule, leaves, fast_mode=True)


def test_a_key_of_zeros_writes_nothing_and_has_a_finite_gradient(kind):
    attention, query, key, value = kind
    key[..., 3, :SIZE] = 0
    key.requires_grad_()
    context = attention(query, key, value)
    context.square().sum().backward()
    assert key.grad.isfinite().all()
    there = torch.arange(N) != 3
    if attention.gates == 1:  # else something is forgotten
        alone = [x[..., there, :] for x in (query, key.detach(), value)]
        close(context[..., there, :], attention(*alone))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_long_sequence_of_16_bits_is_as_exact_as_its_inputs(kind, dtype):
    attention = kind[0]
    query, key = (
        doubles(1, 500, size, seed=size).to(dtype)
        for size in (SIZE, SIZE + attention.gates)
    )
    value = doubles(1, 500, VALUES).to(dtype)
    found = attention(query, key, value)
    assert found.dtype == dtype
    exact = attention(query.double(), key.double(), value.double())
    torch.testing.assert_close(found.double(), exact, atol=0.02, rtol=0.02)


def test_gates_are_as_many_features_of_a_key(kind):
    attention, query, key, value = kind
    gates = attention.gates
    heads = MultiHeadAttention(8, 2, attention, key_value_heads=1)
    assert heads.W_K.weight.shape == (4 + gates, 8)
    with pytest.raises(
        ValueError,
        match=f"last features are {gates} gates, so queries of {SIZE} features need keys "
        f"of {SIZE + gates}, and keys of {SIZE} queries of {SIZE - gates}",
    ):
        attention(query, key[..., :SIZE], value)


@pytest.mark.parametrize(
    ("owner", "build"),
    [
        ("Rotary", Rotary),
        ("PerHead", lambda attention: PerHead(attention)),
        (
            "MultiHeadAttention",
            lambda attention: MultiHeadAttention.from_torch(
                nn.MultiheadAttention(8, 2, batch_first=True), attention
            ),
        ),
    ],
)
def test_what_passes_on_keys_without_gates_refuses_them(owner, build):
    with pytest.raises(
        TypeError,
        match=f"^{owner} cannot use DeltaAttention, which has keys with gates",
    ):
        build(DeltaAttention())


def test_hard_attention_refuses_weights_that_are_no_distribution():
    with pytest.raises(TypeError, match="HardAttention cannot use GatedDeltaAttention"):
        HardAttention(GatedDeltaAttention())


def test_weights_cannot_be_dropped(kind):
    attention = kind[0]
    attention.set_dropout(0.0)
    with pytest.raises(
        TypeError, match=f"{type(attention).__name__} computes no weights"
    ):
        attention.set_dropout(0.1)


@pytest.mark.parametrize("temperature", [0.0, -1.0, float("inf")])
def test_a_temperature_that_is_not_above_zero_is_an_error(temperature):
    with pytest.raises(ValueError, match="temperature must be finite and above 0"):
        GatedDeltaAttention(temperature)


def test_a_chunk_below_one_is_an_error():
    for build in (DeltaAttention, GatedDeltaAttention):
        with pytest.raises(ValueError, match="chunk must be at least 1, not 0"):
            build(chunk=0)
    with pytest.raises(ValueError, match="chunk must be at least 1, not 0"):
        chunked_delta_rule(*inputs(), chunk=0)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("shorter", [0, 1, 2])
def test_unequal_numbers_of_queries_keys_and_values_are_an_error(shorter):
    *given, beta, _ = inputs(1)
    given[shorter] = given[shorter][:, :-1]
    for compute in (recurrent_delta_rule, chunked_delta_rule):
        with pytest.raises(ValueError, match="each position needs a query, a key and"):
            compute(*given, beta)


def test_more_queries_than_keys_are_an_error(kind):
    attention, query, key, value = kind
    with pytest.raises(
        ValueError, match="11 queries cannot be the last positions of 5"
    ):
        attention(query, key[..., :5, :], value[..., :5, :])
