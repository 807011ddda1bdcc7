import copy
import math
import pickle

import pytest
import torch

from companion.attention import (
    Additive,
    HalfAndHalf,
    HardAttention,
    RandomSynthesizer,
    entropy,
    one_hot,
    record_weights,
)
from tests.reference import scalars
from tests.tiny import close, spread

KEYS = 4
MASK = torch.tensor([[True, True, False, True], [True, True, True, True], [False] * 4])


@pytest.fixture
def inner():
    return spread(Additive(2, 3, 5))


@pytest.fixture
def inputs(inner):
    torch.manual_seed(0)
    key, _ = inner.project(torch.randn(3, KEYS, 3, dtype=torch.float64))
    return torch.randn(3, 1, 2, dtype=torch.float64), key, MASK[:, None]


def repeated(inputs, times):
    return tuple(x.repeat_interleave(times, 0) for x in inputs)


@pytest.mark.parametrize("kind", [HardAttention, HalfAndHalf])
def test_evaluation_chooses_the_most_probable_position_with_its_log_probability(
    inner, inputs, kind
):
    sampled = kind(inner).eval()(*inputs)
    alpha = inner.weights(*inputs)
    for row in range(2):
        expected = alpha[row, 0].tolist()
        best = expected.index(max(expected))
        assert sampled.weights[row, 0].tolist() == [
            float(i == best) for i in range(KEYS)
        ]
        close(sampled.log_prob[row, 0], math.log(expected[best]))
        close(sampled.entropy[row, 0], scalars.entropy(expected))


def test_positions_are_sampled_in_proportion_to_their_weights(inner, inputs):
    times = 20_000
    sampled = HardAttention(inner)(*repeated(inputs, times))
    assert ((sampled.weights == 0) | (sampled.weights == 1)).all()
    alpha = inner.weights(*inputs)[:2, 0]
    found = sampled.weights.view(3, times, KEYS).mean(1)[:2]
    assert ((found - alpha).abs() <= 4.5 * (alpha * (1 - alpha) / times).sqrt()).all()
    assert alpha[0].max() < 0.95


def test_the_log_probability_is_that_of_the_sample(inner, inputs):
    times = 50
    sampled = HardAttention(inner)(*repeated(inputs, times))
    alpha = inner.weights(*inputs)
    for row in range(2 * times):
        position = sampled.weights[row, 0].tolist().index(1)
        close(
            sampled.log_prob[row, 0], math.log(alpha[row // times, 0, position].item())
        )


def test_a_fully_masked_row_has_no_sample_and_no_gradient(inner, inputs):
    query, key, mask = inputs
    query.requires_grad_()
    for attention in (
        HardAttention(inner),
        HalfAndHalf(inner),
        HardAttention(inner).eval(),
    ):
        sampled = attention(query, key, mask)
        for part in sampled:
            assert torch.equal(part[2], torch.zeros_like(part[2]))
        (gradient,) = torch.autograd.grad(
            (sampled.log_prob + sampled.entropy).sum(), query, retain_graph=True
        )
        assert gradient.isfinite().all()
        assert torch.equal(gradient[2], torch.zeros_like(gradient[2]))


def test_no_gradient_flows_through_a_sample(inner, inputs):
    sampled = HardAttention(inner)(*inputs)
    assert not sampled.weights.requires_grad
    assert sampled.log_prob.requires_grad
    assert sampled.entropy.requires_grad


def test_gradients_of_log_probability_and_entropy_are_right(inner, inputs):
    logits = torch.randn(3, 5, dtype=torch.float64, requires_grad=True)
    attention = HardAttention(inner).eval()

    def log_prob_and_entropy(logits):
        sampled = attention.sample(logits.softmax(-1))
        return sampled.log_prob, sampled.entropy

    assert torch.autograd.gradcheck(log_prob_and_entropy, logits)


def test_a_position_without_probability_leaves_gradients_finite():
    scores = torch.tensor(
        [[0.0, -1e4, 1.0]], requires_grad=True
    )  # in float32 exp(−10000) is 0
    entropy(scores.softmax(-1)).sum().backward()
    assert scores.grad.isfinite().all()


def test_half_and_half_uses_the_expectation_half_of_the_time(inner, inputs):
    times = 2_000
    sampled = HalfAndHalf(inner)(*repeated(inputs, times))
    alpha = inner.weights(*inputs).repeat_interleave(times, 0)
    expected = torch.isclose(sampled.weights, alpha).all(-1).squeeze(1)
    sampled_rows = ((sampled.weights == 0) | (sampled.weights == 1)).all(-1).squeeze(1)
    assert torch.equal(expected[: 2 * times], ~sampled_rows[: 2 * times])
    assert abs(
        expected[: 2 * times].double().mean().item() - 0.5
    ) < 4.5 * 0.5 / math.sqrt(2 * times)
    assert (sampled.log_prob[expected] == 0).all()
    assert (sampled.log_prob[: 2 * times][sampled_rows[: 2 * times]] < 0).all()
    (gradient,) = torch.autograd.grad(sampled.weights[expected][0, 0, 0], inner.v)
    assert gradient.any()


def test_the_probabilities_are_recorded(inner, inputs):
    attention = HardAttention(inner)
    with record_weights(attention) as maps:
        attention(*inputs)
    (found,) = maps["attention"]
    close(found, inner.weights(*inputs))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_low_precision(inner, inputs, dtype):
    query, key, mask = inputs
    sampled = HalfAndHalf(inner.to(dtype))(query.to(dtype), key.to(dtype), mask)
    for part in sampled:
        assert part.dtype == dtype
        assert part.isfinite().all()


@pytest.mark.compiled
@pytest.mark.usefixtures("unchecked")
def test_compiled_into_one_graph(inner, inputs):
    torch.compiler.reset()
    inputs = [x.detach() for x in inputs]
    compiled = torch.compile(HalfAndHalf(inner), fullgraph=True, backend="aot_eager")
    close(compiled(*inputs).entropy, entropy(inner.weights(*inputs)))
    attention = HardAttention(inner).eval()
    compiled = torch.compile(attention, fullgraph=True, backend="aot_eager")
    for found, expected in zip(compiled(*inputs), attention(*inputs), strict=True):
        close(found, expected)


@pytest.mark.usefixtures("unchecked")
def test_masks_that_do_not_fit_are_errors(inner, inputs):
    query, key, _ = inputs
    attention = HardAttention(inner)
    with pytest.raises(
        ValueError, match=r"\(3, 1, 5\) does not fit scores of shape \(3, 1, 4\)"
    ):
        attention(query, key, torch.ones(3, 1, 5, dtype=torch.bool))
    with pytest.raises(TypeError, match=r"torch\.float32"):
        attention(query, key, torch.ones(3, 1, 4))
    with pytest.raises(ValueError, match="no key"):
        attention(query, key[:, :0])


# Random numbers


@pytest.mark.parametrize("kind", [HardAttention, HalfAndHalf])
def test_a_generator_is_used_in_place_of_the_global_one(inner, inputs, kind):
    inputs = repeated(inputs, 20)
    torch.manual_seed(3)
    expected = kind(inner)(*inputs)
    before = torch.get_rng_state()
    attention = kind(inner, torch.Generator().manual_seed(3))
    for found, other in zip(attention(*inputs), expected, strict=True):
        assert torch.equal(found, other)
    assert torch.equal(torch.get_rng_state(), before)
    assert not torch.equal(attention(*inputs).weights, expected.weights)


def test_the_numbers_are_those_of_exponential_and_then_of_rand_like(inner, inputs):
    """The same stream as before there was a generator, on which outputs of the book depend."""
    probabilities = inner.weights(*inputs).detach()
    torch.manual_seed(3)
    found = HalfAndHalf(inner).sample(probabilities)
    torch.manual_seed(3)
    sample = one_hot(probabilities / torch.empty_like(probabilities).exponential_())
    expected = torch.rand_like(sample[..., 0]) < 0.5
    assert torch.equal(
        found.weights, torch.where(expected[..., None], probabilities, sample)
    )


@pytest.mark.parametrize("kind", [HardAttention, HalfAndHalf])
@pytest.mark.parametrize(
    "duplicate",
    [copy.deepcopy, lambda module: pickle.loads(pickle.dumps(module))],
)
def test_a_copy_has_a_generator_of_its_own_in_the_same_state(
    inner, inputs, kind, duplicate
):
    inputs = [x.detach() for x in repeated(inputs, 20)]
    attention = kind(inner, torch.Generator().manual_seed(3))
    attention(*inputs)
    other = duplicate(attention)
    first = attention(*inputs).weights
    assert torch.equal(other(*inputs).weights, first)


def test_a_query_position_reaches_the_attention_inside():
    attention = HardAttention(RandomSynthesizer(5)).eval()
    query, key = torch.zeros(2, 3, 4), torch.zeros(2, 5, 4)
    position = torch.tensor([4, 0, 2])
    found = attention(query, key, None, position).weights
    assert torch.equal(
        found, one_hot(attention.attention.R[position].softmax(-1)).expand(2, 3, 5)
    )
