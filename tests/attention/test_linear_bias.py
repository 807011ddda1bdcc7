import pytest
import torch

from companion.attention import (
    ALiBi,
    LinearBias,
    MultiHeadAttention,
    PerHead,
    alibi_slopes,
    masks,
)
from tests.reference import press_2022
from tests.tiny import close, doubles

N, SIZE = 7, 6


@pytest.mark.parametrize("heads", [1, 2, 3, 6, 8, 12, 16])
def test_slopes_are_those_of_the_paper_for_every_number_of_heads(heads):
    assert alibi_slopes(heads) == pytest.approx(press_2022.slopes(heads))


def test_the_slopes_of_8_heads():
    """The example of section 3: 1/2, 1/4, …, 1/256."""
    assert alibi_slopes(8) == [2.0**-i for i in range(1, 9)]


def test_scores_are_the_formula():
    query, key = doubles(3, SIZE), doubles(N, SIZE, seed=1)
    found = LinearBias(0.3).score(query, key)
    expected = [
        [
            press_2022.biased_score(q, k, N - 3 + i, j, 0.3)
            for j, k in enumerate(key.tolist())
        ]
        for i, q in enumerate(query.tolist())
    ]
    close(found, expected)


@pytest.mark.parametrize("rule", [None, masks.sink_window(2, 1)])
def test_alibi_is_one_linear_bias_for_each_head(rule):
    attention = ALiBi(3, rule)
    alone = PerHead(*(LinearBias(m, rule, causal=True) for m in alibi_slopes(3)))
    query, key, value = (doubles(2, 3, N, SIZE, seed=seed) for seed in range(3))
    padding = torch.ones(2, 1, 1, N).bool()
    padding[1, ..., 5:] = False
    for mask in (None, padding):
        close(attention(query, key, value, mask), alone(query, key, value, mask))
        close(attention.weights(query, key, mask), alone.weights(query, key, mask))


def test_no_position_depends_on_later_ones():
    attention = MultiHeadAttention(6, 3, ALiBi(3)).double()
    x = doubles(1, N, 6).requires_grad_()
    output = attention(x, *attention.project(x))
    (gradient,) = torch.autograd.grad(output[0, 3].sum(), x)
    assert (gradient[0, 4:] == 0).all()
    assert (gradient[0, :4] != 0).any(-1).all()


def test_the_bias_is_exact_at_long_distances_in_half_precision():
    x = torch.zeros(1, 1, 3000, 2, dtype=torch.bfloat16)
    last = ALiBi(1).score(x[..., -1:, :], x)[0, 0, 0]
    expected = -alibi_slopes(1)[0] * (2999 - torch.arange(3000.0))
    assert torch.equal(last, expected)


def test_in_float16_distances_beyond_its_largest_number_are_no_infinite_scores():
    """The key is 700 positions away, which is 70,000 with this slope."""
    x = torch.zeros(1, 1, 2, dtype=torch.float16)
    key, first = torch.zeros(1, 701, 2, dtype=torch.float16), torch.arange(701) == 0
    position = torch.tensor([700])
    context, weights = LinearBias(100.0).attend(x, key, key + 1, first, position)
    assert weights[0, 0, 0] == 1
    assert (context == 1).all()


def test_gradients_are_right():
    inputs = [doubles(1, 2, 4, SIZE, seed=seed).requires_grad_() for seed in range(3)]
    assert torch.autograd.gradcheck(ALiBi(2), inputs, fast_mode=True)


def test_another_number_of_heads_is_an_error():
    with pytest.raises(ValueError, match="no axis of 3 heads"):
        MultiHeadAttention(8, 2, ALiBi(3))(
            torch.zeros(1, 4, 8), *2 * [torch.zeros(1, 2, 4, 4)]
        )


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("slope", [-0.1, float("inf"), float("nan")])
def test_a_slope_below_zero_is_an_error(slope):
    with pytest.raises(ValueError, match="slope must be finite and at least 0"):
        LinearBias(slope)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("heads", [0, -2])
def test_no_head_is_an_error(heads):
    for build in (alibi_slopes, ALiBi):
        with pytest.raises(ValueError, match=f"heads must be at least 1, not {heads}"):
            build(heads)
