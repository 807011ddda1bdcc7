import copy
import math
import pickle

import pytest
import torch

from companion.attention import (
    Additive,
    Dot,
    GumbelSoftmax,
    RandomSynthesizer,
    StraightThroughGumbel,
    masked_softmax,
    one_hot,
)
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


def sample(attention, inputs, seed=1):
    torch.manual_seed(seed)
    return attention.weights(*inputs)


def test_the_weights_are_the_formula_for_the_sampled_noise(inner, inputs):
    found = sample(GumbelSoftmax(inner, 0.7), inputs)
    torch.manual_seed(1)
    noise = torch.empty(3, 1, KEYS, dtype=torch.float64).exponential_()
    scores = inner.score(*inputs[:2])
    for row in range(3):
        exponentials = [
            math.exp(
                (scores[row, 0, i].item() - math.log(noise[row, 0, i].item())) / 0.7
            )
            * MASK[row, i].item()
            for i in range(KEYS)
        ]
        total = sum(exponentials) or 1.0
        close(found[row, 0], [x / total for x in exponentials])


@BOTH
def test_the_largest_is_sampled_in_proportion_to_the_weights(inner, inputs, kind):
    times = 20_000
    attention = kind(inner, 0.5)
    weights = sample(attention, [x.repeat_interleave(times, 0) for x in inputs])
    alpha = inner.weights(*inputs)[:2, 0]
    found = one_hot(weights).view(3, times, KEYS).mean(1)[:2]
    assert ((found - alpha).abs() <= 4.5 * (alpha * (1 - alpha) / times).sqrt()).all()


def test_a_low_temperature_leaves_one_position_and_a_high_one_all(inner, inputs):
    cold, hot = (sample(GumbelSoftmax(inner, t), inputs)[:2] for t in (1e-4, 1e6))
    assert (cold.max(-1).values > 1 - 1e-6).all()
    close(cold, one_hot(hot))  # the same noise, so the same position
    torch.testing.assert_close(
        hot, (MASK / MASK.sum(1, keepdim=True))[:2, None].double(), atol=1e-4, rtol=0
    )


def test_straight_through_is_one_hot_with_the_gradient_of_the_relaxation(inner, inputs):
    toward = torch.randn(3, 1, KEYS, dtype=torch.float64)
    gradients = []
    for kind in (GumbelSoftmax, StraightThroughGumbel):
        weights = sample(kind(inner, 0.7), inputs)
        gradients.append(
            torch.autograd.grad((weights * toward).sum(), list(inner.parameters())[:2])
        )
    assert ((weights == 0) | (weights == 1)).all()  # exactly
    assert weights.sum(-1).flatten().tolist() == [1, 1, 0]
    assert gradients[0][0].any()
    for found, expected in zip(*gradients, strict=True):
        close(found, expected)


def test_there_is_no_noise_in_evaluation_mode(inner, inputs):
    close(GumbelSoftmax(inner).eval().weights(*inputs), inner.weights(*inputs))
    softened = (inner.weights(*inputs)[:2] ** 0.5).masked_fill(~MASK[:2, None], 0)
    expected = softened / softened.sum(-1, keepdim=True)
    close(GumbelSoftmax(inner, 2.0).eval().weights(*inputs)[:2], expected)
    close(
        StraightThroughGumbel(inner, 2.0).eval().weights(*inputs),
        one_hot(inner.weights(*inputs)),
    )


@BOTH
def test_every_call_samples_anew(inner, inputs, kind):
    attention = kind(inner)
    assert (
        len({tuple(attention.weights(*inputs).flatten().tolist()) for _ in range(20)})
        > 1
    )


@BOTH
@pytest.mark.parametrize("mode", [True, False])
def test_the_weights_and_gradients_of_a_fully_masked_row_are_zero(
    inner, inputs, kind, mode
):
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


@pytest.mark.compiled
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
def test_a_temperature_that_is_not_finite_and_above_zero_is_an_error(
    inner, kind, temperature
):
    with pytest.raises(
        ValueError, match=f"temperature must be finite and above 0, not {temperature}"
    ):
        kind(inner, temperature)


@BOTH
@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("temperature", ["1", None])
def test_a_temperature_that_is_not_a_number_is_an_error(inner, kind, temperature):
    with pytest.raises(TypeError, match="not supported between instances"):
        kind(inner, temperature)


# Extreme temperatures

LOWEST = pytest.mark.parametrize("temperature", [1e-5, 1e-40, 5e-324])
EVERY_DTYPE = pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64]
)


@BOTH
@LOWEST
@EVERY_DTYPE
@pytest.mark.parametrize("mode", [True, False])
def test_the_lowest_temperatures_choose_the_largest_score(
    kind, temperature, dtype, mode
):
    """scores / temperature would overflow, and ∞ − ∞ and 0 / 0 are NaN."""
    torch.manual_seed(0)
    query, key = torch.randn(2, 5, 3, dtype=dtype), torch.randn(2, 6, 3, dtype=dtype)
    query.requires_grad_()
    mask = torch.rand(2, 5, 6) < 0.7
    mask[0, 0] = False
    weights = kind(Dot(), temperature).train(mode).weights(query, key, mask)
    assert weights.dtype == dtype
    assert torch.equal(weights.sum(-1), mask.any(-1).to(dtype))
    assert ((weights == 0) | (weights == 1)).all()
    assert not weights[~mask].any()
    if not mode:
        assert torch.equal(weights, one_hot(masked_softmax(query @ key.mT, mask)))
    weights.square().sum().backward()
    assert query.grad.isfinite().all()


def test_equal_scores_get_equal_weights_at_the_lowest_temperature():
    query = torch.zeros(1, 1, 3)
    attention = GumbelSoftmax(Dot(), 1e-45).eval()
    weights = attention.weights(query, torch.randn(1, 4, 3))
    assert torch.equal(weights, torch.full((1, 1, 4), 0.25))


@pytest.mark.parametrize("temperature", [1e9, 1e30])
def test_straight_through_chooses_the_most_probable_position_at_any_temperature(
    inner, inputs, temperature
):
    """The relaxed weights are all equal in floating point, so they have no maximum."""
    query, key, mask = inputs
    inner, query, key = inner.float(), query.float(), key.float()
    expected = one_hot(inner.weights(query, key, mask))
    attention = StraightThroughGumbel(inner, temperature).eval()
    assert torch.equal(attention.weights(query, key, mask), expected)
    assert expected.argmax(-1).any()  # not the first position everywhere


def test_at_temperature_one_the_weights_are_bit_by_bit_those_of_a_softmax():
    """The protection from overflow changes no result of a trained model."""
    torch.manual_seed(0)
    query, key = torch.randn(8, 5, 3), torch.randn(8, 6, 3)
    mask = torch.rand(8, 5, 6) < 0.7
    found = GumbelSoftmax(Dot()).eval().weights(query, key, mask)
    assert torch.equal(found, masked_softmax(query @ key.mT, mask))


# Random numbers


@BOTH
def test_a_generator_is_used_in_place_of_the_global_one(inner, inputs, kind):
    expected = sample(kind(inner), inputs)
    before = torch.get_rng_state()
    attention = kind(inner, generator=torch.Generator().manual_seed(1))
    assert torch.equal(attention.weights(*inputs), expected)
    assert torch.equal(torch.get_rng_state(), before)
    assert not torch.equal(
        torch.stack([attention.weights(*inputs) for _ in range(20)]),
        expected.expand(20, *expected.shape),
    )


@BOTH
@pytest.mark.parametrize(
    "duplicate", [copy.deepcopy, lambda module: pickle.loads(pickle.dumps(module))]
)
def test_a_copy_has_a_generator_of_its_own_in_the_same_state(
    inner, inputs, kind, duplicate
):
    attention = kind(inner, generator=torch.Generator().manual_seed(1))
    attention.weights(*inputs)
    other = duplicate(attention)
    found = torch.stack([attention.weights(*inputs) for _ in range(20)])
    assert torch.equal(torch.stack([other.weights(*inputs) for _ in range(20)]), found)


@BOTH
def test_a_query_position_reaches_the_attention_inside(kind):
    inside = RandomSynthesizer(5)
    query, key = torch.zeros(2, 3, 4), torch.zeros(2, 5, 4)
    position = torch.tensor([4, 0, 2])
    attention = kind(inside).eval()
    assert attention.uses_query_position
    torch.testing.assert_close(
        attention.weights(query, key, None, position).argmax(-1),
        inside.R[position].argmax(-1).expand(2, 3),
    )
