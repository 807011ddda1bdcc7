import pytest
import torch

from companion.attention import (
    CacheRotary,
    CausalAttention,
    CausalLinearAttention,
    Dot,
    MultiHeadAttention,
    QueryKeyNorm,
    Rotary,
    ScaledDot,
    SinkAttention,
    SlidingWindowAttention,
    adjacent_pairs,
    rotary_frequencies,
    rotate,
    yarn_frequencies,
    yarn_temperature,
)
from tests.reference import peng_2023, su_2021, xiao_2024
from tests.tiny import close, doubles

N, SIZE = 7, 6


def test_a_rotation_is_the_formula():
    x, position = doubles(N, SIZE), torch.tensor([0, 1, 2, 5, 90, 1000, 100_000])
    for base in (10000.0, 500_000.0):
        expected = [
            su_2021.rotated(row, m, base)
            for row, m in zip(x.tolist(), position.tolist(), strict=True)
        ]
        close(rotate(x, position, base), expected)


def test_scores_are_the_formula():
    query, key = doubles(3, SIZE), doubles(N, SIZE, seed=1)
    found = Rotary(ScaledDot()).score(query, key, torch.tensor([6, 0, 2]))
    expected = [
        [su_2021.rotary_score(q, k, i, j) for j, k in enumerate(key.tolist())]
        for i, q in zip((6, 0, 2), query.tolist(), strict=True)
    ]
    close(found, expected)


def test_scores_depend_on_the_distance_alone():
    query, key = doubles(1, SIZE), doubles(1, SIZE, seed=1)
    scores = {
        (i, j): rotate(query, torch.tensor([i])) @ rotate(key, torch.tensor([j])).mT
        for i, j in [(3, 1), (13, 11), (1002, 1000), (3, 2)]
    }
    close(scores[3, 1], scores[13, 11])
    close(scores[3, 1], scores[1002, 1000])
    assert not torch.allclose(scores[3, 1], scores[3, 2])


def test_norms_do_not_change_and_position_0_rotates_nothing():
    x = doubles(N, SIZE)
    rotated = rotate(x, torch.arange(N))
    close(rotated.norm(dim=-1), x.norm(dim=-1))
    assert torch.equal(rotated[0], x[0])


def test_angles_are_exact_in_half_precision():
    """In bfloat16 itself, position 1001 would be 1000."""
    x = doubles(1, 8)
    for position in (1000, 1001, 30_001):
        at = torch.tensor([position])
        found = rotate(x.bfloat16(), at)
        assert found.dtype == torch.bfloat16
        torch.testing.assert_close(found.double(), rotate(x, at), atol=0.02, rtol=0.02)


def test_values_are_not_rotated():
    attention, x = Rotary(CausalAttention()), doubles(1, 1, SIZE)
    value = doubles(1, 1, SIZE, seed=1)
    later = torch.cat([x.expand(1, 1, SIZE)] * 3, 1)
    values = value.expand(1, 3, SIZE)
    close(attention(later, later, values), values)


def test_no_position_depends_on_later_ones():
    attention, x = Rotary(CausalAttention()), doubles(1, N, SIZE).requires_grad_()
    (gradient,) = torch.autograd.grad(attention(x, x, x)[0, 3].sum(), x)
    assert (gradient[0, 4:] == 0).all()
    assert (gradient[0, :4] != 0).any(-1).all()


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("rotary", [Rotary, CacheRotary])
def test_what_is_no_state_is_an_error(rotary):
    x = doubles(2, N, SIZE)
    with pytest.raises(TypeError, match="Rotary continues a KVCache, not a NoneType"):
        rotary(CausalAttention()).extend(x, x, x, None)


def test_a_key_is_rotated_once_and_then_kept():
    attention, x = Rotary(CausalAttention()), doubles(2, 3, N, SIZE)
    _, state = attention.extend(x, x, x, attention.start(x, x))
    close(state.key, rotate(x, torch.arange(N)))


@pytest.mark.parametrize(("window", "sinks"), [(3, 1), (2, 2), (1, 1), (9, 4)])
def test_positions_within_the_cache(window, sinks):
    """StreamingLLM, one position after the other."""
    attention = CacheRotary(SinkAttention(window, sinks))
    query, key, value = (doubles(1, 12, SIZE, seed=seed) for seed in range(3))
    state, found = attention.start(key, value), []
    for i in range(12):
        new = (x[:, i : i + 1] for x in (query, key, value))
        context, state = attention.extend(*new, state)
        found.append(context[0, 0])
        assert state.key.shape[-2] <= window + sinks - 1
        assert state.seen.tolist() == [i + 1]
    expected = xiao_2024.streaming_contexts(
        *(x[0].tolist() for x in (query, key, value)), window, sinks
    )
    close(torch.stack(found), expected)


def test_while_nothing_is_forgotten_both_kinds_of_positions_are_the_same():
    x = doubles(1, N, SIZE)
    found = []
    for kind in (Rotary, CacheRotary):
        attention = kind(SinkAttention(window=8, sinks=2))
        found.append(attention.extend(x, x, x, attention.start(x, x))[0])
    close(*found)


@pytest.mark.parametrize(
    "inner", [SinkAttention(4, 1), SlidingWindowAttention(3), CausalAttention()]
)
@pytest.mark.parametrize("lengths", [[20], [3, 17], [4, 2, 14], [9, 1, 0, 10]])
@pytest.mark.parametrize("grad", [False, True])
def test_a_long_prompt_is_as_its_positions_one_by_one(inner, lengths, grad):
    attention = CacheRotary(inner)
    inputs = [doubles(2, 3, 20, SIZE, seed=seed) for seed in range(3)]
    found = []
    with torch.set_grad_enabled(grad):
        for parts in (lengths, 20 * [1]):
            state, contexts = attention.start(*inputs[1:]), []
            for part in zip(*(x.split(parts, -2) for x in inputs), strict=True):
                context, state = attention.extend(*part, state)
                contexts.append(context)
            found.append((torch.cat(contexts, -2), state.key, state.value))
    for one, other in zip(*found, strict=True):
        close(one, other)


def test_positions_in_a_cache_need_a_cache_of_keys():
    for inner in (CausalLinearAttention(), Rotary(CausalAttention())):
        with pytest.raises(
            TypeError,
            match=f"^CacheRotary cannot use {type(inner).__name__}, which does not decode "
            "with a cache of keys: use SinkAttention",
        ):
            CacheRotary(inner)


@pytest.mark.parametrize("kind", [Rotary, CacheRotary])
def test_the_norm_comes_before_the_rotation(kind):
    with pytest.raises(
        TypeError, match=r"Norm first: QueryKeyNorm\(size, Rotary\(\.\.\."
    ):
        kind(QueryKeyNorm(SIZE, CausalAttention()))


def test_after_the_norm_scores_depend_on_the_distance_alone():
    attention = QueryKeyNorm(SIZE, Rotary(Dot())).double()
    with torch.no_grad():
        for norm in (attention.query_norm, attention.key_norm):
            norm.weight.copy_(torch.arange(1, SIZE + 1))
    x = doubles(1, SIZE).expand(N, SIZE)
    scores = attention.score(x, attention.project(x)[0])
    close(scores[1:, 1:], scores[:-1, :-1])


def test_adjacent_pairs_convert_a_rotation_of_halves():
    """Scores with rotations of t and t + d/2, as in code for Llama, and ours with converted matrices."""
    heads, size, x = 3, 8, doubles(1, N, 24)
    attention = MultiHeadAttention(24, heads, Rotary(ScaledDot())).double()
    W_Q, W_K = (
        linear.weight.detach().clone() for linear in (attention.W_Q, attention.W_K)
    )
    with torch.no_grad():
        attention.W_Q.weight.copy_(adjacent_pairs(W_Q, heads))
        attention.W_K.weight.copy_(adjacent_pairs(W_K, heads))
        attention.W_Q.bias.zero_()

    def halves(projected):
        y = projected.unflatten(-1, (heads, size)).transpose(1, 2)
        angle = torch.arange(N)[:, None] * 10000.0 ** (-torch.arange(0, size, 2) / size)
        cos, sin = angle.double().cos(), angle.double().sin()
        a, b = y.chunk(2, -1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)

    scores = halves(x @ W_Q.T) @ halves(x @ W_K.T).mT / size**0.5
    key, _ = attention.project(x)
    torch.testing.assert_close(
        attention.weights(x, key), scores.softmax(-1), atol=1e-6, rtol=1e-6
    )


@pytest.mark.parametrize("call", ["score", "weights"])
def test_an_odd_number_of_features_is_an_error(call):
    x = torch.randn(1, 3, 5)
    with pytest.raises(ValueError, match=r"features must be even.* 5"):
        getattr(Rotary(ScaledDot()), call)(x, x)
    with pytest.raises(ValueError, match=r"features must be even.* 5"):
        rotate(x, torch.arange(3))


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("base", [0, -1.0, float("inf"), float("nan")])
def test_a_base_that_is_no_positive_number_is_an_error(base):
    with pytest.raises(ValueError, match="base must be finite and above 0"):
        Rotary(ScaledDot(), base)


def test_rows_that_are_no_heads_of_even_size_are_an_error():
    with pytest.raises(ValueError, match="12 rows are not 4 heads of an even size"):
        adjacent_pairs(torch.zeros(12, 3), 4)


def test_more_queries_than_keys_without_positions_are_an_error():
    with pytest.raises(ValueError, match="5 queries cannot be the last positions of 3"):
        Rotary(ScaledDot()).score(torch.zeros(5, 4), torch.zeros(3, 4))


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("shorter", [0, 1, 2])
@pytest.mark.parametrize(
    "attention", [Rotary(CausalAttention()), CacheRotary(SinkAttention(4, 1))]
)
def test_extend_refuses_unequal_numbers_of_queries_keys_and_values(attention, shorter):
    x = doubles(2, N, SIZE)
    inputs = [x[:, 1:] if i == shorter else x for i in range(3)]
    with pytest.raises(ValueError, match="not of the same positions of one batch"):
        attention.extend(*inputs, attention.start(x, x))


def test_extend_refuses_queries_and_keys_of_different_features():
    attention, query, key = (
        Rotary(CausalAttention()),
        *(torch.randn(1, 3, d) for d in (8, 2)),
    )
    with pytest.raises(ValueError, match="features, not 8 and 2"):
        attention.extend(query, key, key, attention.start(key, key))


# Longer than trained


@pytest.mark.parametrize("base", [10000.0, 500_000.0])
def test_frequencies_are_those_of_the_base(base):
    x, position = doubles(N, SIZE), torch.arange(N)
    frequencies = rotary_frequencies(SIZE, base)
    close(rotate(x, position, base), rotate(x, position, frequencies=frequencies))


def test_position_interpolation_divides_the_frequencies():
    x, position = doubles(N, SIZE), torch.arange(N)
    found = rotate(x, position, frequencies=rotary_frequencies(SIZE) / 4)
    expected = [peng_2023.interpolated(row, m, 4) for m, row in enumerate(x.tolist())]
    close(found, expected)


@pytest.mark.parametrize(("scale", "slow", "fast"), [(4, 1, 32), (8, 2, 3), (1, 1, 32)])
def test_yarn_is_the_formula(scale, slow, fast):
    size, trained = 12, 200
    before = rotary_frequencies(size)
    found = yarn_frequencies(before, scale, trained, slow, fast)
    close(
        found,
        [
            peng_2023.yarn_frequency(x, scale, trained, slow, fast)
            for x in before.tolist()
        ],
    )
    t = yarn_temperature(scale)
    query, key = doubles(3, size), doubles(N, size, seed=1)
    attention = Rotary(ScaledDot(1 / (t * size**0.5)), frequencies=found)
    expected = [
        [
            peng_2023.yarn_score(q, k, i, j, scale, trained, slow, fast)
            for j, k in enumerate(key.tolist())
        ]
        for i, q in zip((4, 5, 6), query.tolist(), strict=True)
    ]
    close(attention.score(query, key), expected)


def test_yarn_stretches_slow_pairs_and_leaves_fast_ones():
    before = rotary_frequencies(64)
    ratio = yarn_frequencies(before, 16, 4096) / before
    turns = 4096 * before / (2 * torch.pi)
    close(ratio[turns < 1], torch.full_like(ratio[turns < 1], 1 / 16))
    assert (ratio[turns > 32] == 1).all()
    assert (ratio.diff() <= 0).all()
    assert len(ratio[turns < 1]) > 3 < len(ratio[turns > 32])


def test_frequency_0_rotates_nothing():
    """As in models that rotate a part of each head."""
    x, position = doubles(N, SIZE), torch.arange(N)
    found = rotate(x, position, frequencies=[1.0, 0, 0])
    assert torch.equal(found[:, 2:], x[:, 2:])
    close(found[:, :2], rotate(x[:, :2], position, frequencies=[1.0]))


@pytest.mark.parametrize("kind", [Rotary, CacheRotary])
def test_decoding_with_frequencies_equals_one_pass(kind):
    attention = kind(CausalAttention(), frequencies=[0.7, 0.1, 0.001])
    x = doubles(2, 3, N, SIZE)
    state, found = attention.start(x, x), []
    for part in x.split(1, -2):
        context, state = attention.extend(part, part, part, state)
        found.append(context)
    close(torch.cat(found, -2), attention(x, x, x))
    assert not torch.allclose(attention(x, x, x), kind(CausalAttention())(x, x, x))


def test_frequencies_stay_exact_in_half_precision():
    frequencies = rotary_frequencies(SIZE)
    attention = Rotary(CausalAttention(), frequencies=frequencies).half()
    assert attention.frequencies == tuple(frequencies.tolist())
    assert "frequencies=(1.0," in repr(attention)


@pytest.mark.usefixtures("unchecked")
def test_frequencies_of_another_size_are_an_error():
    attention, x = (
        Rotary(CausalAttention(), frequencies=[1.0, 0.1]),
        doubles(1, 3, SIZE),
    )
    with pytest.raises(ValueError, match="2 frequencies do not fit 6 features"):
        attention(x, x, x)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"scale": 0}, "scale must be finite and above 0"),
        ({"trained": 0}, "trained must be at least 1"),
        ({"slow": 4.0, "fast": 4.0}, "fast must be finite and above 0"),
    ],
)
def test_yarn_refuses_what_it_cannot_stretch(wrong, message):
    options = {"scale": 4, "trained": 100} | wrong
    with pytest.raises(ValueError, match=message):
        yarn_frequencies(rotary_frequencies(8), **options)
