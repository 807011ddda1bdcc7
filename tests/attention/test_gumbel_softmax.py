import math

import pytest
import torch

from companion.attention import Additive, GumbelSoftmax, StraightThroughGumbel, one_hot
from tests.tiny import close, spread

KEYS = 4
MASK = torch.tensor([[True, True, False, True], [True, True, True, True], [False] * 4])
BOTH = pytest.mark.parametrize("kind", [GumbelSoftmax, StraightThroughGumbel])


@pytest.fixture
def inner():
    return spread(Additive(2, 3, 5))


@pytest.fixture
def inputs(inner):
    torch.manual_seed(0)
    key, _ = inner.project(torch.randn(3, KEYS, 3, dtype=torch.float64))
    return torch.randn(3, 1, 2, dtype=torch.float64), key.detach(), MASK[:, None]


def drawn(attention, inputs, seed=1):
    torch.manual_seed(seed)
    return attention.weights(*inputs)


def test_the_weights_are_the_formula_for_the_noise_that_was_drawn(inner, inputs):
    found = drawn(GumbelSoftmax(inner, 0.7), inputs)
    torch.manual_seed(1)
    alarm = torch.empty(3, 1, KEYS, dtype=torch.float64).exponential_()
    scores = inner.score(*inputs[:2])
    for row in range(3):
        exponentials = [
            math.exp(
                (scores[row, 0, i].item() - math.log(alarm[row, 0, i].item())) / 0.7
            )
            * MASK[row, i].item()
            for i in range(KEYS)
        ]
        total = sum(exponentials) or 1.0
        close(found[row, 0], [x / total for x in exponentials])


@BOTH
def test_the_largest_is_drawn_as_often_as_the_weights_say(inner, inputs, kind):
    times = 20_000
    attention = kind(inner, 0.5)
    weights = drawn(attention, [x.repeat_interleave(times, 0) for x in inputs])
    alpha = inner.weights(*inputs)[:2, 0]
    found = one_hot(weights).view(3, times, KEYS).mean(1)[:2]
    assert ((found - alpha).abs() <= 4.5 * (alpha * (1 - alpha) / times).sqrt()).all()


def test_a_low_temperature_leaves_one_position_and_a_high_one_all(inner, inputs):
    cold, hot = (drawn(GumbelSoftmax(inner, t), inputs)[:2] for t in (1e-4, 1e6))
    assert (cold.max(-1).values > 1 - 1e-6).all()
    close(cold, one_hot(hot))  # the same noise, so the same place
    torch.testing.assert_close(
        hot, (MASK / MASK.sum(1, keepdim=True))[:2, None].double(), atol=1e-4, rtol=0
    )


def test_straight_through_looks_at_one_place_and_has_the_gradient_of_all(inner, inputs):
    toward = torch.randn(3, 1, KEYS, dtype=torch.float64)
    gradients = []
    for kind in (GumbelSoftmax, StraightThroughGumbel):
        weights = drawn(kind(inner, 0.7), inputs)
        gradients.append(
            torch.autograd.grad((weights * toward).sum(), list(inner.parameters())[:2])
        )
    assert ((weights == 0) | (weights == 1)).all()  # exactly
    assert weights.sum(-1).flatten().tolist() == [1, 1, 0]
    assert gradients[0][0].any()
    for found, expected in zip(*gradients, strict=True):
        close(found, expected)


def test_at_evaluation_there_is_no_noise(inner, inputs):
    close(GumbelSoftmax(inner).eval().weights(*inputs), inner.weights(*inputs))
    softened = (inner.weights(*inputs)[:2] ** 0.5).masked_fill(~MASK[:2, None], 0)
    expected = softened / softened.sum(-1, keepdim=True)
    close(GumbelSoftmax(inner, 2.0).eval().weights(*inputs)[:2], expected)
    close(
        StraightThroughGumbel(inner, 2.0).eval().weights(*inputs),
        one_hot(inner.weights(*inputs)),
    )


@BOTH
def test_every_call_draws_anew(inner, inputs, kind):
    attention = kind(inner)
    assert (
        len({tuple(attention.weights(*inputs).flatten().tolist()) for _ in range(20)})
        > 1
    )


@BOTH
@pytest.mark.parametrize("mode", [True, False])
def test_where_all_is_masked_weights_and_gradients_are_zero(inner, inputs, kind, mode):
    query, key, mask = inputs
    query.requires_grad_()
    context = kind(inner).train(mode)(
        query, key, torch.ones(3, KEYS, 2, dtype=torch.float64), mask
    )
    assert torch.equal(context[2], torch.zeros_like(context[2]))
    context.square().sum().backward()
    assert query.grad.isfinite().all()
    assert torch.equal(query.grad[2], torch.zeros_like(query[2]))


@BOTH
def test_low_precision(inner, inputs, kind):
    query, key, mask = inputs
    weights = kind(inner.bfloat16())(
        query.bfloat16(), key.bfloat16(), key.bfloat16(), mask
    )
    assert weights.dtype == torch.bfloat16
    assert weights.isfinite().all()


@BOTH
@pytest.mark.usefixtures("unchecked")
def test_compiled_into_one_graph(inner, inputs, kind):
    torch.compiler.reset()
    compiled = torch.compile(kind(inner), fullgraph=True, backend="aot_eager")
    found = compiled(
        *inputs[:2], torch.ones(3, KEYS, 1, dtype=torch.float64), inputs[2]
    )
    close(found.flatten(), [1, 1, 0])


@BOTH
@pytest.mark.parametrize("temperature", [0.0, -1.0, math.inf, math.nan])
def test_a_temperature_that_is_none_is_an_error(inner, kind, temperature):
    with pytest.raises(ValueError, match=f"finite number above 0, not {temperature}"):
        kind(inner, temperature)
