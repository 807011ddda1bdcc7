"""The loss of hard attention: its parts, and REINFORCE against the exact gradient by enumeration."""

import math

import pytest
import torch

from companion.attention import (
    Additive,
    HalfAndHalf,
    HardAttention,
    SampledAttention,
    one_hot,
)
from companion.models import HardCaptioner
from companion.training import (
    MovingBaseline,
    doubly_stochastic_penalty,
    reinforce_loss,
    reward_to_go,
)
from tests.reference import xu_2015
from tests.tiny import close, spread

# The doubly stochastic penalty

KEYS = 4
WORDS = torch.tensor([[True, True, True], [True, False, False]])
VISIBLE = torch.tensor([[True, True, False, True], [True, True, True, True]])


def random_weights():
    generator = torch.Generator().manual_seed(0)
    return torch.rand(2, 3, KEYS, dtype=torch.float64, generator=generator)


def test_the_penalty_is_equation_14_averaged_over_the_images():
    weights = random_weights()
    expected = 0.0
    for row in range(2):
        counted = [
            weights[row, t, VISIBLE[row]].tolist() for t in range(3) if WORDS[row, t]
        ]
        expected += xu_2015.doubly_stochastic(counted, 0.7) / 2
    close(doubly_stochastic_penalty(weights, WORDS, VISIBLE, 0.7), expected)


def test_padding_does_not_matter_to_the_penalty():
    weights = random_weights().requires_grad_()
    (gradient,) = torch.autograd.grad(
        doubly_stochastic_penalty(weights, WORDS, VISIBLE), weights
    )
    assert torch.equal(gradient != 0, WORDS[..., None] & VISIBLE[:, None])


def test_the_penalty_is_zero_if_each_region_receives_attention_of_one():
    weights = torch.full((2, 3, 3), 1 / 3)
    all_true = torch.ones(2, 3, dtype=torch.bool)
    assert doubly_stochastic_penalty(
        weights, all_true, all_true
    ).item() == pytest.approx(0, abs=1e-12)
    assert doubly_stochastic_penalty(0 * weights, all_true, all_true).item() == 3


@pytest.mark.parametrize("weight", [-1.0, -1e-9, math.nan, math.inf])
def test_a_penalty_below_zero_is_an_error(weight):
    with pytest.raises(
        ValueError, match=f"doubly stochastic penalty .* at least 0, not {weight}"
    ):
        doubly_stochastic_penalty(random_weights(), WORDS, VISIBLE, weight)


# The parts of REINFORCE


def test_the_loss_is_the_formula_with_the_reward_to_go():
    generator = torch.Generator().manual_seed(0)
    log_prob, reward, negative_entropy = -torch.rand(
        3, 2, 3, dtype=torch.float64, generator=generator
    )
    baseline = torch.tensor([-1.0, -0.5, 0.3], dtype=torch.float64)
    sampled = SampledAttention(random_weights(), log_prob, -negative_entropy)
    expected = 0.0
    for row in range(2):
        n = int(WORDS[row].sum())
        given = [x[row, :n].tolist() for x in (log_prob, reward)]
        expected += (
            xu_2015.reinforce(
                *given,
                baseline.tolist(),
                (-negative_entropy)[row, :n].tolist(),
                0.3,
                0.005,
            )
            / 2
        )
    advantage = reward_to_go(reward, WORDS) - baseline
    close(reinforce_loss(sampled, advantage, WORDS, 0.3, 0.005), expected)


def test_no_gradient_flows_to_the_reward():
    reward = torch.randn(2, 3, requires_grad=True)
    log_prob = torch.randn(2, 3, requires_grad=True)
    sampled = SampledAttention(random_weights(), log_prob, torch.zeros(2, 3))
    reinforce_loss(sampled, reward, WORDS).backward()
    assert reward.grad is None
    assert torch.equal(log_prob.grad != 0, WORDS)


@pytest.mark.parametrize("weights", [{"policy_weight": -1.0}, {"entropy_weight": -0.5}])
def test_weights_below_zero_are_errors(weights):
    sampled = SampledAttention(random_weights(), torch.zeros(2, 3), torch.zeros(2, 3))
    ((name, weight),) = weights.items()
    with pytest.raises(
        ValueError, match=f"{name.removesuffix('_weight')} .*not {weight}"
    ):
        reinforce_loss(sampled, torch.zeros(2, 3), WORDS, **weights)


def test_the_baseline_is_returned_before_it_moves_by_a_tenth():
    baseline = MovingBaseline(4)
    expected = [0.0] * 4
    for batch in range(5):
        reward = torch.full((2, 3), -1.0 - batch)
        reward[1, 1:] = math.nan  # no words there
        before = baseline(reward, WORDS)
        assert before.tolist() == pytest.approx(expected[:3])
        expected = [0.9 * b + 0.1 * (-1.0 - batch) for b in expected[:3]] + [0.0]
    assert baseline.value.tolist() == pytest.approx(expected)


def test_the_baseline_averages_over_the_captions_that_have_not_ended():
    baseline = MovingBaseline(3)
    baseline(torch.tensor([[1.0, 2.0, 3.0], [5.0, 100.0, 100.0]]), WORDS)
    assert baseline.value.tolist() == pytest.approx([0.3, 0.2, 0.3])


def test_a_step_that_no_caption_reaches_keeps_its_baseline():
    baseline = MovingBaseline(2)
    baseline.value[:] = 7
    baseline(torch.ones(2, 2), torch.tensor([[True, False], [True, False]]))
    assert baseline.value.tolist() == pytest.approx([6.4, 7])


def test_the_baseline_is_constant_in_evaluation_mode_and_is_saved():
    baseline = MovingBaseline(3)
    baseline(torch.ones(2, 3), WORDS)
    kept = baseline.value.clone()
    baseline.eval()(torch.ones(2, 3), WORDS)
    assert torch.equal(baseline.value, kept)
    other = MovingBaseline(3)
    other.load_state_dict(baseline.state_dict())
    assert torch.equal(other.value, kept)


def test_baselines_of_another_length_are_errors():
    with pytest.raises(ValueError, match="steps must be at least 1, not 0"):
        MovingBaseline(0)
    with pytest.raises(ValueError, match="3 steps, but the baseline 2"):
        MovingBaseline(2)(torch.ones(2, 3), WORDS)


# REINFORCE against enumeration: two words, each at one of three regions, so nine samples

REGIONS, TARGET = 3, torch.tensor([[1, 3, 2]])
GIVEN, FOLLOWING = TARGET[:, :-1], TARGET[:, 1:]


class PrescribedAttention(HardAttention):
    """Attends to the given regions, one at each step."""

    def __init__(self, attention, regions):
        super().__init__(attention)
        self.regions = list(regions)

    def choose(self, probabilities):
        return one_hot(
            torch.eye(REGIONS)[self.regions.pop(0)].expand_as(probabilities).double()
        )


@pytest.fixture
def tiny():
    return spread(HardCaptioner(4, 2, 3, 3, HardAttention(Additive(3, 3, 4))))


def image():
    generator = torch.Generator().manual_seed(1)
    states = 2 * torch.randn(1, REGIONS, 3, dtype=torch.float64, generator=generator)
    return states, torch.ones(1, REGIONS, dtype=torch.bool)


def rewards(logits, following):
    return logits.log_softmax(-1).gather(-1, following[..., None]).squeeze(-1)


def exact_gradient(tiny):
    """∂/∂W Σ_s p(s) log p(y | s), over all nine samples."""
    total = 0.0
    attention = tiny.attention
    for first in range(REGIONS):
        for second in range(REGIONS):
            tiny.attention = PrescribedAttention(attention.attention, [first, second])
            logits, sampled = tiny.trace(GIVEN, tiny.start(*image()))
            total = (
                total + sampled.log_prob.sum().exp() * rewards(logits, FOLLOWING).sum()
            )
    tiny.attention = attention
    return torch.cat(
        [g.flatten() for g in torch.autograd.grad(total, list(tiny.parameters()))]
    )


def estimates(tiny, baseline, batches, size, policy_weight=1.0):
    """REINFORCE's estimates of the gradient, one from each batch of samples."""
    states, mask = (x.expand(size, *x.shape[1:]) for x in image())
    words = torch.ones(size, 2, dtype=torch.bool)
    found = []
    for _ in range(batches):
        logits, sampled = tiny.trace(GIVEN.expand(size, -1), tiny.start(states, mask))
        reward = rewards(logits, FOLLOWING.expand(size, -1))
        advantage = reward_to_go(reward, words) - baseline
        loss = (
            reinforce_loss(sampled, advantage, words, policy_weight)
            - reward.sum(1).mean()
        )
        gradients = torch.autograd.grad(
            -loss, list(tiny.parameters()), materialize_grads=True
        )
        found.append(torch.cat([g.flatten() for g in gradients]))
    return torch.stack(found)


def deviation(found, exact):
    """The largest distance of the mean estimate from the exact gradient, in standard errors."""
    error = found.std(0) / math.sqrt(len(found))
    return ((found.mean(0) - exact).abs() / (error + 1e-12)).max().item()


@pytest.mark.parametrize("baseline", [0.0, torch.tensor([-3.0, -1.5])])
def test_reinforce_is_unbiased(tiny, baseline):
    torch.manual_seed(0)
    assert deviation(estimates(tiny, baseline, 100, 400), exact_gradient(tiny)) < 4.5


def test_without_the_policy_term_the_estimate_is_biased(tiny):
    torch.manual_seed(0)
    assert (
        deviation(
            estimates(tiny, 0.0, 100, 400, policy_weight=0.0), exact_gradient(tiny)
        )
        > 20
    )


def test_a_baseline_lowers_the_variance(tiny):
    size = 1000
    torch.manual_seed(0)
    states, mask = (x.expand(size, *x.shape[1:]) for x in image())
    words = torch.ones(size, 2, dtype=torch.bool)
    moving = MovingBaseline(2)
    with torch.no_grad():
        for _ in range(50):
            logits, _ = tiny.trace(GIVEN.expand(size, -1), tiny.start(states, mask))
            moving(
                reward_to_go(rewards(logits, FOLLOWING.expand(size, -1)), words), words
            )
    spreads = []
    for baseline in (torch.zeros(2), moving.value):
        torch.manual_seed(1)
        spreads.append(estimates(tiny, baseline, 150, 4).var(0).sum().item())
    assert spreads[1] < 0.7 * spreads[0]


def test_half_and_half_has_a_gradient_through_its_expectations(tiny):
    """Without the policy term, soft steps still have a gradient; hard ones do not."""
    for kind, arrives in ((HardAttention, False), (HalfAndHalf, True)):
        torch.manual_seed(0)
        tiny.attention = kind(tiny.attention.attention)
        states, mask = (x.expand(20, *x.shape[1:]) for x in image())
        logits, _ = tiny.trace(GIVEN.expand(20, -1), tiny.start(states, mask))
        (gradient,) = torch.autograd.grad(
            logits.sum(), tiny.attention.attention.v, materialize_grads=True
        )
        assert gradient.any().item() is arrives
