import pytest
import torch

from companion.attention import (
    CausalAttention,
    Dot,
    MultiHeadAttention,
    QueryKeyNorm,
    Rotary,
    ScaledDot,
)
from tests.reference import zhang_2019
from tests.tiny import close, doubles, spread

N, SIZE = 7, 6


def test_scores_are_the_formula():
    attention = spread(QueryKeyNorm(SIZE, ScaledDot()))
    query, source = doubles(3, SIZE), doubles(N, SIZE, seed=1)
    key, value = attention.project(source)
    assert torch.equal(value, source)
    gains = attention.query_norm.weight.tolist(), attention.key_norm.weight.tolist()
    expected = [
        [zhang_2019.normalised_score(*gains, q, k) for k in source.tolist()]
        for q in query.tolist()
    ]
    close(attention.score(query, key), expected)


def test_scores_do_not_depend_on_the_norms():
    attention = QueryKeyNorm(SIZE, ScaledDot()).double()
    query, source = doubles(3, SIZE), doubles(N, SIZE, seed=1)
    scores = attention.score(query, attention.project(source)[0])
    large = attention.score(100 * query, attention.project(1000 * source)[0])
    torch.testing.assert_close(scores, large, atol=1e-4, rtol=1e-4)
    assert scores.abs().max() <= SIZE**0.5


def test_zeros_are_normalised_to_zeros():
    attention = QueryKeyNorm(SIZE, Dot())
    x = torch.zeros(1, 2, SIZE, requires_grad=True)
    attention.score(x, attention.project(x)[0]).sum().backward()
    assert x.grad.isfinite().all()


def test_keys_are_normalised_once_and_kept():
    heads = MultiHeadAttention(
        24, 4, QueryKeyNorm(6, Rotary(CausalAttention())), key_value_heads=2
    ).double()
    x = doubles(2, N, 24)
    state, found = heads.start(x), []
    for part in x.split([3, 1, 1, 2], 1):
        output, state = heads.extend(part, state)
        found.append(output)
    close(torch.cat(found, 1), heads(x, *heads.project(x)))
    norms = state.key.norm(dim=-1)
    torch.testing.assert_close(norms, torch.full_like(norms, 6**0.5), rtol=1e-4, atol=0)


def test_under_autocast_queries_and_keys_have_its_type():
    """PyTorch warns, at every call, where gains of another type need a slower kernel."""
    heads = MultiHeadAttention(24, 4, QueryKeyNorm(6, CausalAttention()))
    x, warned = doubles(2, N, 24).float(), torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    try:
        with torch.autocast("cpu", torch.bfloat16):
            key, value = heads.project(x)
            output = heads(x, key, value)
    finally:
        torch.set_warn_always(warned)
    assert key.dtype == value.dtype == output.dtype == torch.bfloat16
    expected = heads(x, *heads.project(x))
    torch.testing.assert_close(output.float(), expected, atol=0.05, rtol=0.05)


@pytest.mark.usefixtures("unchecked")
def test_another_size_is_an_error():
    attention = QueryKeyNorm(SIZE, ScaledDot())
    with pytest.raises(RuntimeError, match=r"6.*5"):
        attention.project(torch.zeros(1, 3, 5))
    with pytest.raises(RuntimeError, match=r"6.*5"):
        attention.score(torch.zeros(1, 3, 5), torch.zeros(1, 3, SIZE))


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("epsilon", [0.0, -1e-6])
def test_an_epsilon_that_is_not_above_zero_is_an_error(epsilon):
    with pytest.raises(ValueError, match="epsilon must be finite and above 0"):
        QueryKeyNorm(SIZE, ScaledDot(), epsilon)
