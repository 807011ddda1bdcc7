"""Greedy search and sampling over small random models, one sentence checked at a time."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from companion.decoding import DecoderStep, beam_search, greedy, sample
from tests.decoding.toy_models import (
    BOS,
    EOS,
    PAD,
    SENTENCES,
    ToyModel,
    assert_same,
    assert_true_to_the_model,
    at,
    length_of,
    lengths,
    models,
    two_tokens,
)
from tests.tiny import MARKS

# Greedy search


@given(models, lengths)
def test_greedy_takes_the_most_probable_token_until_the_end(model, max_length):
    found = greedy(model.step, model.start(), max_length, **MARKS)
    assert found.tokens.shape[1] == max(map(length_of, found.tokens))
    for row in range(SENTENCES):
        expected = []
        while len(expected) < max_length and EOS not in expected:
            log_probs = model.next_log_probs(row)(expected)
            expected.append(log_probs.index(max(log_probs)))
        assert found.tokens[row, : len(expected)].tolist() == expected
        assert_true_to_the_model(model, row, at(found, row))


@given(models, lengths)
def test_greedy_of_a_batch_is_that_of_each_sentence_alone(model, max_length):
    together = greedy(model.step, model.start(), max_length, **MARKS)
    for row in range(SENTENCES):
        alone = greedy(model.step, model.start(row), max_length, **MARKS)
        assert_same(at(together, slice(row, row + 1)), alone)


def test_sentences_that_have_ended_are_given_padding():
    inputs = []

    def step(token, state):
        (row,) = state
        inputs.append(token.tolist())
        logits = torch.tensor([[-9.0, -9.0, 9.0, 5.0], [-9.0, -9.0, 1.0, 5.0]])[row]
        return DecoderStep(logits, state, torch.ones(len(row), 2))

    found = greedy(step, (torch.tensor([0, 1]),), 3, **MARKS)
    assert found.tokens.tolist() == [[EOS, PAD, PAD], [3, 3, 3]]
    assert inputs == [[BOS, BOS], [EOS, 3], [PAD, 3]]
    assert found.weights[:, :, 0].tolist() == [[1, 0, 0], [1, 1, 1]]


@pytest.mark.parametrize("search", [greedy, sample])
@pytest.mark.parametrize("logit", [torch.nan, torch.inf, -torch.inf])
def test_logits_after_the_end_of_a_sentence_are_ignored(search, logit):
    def step(token, state):
        (row,) = state
        ending = torch.tensor([[-torch.inf, -torch.inf, 0.0, -torch.inf]])
        other = torch.tensor([[-torch.inf, -torch.inf, -torch.inf, 0.0]])
        logits = torch.where(row[:, None] == 0, ending, other)
        ended = (token == EOS) | (token == PAD)
        return DecoderStep(logits.masked_fill(ended[:, None], logit), state, None)

    found = search(step, (torch.tensor([0, 1]),), 3, **MARKS)
    assert found.tokens.tolist() == [[EOS, PAD, PAD], [3, 3, 3]]
    assert found.log_probs.tolist() == [0, 0]


# Sampling


def frequencies(probabilities, **options):
    """How often each token is sampled from these probabilities, in 20,000 sentences."""
    logits = torch.tensor(probabilities).log()

    def step(token, state):
        return DecoderStep(logits.expand(len(token), -1), state, None)

    generator = torch.Generator().manual_seed(0)
    found = sample(
        step, torch.zeros(20_000, 1), 1, **options, generator=generator, **MARKS
    )
    # whatever they are sampled from, the log-probabilities are the model's
    torch.testing.assert_close(found.log_probs, logits[found.tokens[:, 0]])
    assert torch.equal(found.scores, found.log_probs)
    return torch.bincount(found.tokens[:, 0], minlength=len(probabilities)) / 20_000


P = [0.05, 0.1, 0.15, 0.3, 0.4]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, P),
        ({"temperature": 0.5}, [p**2 / sum(q**2 for q in P) for p in P]),
        (
            {"temperature": 3.0},
            [p ** (1 / 3) / sum(q ** (1 / 3) for q in P) for p in P],
        ),
        ({"top_k": 2}, [0, 0, 0, 3 / 7, 4 / 7]),
        ({"top_k": 99}, P),
        ({"top_p": 0.5}, [0, 0, 0, 3 / 7, 4 / 7]),  # the token that reaches 0.5 is kept
        ({"top_p": 0.3}, [0, 0, 0, 0, 1]),
        ({"top_p": 1.0}, P),
        ({"top_k": 3, "top_p": 0.8}, [0, 0, 0, 3 / 7, 4 / 7]),  # 0.7 of 0.85 is 0.82
        ({"temperature": 1e-3}, [0, 0, 0, 0, 1]),
        ({"temperature": 1e-40}, [0, 0, 0, 0, 1]),  # log p / 1e-40 is −∞ for all
        ({"temperature": 1e-300, "top_k": 2}, [0, 0, 0, 0, 1]),
        ({"temperature": 1e300}, [0.2] * 5),
    ],
)
def test_tokens_are_sampled_as_often_as_their_probability_says(options, expected):
    expected = torch.tensor(expected, dtype=torch.float32)
    found = frequencies(P, **options)
    assert (found[expected == 0] == 0).all()
    deviation = (expected * (1 - expected) / 20_000).sqrt()
    assert ((found - expected).abs() <= 4 * deviation + 1e-6).all()


@pytest.fixture
def kept(monkeypatch):
    """From probabilities to the tokens that sampling leaves possible."""
    possible = []

    def multinomial(probabilities, count, generator):
        possible[:] = (probabilities[0] > 0).nonzero().flatten().tolist()
        return probabilities.argmax(-1, keepdim=True)

    def kept(probabilities, **options):
        def step(token, state):
            return DecoderStep(probabilities.log()[None], state, None)

        sample(step, torch.zeros(1, 1), 1, **options, **MARKS)
        return list(possible)

    monkeypatch.setattr(torch.Tensor, "multinomial", multinomial)
    return kept


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "shares", [(5, 3, 1, 1), (7, 2, 1), (1, 2, 3, 4), (4, 3, 2, 1, 1, 1), (6, 3, 2, 2)]
)
def test_a_nucleus_is_the_smallest_set_that_has_its_probability(shares, dtype, kept):
    whole = sum(shares)
    probabilities = torch.tensor(shares, dtype=dtype) / whole
    for share in range(1, whole):
        found = kept(probabilities, top_p=share / whole)
        together = sum(shares[token] for token in found)
        assert together >= share > together - min(shares[token] for token in found)


def test_a_probability_of_one_keeps_the_least_probable_of_many_tokens(kept):
    logits = 4 * torch.randn(32_000, generator=torch.Generator().manual_seed(0))
    assert len(kept(logits.softmax(-1), top_p=1.0)) == 32_000


def test_at_the_lowest_temperature_each_sentence_has_its_most_probable_token():
    logits = torch.zeros(2, 400)  # log(1/400) / 1e-40 is −∞ …
    logits[0, 7], logits[1, 9] = 0.5, 8.0  # … and the best tokens are far apart

    def step(token, state):
        return DecoderStep(logits, state, None)

    found = sample(step, torch.zeros(2, 1), 1, temperature=1e-40, **MARKS)
    assert found.tokens.tolist() == [[7], [9]]


def test_an_impossible_token_stays_impossible_at_any_temperature():
    found = sample(two_tokens, torch.zeros(500, 1), 2, temperature=1e300, **MARKS)
    assert set(found.tokens[:, 0].tolist()) == {EOS, 3}


@given(models, lengths, st.integers(0, 10**6))
def test_samples_belong_to_the_model_and_repeat_with_the_seed(model, max_length, seed):
    found, again = (
        sample(
            model.step,
            model.start(),
            max_length,
            generator=torch.Generator().manual_seed(seed),
            **MARKS,
        )
        for _ in range(2)
    )
    assert torch.equal(found.tokens, again.tokens)
    for row in range(SENTENCES):
        assert_true_to_the_model(model, row, at(found, row))


@given(
    models,
    lengths,
    st.sampled_from([{"top_k": 1}, {"top_p": 1e-6}, {"temperature": 1e-6}]),
)
def test_sampling_from_the_most_probable_token_alone_is_greedy(
    model, max_length, options
):
    assert_same(
        sample(model.step, model.start(), max_length, **options, **MARKS),
        greedy(model.step, model.start(), max_length, **MARKS),
    )


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"temperature": 0.0}, ValueError, "temperature .* above 0, not 0.0"),
        ({"temperature": -1.0}, ValueError, "temperature .* above 0, not -1.0"),
        ({"temperature": math.inf}, ValueError, "temperature .* not inf"),
        ({"temperature": math.nan}, ValueError, "temperature .* not nan"),
        ({"temperature": "1"}, TypeError, "not supported between"),
        ({"temperature": None}, TypeError, "not supported between"),
        ({"top_k": 0}, ValueError, "top_k must be at least 1, not 0"),
        ({"top_k": 2.0}, TypeError, "top_k"),
        ({"top_k": True}, TypeError, "top_k"),
        ({"top_p": 0.0}, ValueError, "top_p .* not 0.0"),
        ({"top_p": 1.1}, ValueError, "top_p .* not 1.1"),
        ({"top_p": math.nan}, ValueError, "top_p .* not nan"),
    ],
)
def test_options_out_of_their_range_are_refused(options, error, message):
    with pytest.raises(error, match=message):
        sample(two_tokens, torch.zeros(1, 1), 3, **options, **MARKS)


# All searches


def narrow_beam(step, state, max_length, **marks):
    return beam_search(step, state, max_length, 2, **marks)


every_search = pytest.mark.parametrize("search", [greedy, sample, narrow_beam])


@every_search
@pytest.mark.parametrize(
    ("max_length", "error"),
    [
        (0, ValueError),
        (-3, ValueError),
        (math.inf, TypeError),
        (math.nan, TypeError),
        (1e15, TypeError),
        (2.5, TypeError),
        ("3", TypeError),
        (None, TypeError),
        (True, TypeError),
    ],
)
def test_a_maximum_length_that_is_no_length_is_refused_at_once(
    search, max_length, error
):
    def never_called(token, state):
        raise AssertionError

    with pytest.raises(error, match="max_length"):
        search(never_called, torch.zeros(1, 1), max_length, **MARKS)


@every_search
@pytest.mark.parametrize(
    ("state", "message"),
    [
        (None, "shapes are: none"),
        ((None, ()), "shapes are: none"),
        ((torch.zeros(0, 5),), r"shapes are: \(0, 5\)"),
    ],
)
def test_a_state_without_a_sentence_is_refused(search, state, message):
    with pytest.raises(ValueError, match=message):
        search(two_tokens, state, 3, **MARKS)


@every_search
def test_a_state_that_is_no_tuple_is_refused(search):
    with pytest.raises(TypeError, match="dict"):
        search(two_tokens, {"hidden": torch.zeros(2, 3)}, 3, **MARKS)


@every_search
@pytest.mark.parametrize("shape", [(3, 1, 4), (4,), (2, 4), (3, 4, 1)])
def test_logits_of_another_shape_are_refused(search, shape):
    def step(token, state):
        return DecoderStep(torch.zeros(shape), state, None)

    with pytest.raises(ValueError, match=rf"logits of 3 rows, not .*\({shape[0]},"):
        search(step, torch.zeros(3, 1), 5, **MARKS)


@every_search
@pytest.mark.parametrize("logit", [torch.nan, torch.inf, -torch.inf])
def test_sentences_without_probability_are_named(search, logit):
    def step(token, state):
        logits = torch.zeros(1, 4).expand(len(token), -1)
        return DecoderStep(logits.masked_fill(state[:, None] == 1, logit), state, None)

    with pytest.raises(
        FloatingPointError, match=r"sentences \[1, 3\] have no probability"
    ):
        search(step, torch.tensor([0, 1, 0, 1]), 3, **MARKS)


@every_search
def test_a_model_that_never_ends_stops_at_the_maximum_length(search):
    model = ToyModel(3, 5, ending=-math.inf)
    found = search(model.step, model.start(), 11, **MARKS)
    assert found.tokens.shape[-1] == 11
    assert (found.tokens != EOS).all()
    assert found.log_probs.isfinite().all()


@every_search
def test_a_model_that_ends_at_once_takes_one_step(search):
    inputs = []

    def step(token, state):
        inputs.append(token.tolist())
        logits = torch.tensor([[-99.0, -99.0, 99.0, -99.0]])
        return DecoderStep(logits.expand(len(token), -1), state, None)

    found = search(step, torch.zeros(3, 1), 50, **MARKS)
    assert found.tokens.flatten(1)[:, 0].tolist() == [EOS] * 3
    assert inputs[0] == [BOS] * 3
    assert len(inputs) == (2 if search is narrow_beam else 1)


@every_search
def test_no_gradient_is_kept(search):
    model = ToyModel(0, 5)
    model.output.requires_grad_()
    found = search(model.step, model.start(), 3, **MARKS)
    assert not found.log_probs.requires_grad
    assert not found.weights.requires_grad


@every_search
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_log_probabilities_are_summed_in_at_least_float32(search, dtype):
    logits = torch.tensor([3.0, 1.0, -20.0, 2.5])

    def step(token, state):
        return DecoderStep(logits.to(dtype).expand(len(token), -1), state, None)

    found = search(step, torch.zeros(1, 1), 9, **MARKS)
    expected = logits.log_softmax(-1)[found.tokens.flatten()[:9]].sum()
    assert found.log_probs.dtype == torch.float32
    assert found.log_probs.flatten()[0].item() == pytest.approx(
        expected.item(), rel=1e-5
    )


@every_search
def test_special_tokens_may_have_other_ids(search):
    inputs = []

    def step(token, state):
        inputs.append(token.tolist())
        logits = torch.full((len(token), 5), -99.0)
        logits[:, 4] = 0.0
        logits[(state[:, 0] == 0) | (token == 4), 4] = -99.0
        logits[(state[:, 0] == 0) | (token == 4), 0] = 0.0
        return DecoderStep(logits, state, torch.ones(len(token), 2))

    state = torch.tensor([[0], [1]])
    found = search(step, state, 5, bos=3, eos=0, pad=1)
    best = found.tokens[:, 0] if search is narrow_beam else found.tokens
    assert best[:, :2].tolist() == [[0, 1], [4, 0]]
    assert (best[:, 2:] == 1).all()
    assert inputs[0] == [3, 3]


NEXT = torch.eye(4)[[3, 3, 0, 2]]  # 1, 3, 2, 0, 3, 2, …


@every_search
@pytest.mark.parametrize(
    ("marks", "expected"),
    [
        ({"bos": 1, "eos": 2, "pad": 0}, [3, 2, 0, 0]),
        ({"bos": 1, "eos": 2}, [3, 2, 2, 2]),
        ({"bos": 0, "eos": 0, "pad": 3}, [3, 2, 0, 3]),
        ({"bos": 1, "pad": 1}, [3, 2, 0, 3]),
        ({"bos": 0}, [3, 2, 0, 3]),
    ],
)
def test_a_sentence_ends_with_eos_alone_and_is_padded(search, marks, expected):
    def step(token, state):
        endless = torch.eye(4)[1].expand(len(token), -1)
        return DecoderStep(
            torch.where(state == 1, endless, NEXT[token]).log(), state, None
        )

    found = search(step, torch.tensor([[0], [1]]), 4, **marks)
    best = found.tokens[:, 0] if search is narrow_beam else found.tokens
    assert best.tolist() == [expected, [1, 1, 1, 1]]


@every_search
def test_the_first_token_must_be_named(search):
    with pytest.raises(TypeError, match="bos"):
        search(two_tokens, torch.zeros(1, 1), 3)


@pytest.mark.usefixtures("unchecked")
@every_search
@pytest.mark.parametrize("name", ["bos", "eos", "pad"])
@pytest.mark.parametrize("wrong", ["2", 2.0, True])
def test_special_tokens_that_are_no_integers_are_refused(search, name, wrong):
    with pytest.raises(TypeError, match=f"{name} must be an integer, not {wrong!r}"):
        search(two_tokens, torch.zeros(1, 1), 3, **MARKS | {name: wrong})


@every_search
@pytest.mark.parametrize(
    ("state", "message"),
    [
        (torch.tensor(1.0), r"shapes are: \(\)"),
        ((torch.ones(2, 3), torch.tensor(1)), r"shapes are: \(2, 3\), \(\)"),
        ((torch.ones(2, 3), torch.ones(3, 3)), r"shapes are: \(2, 3\), \(3, 3\)"),
    ],
)
def test_a_state_without_a_common_batch_axis_is_refused(search, state, message):
    with pytest.raises(ValueError, match=message):
        search(two_tokens, state, 3, **MARKS)


@every_search
@pytest.mark.parametrize("shape", [(3,), (1, 7), (2, 1, 7)])
def test_weights_of_another_shape_are_refused(search, shape):
    def step(token, state):
        return DecoderStep(torch.zeros(len(token), 4), state, torch.ones(shape))

    with pytest.raises(ValueError, match=rf"weights of 2 rows, not .*\({shape[0]},"):
        search(step, torch.zeros(2, 1), 2, **MARKS)
