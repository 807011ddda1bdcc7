"""Looking at one place: what is drawn, what it pays, and whether REINFORCE finds the true gradient."""

import math

import pytest
import torch

from companion.attention import (
    Additive,
    HalfAndHalf,
    HardAttention,
    SampledAttention,
    entropy,
    one_hot,
    record_weights,
)
from companion.models import HardCaptioner
from companion.training import (
    MovingBaseline,
    doubly_stochastic_penalty,
    reinforce_loss,
    reward_to_go,
)
from tests.reference import scalars, xu_2015
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


# The draw


@pytest.mark.parametrize("kind", [HardAttention, HalfAndHalf])
def test_at_evaluation_the_most_probable_position_with_its_log_probability(
    inner, inputs, kind
):
    look = kind(inner).eval()(*inputs)
    alpha = inner.weights(*inputs)
    for row in range(2):
        expected = alpha[row, 0].tolist()
        best = expected.index(max(expected))
        assert look.weights[row, 0].tolist() == [float(i == best) for i in range(KEYS)]
        close(look.log_prob[row, 0], math.log(expected[best]))
        close(look.entropy[row, 0], scalars.entropy(expected))


def test_positions_are_drawn_as_often_as_their_weights_say(inner, inputs):
    times = 20_000
    look = HardAttention(inner)(*repeated(inputs, times))
    assert ((look.weights == 0) | (look.weights == 1)).all()
    alpha = inner.weights(*inputs)[:2, 0]
    found = look.weights.view(3, times, KEYS).mean(1)[:2]
    assert ((found - alpha).abs() <= 4.5 * (alpha * (1 - alpha) / times).sqrt()).all()
    assert alpha[0].max() < 0.95


def test_the_log_probability_is_that_of_what_was_drawn(inner, inputs):
    times = 50
    look = HardAttention(inner)(*repeated(inputs, times))
    alpha = inner.weights(*inputs)
    for row in range(2 * times):
        drawn = look.weights[row, 0].tolist().index(1)
        close(look.log_prob[row, 0], math.log(alpha[row // times, 0, drawn].item()))


def test_where_all_is_masked_nothing_is_drawn_and_no_gradient_comes_back(inner, inputs):
    query, key, mask = inputs
    query.requires_grad_()
    for attention in (
        HardAttention(inner),
        HalfAndHalf(inner),
        HardAttention(inner).eval(),
    ):
        look = attention(query, key, mask)
        for part in look:
            assert torch.equal(part[2], torch.zeros_like(part[2]))
        (gradient,) = torch.autograd.grad(
            (look.log_prob + look.entropy).sum(), query, retain_graph=True
        )
        assert gradient.isfinite().all()
        assert torch.equal(gradient[2], torch.zeros_like(gradient[2]))


def test_no_gradient_flows_through_a_drawn_position(inner, inputs):
    look = HardAttention(inner)(*inputs)
    assert not look.weights.requires_grad
    assert look.log_prob.requires_grad
    assert look.entropy.requires_grad


def test_gradients_of_log_probability_and_entropy_are_right(inner, inputs):
    logits = torch.randn(3, 5, dtype=torch.float64, requires_grad=True)
    attention = HardAttention(inner).eval()

    def measured(logits):
        look = attention.sample(logits.softmax(-1))
        return look.log_prob, look.entropy

    assert torch.autograd.gradcheck(measured, logits)


def test_a_position_without_probability_leaves_gradients_finite():
    scores = torch.tensor(
        [[0.0, -1e4, 1.0]], requires_grad=True
    )  # in float32 exp(−10000) is 0
    entropy(scores.softmax(-1)).sum().backward()
    assert scores.grad.isfinite().all()


def test_half_and_half_takes_the_expectation_every_other_time(inner, inputs):
    times = 2_000
    look = HalfAndHalf(inner)(*repeated(inputs, times))
    alpha = inner.weights(*inputs).repeat_interleave(times, 0)
    expected = torch.isclose(look.weights, alpha).all(-1).squeeze(1)
    drawn = ((look.weights == 0) | (look.weights == 1)).all(-1).squeeze(1)
    assert torch.equal(expected[: 2 * times], ~drawn[: 2 * times])
    assert abs(
        expected[: 2 * times].double().mean().item() - 0.5
    ) < 4.5 * 0.5 / math.sqrt(2 * times)
    assert (look.log_prob[expected] == 0).all()
    assert (look.log_prob[: 2 * times][drawn[: 2 * times]] < 0).all()
    (gradient,) = torch.autograd.grad(look.weights[expected][0, 0, 0], inner.v)
    assert gradient.any()


def test_record_weights_sees_the_probabilities(inner, inputs):
    attention = HardAttention(inner)
    with record_weights(attention) as maps:
        attention(*inputs)
    (found,) = maps["attention"]
    close(found, inner.weights(*inputs))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_low_precision(inner, inputs, dtype):
    query, key, mask = inputs
    look = HalfAndHalf(inner.to(dtype))(query.to(dtype), key.to(dtype), mask)
    for part in look:
        assert part.dtype == dtype
        assert part.isfinite().all()


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
        ValueError, match=r"\(3, 1, 5\) does not broadcast to scores of \(3, 1, 4\)"
    ):
        attention(query, key, torch.ones(3, 1, 5, dtype=torch.bool))
    with pytest.raises(TypeError, match=r"torch\.float32"):
        attention(query, key, torch.ones(3, 1, 4))
    with pytest.raises(ValueError, match="no key"):
        attention(query, key[:, :0])


# The penalty

WORDS = torch.tensor([[True, True, True], [True, False, False]])
PLACES = torch.tensor([[True, True, False, True], [True, True, True, True]])


def drawn_weights():
    generator = torch.Generator().manual_seed(0)
    return torch.rand(2, 3, KEYS, dtype=torch.float64, generator=generator)


def test_the_penalty_is_equation_14_and_the_mean_over_the_images():
    weights = drawn_weights()
    expected = 0.0
    for row in range(2):
        counted = [
            weights[row, t, PLACES[row]].tolist() for t in range(3) if WORDS[row, t]
        ]
        expected += xu_2015.doubly_stochastic(counted, 0.7) / 2
    close(doubly_stochastic_penalty(weights, WORDS, PLACES, 0.7), expected)


def test_what_is_padding_does_not_matter_to_the_penalty():
    weights = drawn_weights().requires_grad_()
    (gradient,) = torch.autograd.grad(
        doubly_stochastic_penalty(weights, WORDS, PLACES), weights
    )
    assert torch.equal(gradient != 0, WORDS[..., None] & PLACES[:, None])


def test_the_penalty_is_zero_where_each_place_receives_one():
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
        doubly_stochastic_penalty(drawn_weights(), WORDS, PLACES, weight)


# The pieces of REINFORCE


def test_the_loss_is_the_papers_with_the_reward_to_go():
    generator = torch.Generator().manual_seed(0)
    log_prob, reward, open_ = -torch.rand(
        3, 2, 3, dtype=torch.float64, generator=generator
    )
    baseline = torch.tensor([-1.0, -0.5, 0.3], dtype=torch.float64)
    look = SampledAttention(drawn_weights(), log_prob, -open_)
    expected = 0.0
    for row in range(2):
        n = int(WORDS[row].sum())
        given = [x[row, :n].tolist() for x in (log_prob, reward)]
        expected += (
            xu_2015.reinforce(
                *given, baseline.tolist(), (-open_)[row, :n].tolist(), 0.3, 0.005
            )
            / 2
        )
    advantage = reward_to_go(reward, WORDS) - baseline
    close(reinforce_loss(look, advantage, WORDS, 0.3, 0.005), expected)


def test_no_gradient_goes_to_the_reward():
    reward = torch.randn(2, 3, requires_grad=True)
    log_prob = torch.randn(2, 3, requires_grad=True)
    look = SampledAttention(drawn_weights(), log_prob, torch.zeros(2, 3))
    reinforce_loss(look, reward, WORDS).backward()
    assert reward.grad is None
    assert torch.equal(log_prob.grad != 0, WORDS)


@pytest.mark.parametrize("weights", [{"policy_weight": -1.0}, {"entropy_weight": -0.5}])
def test_weights_below_zero_are_errors(weights):
    look = SampledAttention(drawn_weights(), torch.zeros(2, 3), torch.zeros(2, 3))
    ((name, weight),) = weights.items()
    with pytest.raises(
        ValueError, match=f"{name.removesuffix('_weight')} .*not {weight}"
    ):
        reinforce_loss(look, torch.zeros(2, 3), WORDS, **weights)


def test_the_baseline_moves_by_a_tenth_and_holds_what_was_before():
    baseline = MovingBaseline(4)
    expected = [0.0] * 4
    for batch in range(5):
        reward = torch.full((2, 3), -1.0 - batch)
        reward[1, 1:] = math.nan  # no words there
        before = baseline(reward, WORDS)
        assert before.tolist() == pytest.approx(expected[:3])
        expected = [0.9 * b + 0.1 * (-1.0 - batch) for b in expected[:3]] + [0.0]
    assert baseline.value.tolist() == pytest.approx(expected)


def test_the_baseline_is_a_mean_over_those_who_still_speak():
    baseline = MovingBaseline(3)
    baseline(torch.tensor([[1.0, 2.0, 3.0], [5.0, 100.0, 100.0]]), WORDS)
    assert baseline.value.tolist() == pytest.approx([0.3, 0.2, 0.3])


def test_a_step_that_nobody_reaches_keeps_its_baseline():
    baseline = MovingBaseline(2)
    baseline.value[:] = 7
    baseline(torch.ones(2, 2), torch.tensor([[True, False], [True, False]]))
    assert baseline.value.tolist() == pytest.approx([6.4, 7])


def test_at_evaluation_the_baseline_stands_still_and_it_is_saved():
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


# REINFORCE against enumeration: a hard captioner, three places, two words, so nine ways to look

PLACES_OF_TINY, TARGET = 3, torch.tensor([[1, 3, 2]])
GIVEN, FOLLOWING = TARGET[:, :-1], TARGET[:, 1:]


class Told(HardAttention):
    """Looks where it is told, one place after another."""

    def __init__(self, attention, places):
        super().__init__(attention)
        self.places = list(places)

    def choose(self, probabilities):
        return one_hot(
            torch.eye(PLACES_OF_TINY)[self.places.pop(0)]
            .expand_as(probabilities)
            .double()
        )


@pytest.fixture
def tiny():
    return spread(HardCaptioner(4, 2, 3, 3, HardAttention(Additive(3, 3, 4))))


def image():
    generator = torch.Generator().manual_seed(1)
    states = 2 * torch.randn(
        1, PLACES_OF_TINY, 3, dtype=torch.float64, generator=generator
    )
    return states, torch.ones(1, PLACES_OF_TINY, dtype=torch.bool)


def rewards(logits, following):
    return logits.log_softmax(-1).gather(-1, following[..., None]).squeeze(-1)


def exact_gradient(tiny):
    """∂/∂W Σ_s p(s) log p(y | s), over all nine ways to look."""
    total = 0.0
    attention = tiny.attention
    for first in range(PLACES_OF_TINY):
        for second in range(PLACES_OF_TINY):
            tiny.attention = Told(attention.attention, [first, second])
            logits, look = tiny.trace(GIVEN, tiny.start(*image()))
            total = total + look.log_prob.sum().exp() * rewards(logits, FOLLOWING).sum()
    tiny.attention = attention
    return torch.cat(
        [g.flatten() for g in torch.autograd.grad(total, list(tiny.parameters()))]
    )


def estimates(tiny, baseline, batches, size, policy_weight=1.0):
    """The gradient as REINFORCE estimates it, from each of some batches of draws."""
    states, mask = (x.expand(size, *x.shape[1:]) for x in image())
    words = torch.ones(size, 2, dtype=torch.bool)
    found = []
    for _ in range(batches):
        logits, look = tiny.trace(GIVEN.expand(size, -1), tiny.start(states, mask))
        reward = rewards(logits, FOLLOWING.expand(size, -1))
        advantage = reward_to_go(reward, words) - baseline
        loss = (
            reinforce_loss(look, advantage, words, policy_weight) - reward.sum(1).mean()
        )
        gradients = torch.autograd.grad(
            -loss, list(tiny.parameters()), materialize_grads=True
        )
        found.append(torch.cat([g.flatten() for g in gradients]))
    return torch.stack(found)


def far(found, exact):
    """How many standard errors lie between the mean of the estimates and the truth, at most."""
    error = found.std(0) / math.sqrt(len(found))
    return ((found.mean(0) - exact).abs() / (error + 1e-12)).max().item()


@pytest.mark.parametrize("baseline", [0.0, torch.tensor([-3.0, -1.5])])
def test_reinforce_is_unbiased(tiny, baseline):
    torch.manual_seed(0)
    assert far(estimates(tiny, baseline, 100, 400), exact_gradient(tiny)) < 4.5


def test_without_the_policys_term_it_would_be_biased(tiny):
    torch.manual_seed(0)
    assert (
        far(estimates(tiny, 0.0, 100, 400, policy_weight=0.0), exact_gradient(tiny))
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


def test_half_and_half_is_between_soft_and_hard(tiny):
    """With no policy term at all, soft looks still bring a gradient to the attention; hard ones do not."""
    for kind, arrives in ((HardAttention, False), (HalfAndHalf, True)):
        torch.manual_seed(0)
        tiny.attention = kind(tiny.attention.attention)
        states, mask = (x.expand(20, *x.shape[1:]) for x in image())
        logits, _ = tiny.trace(GIVEN.expand(20, -1), tiny.start(states, mask))
        (gradient,) = torch.autograd.grad(
            logits.sum(), tiny.attention.attention.v, materialize_grads=True
        )
        assert gradient.any().item() is arrives
