"""Beam search over small random models, against plain searches over one sentence."""

import math

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from companion.decoding import DecoderStep, beam_search, greedy
from tests.decoding.toy_models import (
    BOS,
    EOS,
    KEYS,
    PAD,
    SENTENCES,
    ToyModel,
    assert_same,
    assert_true_to_the_model,
    at,
    fixed_probabilities,
    length_of,
    lengths,
    models,
    penalties,
    two_tokens,
    widths,
)
from tests.reference import searches, wu_2016
from tests.tiny import MARKS


@given(models, lengths, widths, penalties)
@example(ToyModel(0, 3), 5, 6, 0.0)
@example(ToyModel(0, 3), 1, 6, 0.0)  # wider than there are sentences
@example(ToyModel(0, 3, ending=-math.inf), 2, 6, 1.0)
def test_beam_search_finds_what_a_plain_one_finds(model, max_length, width, penalty):
    found = beam_search(model.step, model.start(), max_length, width, penalty, **MARKS)
    assert found.log_probs.shape == (SENTENCES, width)
    for row in range(SENTENCES):
        expected = [
            (sentence, log_prob)
            for sentence, log_prob in searches.beam(
                model.next_log_probs(row), max_length, width, penalty
            )
            if log_prob > -math.inf
        ]
        for rank, (sentence, log_prob) in enumerate(expected):
            tokens = found.tokens[row, rank]
            assert tokens[: length_of(tokens)].tolist() == list(sentence)
            assert found.log_probs[row, rank].item() == pytest.approx(
                log_prob, abs=1e-9
            )
        impossible = at(found, row, slice(len(expected), None))
        assert (impossible.log_probs == -torch.inf).all()
        assert (impossible.scores == -torch.inf).all()
        assert (impossible.tokens == PAD).all()
        assert (impossible.weights == 0).all()


@given(models, lengths, widths, penalties)
def test_tokens_log_probs_and_weights_belong_together(
    model, max_length, width, penalty
):
    found = beam_search(model.step, model.start(), max_length, width, penalty, **MARKS)
    for row, rank in torch.argwhere(found.log_probs > -torch.inf).tolist():
        assert_true_to_the_model(model, row, at(found, row, rank))


@given(models, lengths, widths, penalties)
def test_sentences_are_distinct_and_ranked_by_their_score(
    model, max_length, width, penalty
):
    found = beam_search(model.step, model.start(), max_length, width, penalty, **MARKS)
    for row in range(SENTENCES):
        possible = found.log_probs[row] > -torch.inf
        tokens = [tuple(sentence) for sentence in found.tokens[row, possible].tolist()]
        assert len(tokens) == len(set(tokens)) > 0
        expected = [
            log_prob / wu_2016.length_penalty(length_of(sentence), penalty)
            for sentence, log_prob in zip(
                found.tokens[row, possible],
                found.log_probs[row, possible].tolist(),
                strict=True,
            )
        ]
        assert found.scores[row, possible].tolist() == pytest.approx(expected)
        assert expected == sorted(expected, reverse=True)


@given(models, lengths, widths, penalties)
def test_beam_search_of_a_batch_is_that_of_each_sentence_alone(
    model, max_length, width, penalty
):
    together = beam_search(
        model.step, model.start(), max_length, width, penalty, **MARKS
    )
    for row in range(SENTENCES):
        alone = beam_search(
            model.step, model.start(row), max_length, width, penalty, **MARKS
        )
        assert_same(at(together, slice(row, row + 1)), alone)


@given(models, lengths)
def test_a_beam_of_one_is_greedy(model, max_length):
    one = beam_search(model.step, model.start(), max_length, 1, **MARKS)
    assert_same(
        greedy(model.step, model.start(), max_length, **MARKS), at(one, slice(None), 0)
    )


@given(
    st.integers(0, 10**6),
    st.integers(3, 4),
    st.integers(1, 3),
    st.integers(0, 5),
    penalties,
)
def test_a_beam_as_wide_as_the_space_is_exhaustive(
    seed, vocabulary, max_length, more, penalty
):
    model = ToyModel(seed, vocabulary)
    space = len(list(searches.all_sentences(vocabulary, max_length)))
    found = beam_search(
        model.step, model.start(), max_length, space + more, penalty, **MARKS
    )
    for row in range(SENTENCES):
        expected = searches.exhaustive(
            lambda sentence, row=row: sum(model.retrace(row, sentence)[0]),
            vocabulary,
            max_length,
            penalty,
        )
        for rank, (sentence, log_prob) in enumerate(expected):
            tokens = found.tokens[row, rank].tolist()
            padding = [PAD] * (len(tokens) - len(sentence))
            assert tokens == [*sentence, *padding]
            assert found.log_probs[row, rank].item() == pytest.approx(
                log_prob, abs=1e-9
            )
        assert (found.log_probs[row, space:] == -torch.inf).all()


@pytest.mark.parametrize(
    ("penalty", "best", "log_prob"),
    [
        # 0.4 against 0.3, 0.15 and 0.15
        (0.0, [EOS, PAD, PAD], math.log(0.4)),
        # −0.916 / 1 against −1.204 / (7/6) = −1.032
        (1.0, [EOS, PAD, PAD], math.log(0.4)),
        # −0.916 / 1 against −1.204 / (7/6)² = −0.885
        (2.0, [3, EOS, PAD], math.log(0.3)),
        # −0.557 for two tokens, −1.897 / (8/6)⁵ = −0.450 for three
        (5.0, [3, 3, EOS], math.log(0.15)),
    ],
)
def test_the_length_penalty_is_that_of_gnmt(penalty, best, log_prob):
    found = beam_search(two_tokens, torch.zeros(1, 1), 3, 4, penalty, **MARKS)
    assert found.tokens[0, 0].tolist() == best
    assert found.log_probs[0, 0].item() == pytest.approx(log_prob, abs=1e-6)
    assert found.scores[0, 0].item() == pytest.approx(
        log_prob / wu_2016.length_penalty(best.index(EOS) + 1, penalty), abs=1e-6
    )
    assert found.weights is None


def test_an_end_that_is_not_among_the_best_is_dropped():
    step = fixed_probabilities([0.0, 0.0, 0.4, 0.6], [0.0, 0.0, 0.6, 0.4])
    found = beam_search(step, torch.zeros(1, 1), 3, 1, **MARKS)
    assert found.tokens.tolist() == [[[3, EOS]]]  # 0.36, not 0.4: as greedy search


def test_a_longer_sentence_may_overtake_with_a_length_penalty():
    step = fixed_probabilities([0.0, 0.0, 0.6, 0.4], [0.0, 0.0, 1.0, 0.0])
    found = beam_search(step, torch.zeros(1, 1), 3, 1, length_penalty=5.0, **MARKS)
    assert found.tokens.tolist() == [[[3, EOS]]]  # −0.92 / (7/6)⁵ = −0.42 against −0.51


def test_positions_that_every_sentence_pads_are_left_out():
    step = fixed_probabilities([0.0, 0.0, 0.6, 0.4], [0.2, 0.2, 0.4, 0.2])
    found = beam_search(step, torch.zeros(1, 1), 3, 1, length_penalty=5.0, **MARKS)
    assert found.tokens.tolist() == [[[EOS]]]  # longer hypotheses were tried


def test_the_search_ends_as_soon_as_nothing_can_overtake():
    calls = []

    def step(token, state):
        calls.append(token)
        return two_tokens(token, state)

    beam_search(step, torch.zeros(1, 1), 50, 2, **MARKS)
    assert len(calls) == 2  # 0.4 and 0.3 are found, 0.3 could go on


def test_a_sentence_whose_search_has_ended_is_no_longer_computed():
    rows = []

    def step(token, state):
        (ends,) = state
        rows.append(ends.flatten().tolist())
        probabilities = torch.where(
            ends == 1,
            torch.tensor([0.0, 0.0, 1.0, 0.0]),
            torch.tensor([0.0, 0.0, 0.0, 1.0]),
        )
        return DecoderStep(probabilities.log(), state, None)

    found = beam_search(step, (torch.tensor([[0], [1], [0]]),), 3, 1, **MARKS)
    assert found.tokens[:, 0].tolist() == [[3, 3, 3], [EOS, PAD, PAD], [3, 3, 3]]
    assert rows == [[0, 1, 0], [0, 0], [0, 0]]


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"width": 0}, ValueError, "width must be at least 1, not 0"),
        ({"width": -1}, ValueError, "width must be at least 1, not -1"),
        ({"width": 2.0}, TypeError, "width"),
        ({"width": "3"}, TypeError, "width"),
        ({"length_penalty": -0.5}, ValueError, "length_penalty .* not -0.5"),
        ({"length_penalty": math.inf}, ValueError, "length_penalty .* not inf"),
        ({"length_penalty": math.nan}, ValueError, "length_penalty .* not nan"),
        ({"length_penalty": None}, TypeError, "NoneType"),
        ({"coverage_penalty": -0.5}, ValueError, "coverage_penalty .* not -0.5"),
        ({"coverage_penalty": math.inf}, ValueError, "coverage_penalty .* not inf"),
        ({"coverage_penalty": math.nan}, ValueError, "coverage_penalty .* not nan"),
        ({"coverage_penalty": "1"}, TypeError, "str"),
        ({"length_penalty": 300.0}, ValueError, "length_penalty=300.0 .* vanish"),
        ({"coverage_penalty": 1e38}, ValueError, "coverage_penalty=1e[+]38.* overflow"),
    ],
)
def test_arguments_out_of_their_range_are_refused(arguments, error, message):
    model = ToyModel(0, 5)
    valid = {"state": model.start(), "max_length": 3, "width": 2}
    with pytest.raises(error, match=message):
        beam_search(model.step, **(valid | arguments), **MARKS)


def test_coverage_needs_a_model_with_attention():
    with pytest.raises(ValueError, match="needs attention weights"):
        beam_search(two_tokens, torch.zeros(1, 1), 3, 2, coverage_penalty=0.2, **MARKS)


# Coverage
@given(
    st.integers(0, 10**6),
    st.integers(3, 4),
    st.integers(1, 3),
    penalties,
    st.sampled_from([0.2, 3.0]),
)
def test_with_coverage_a_beam_as_wide_as_the_space_is_exhaustive(
    seed, vocabulary, max_length, length, coverage
):
    model = ToyModel(seed, vocabulary)
    mask = torch.arange(KEYS) < torch.tensor([[KEYS], [4], [1]])
    everything = list(searches.all_sentences(vocabulary, max_length))
    found = beam_search(
        model.step,
        model.start(),
        max_length,
        len(everything),
        length,
        coverage,
        mask,
        **MARKS,
    )
    for row in range(SENTENCES):
        scores = {}
        for sentence in everything:
            log_probs, weights = model.retrace(row, sentence)
            visible = weights[:, mask[row]].tolist()
            scores[sentence] = wu_2016.score(sum(log_probs), visible, length, coverage)
        expected = sorted(scores, key=scores.get, reverse=True)
        assert [
            tuple(t[: length_of(t)].tolist()) for t in found.tokens[row]
        ] == expected
        assert found.scores[row].tolist() == pytest.approx(
            [scores[sentence] for sentence in expected]
        )


def test_coverage_prefers_the_sentence_that_attends_to_every_position():
    """After ``<bos>`` and 3 the model attends to position 0, after 4 to position 1."""

    def step(token, state):
        probabilities = torch.tensor([[0.0, 0.0, 1.0, 0.0, 0.0]]).repeat(len(token), 1)
        probabilities[token == BOS] = torch.tensor([0.0, 0.0, 0.0, 0.6, 0.4])
        weights = torch.where(
            (token == 4)[:, None],
            torch.tensor([0.0, 1.0, 0.0]),
            torch.tensor([1.0, 0.0, 0.0]),
        )
        return DecoderStep(probabilities.log(), state, weights)

    mask = torch.tensor([[True, True, False]])
    without = beam_search(step, torch.zeros(1, 1), 3, 2, **MARKS)
    covering = beam_search(
        step, torch.zeros(1, 1), 3, 2, coverage_penalty=0.1, mask=mask, **MARKS
    )
    assert without.tokens[0].tolist() == [[3, EOS], [4, EOS]]
    assert covering.tokens[0].tolist() == [[4, EOS], [3, EOS]]
    torch.testing.assert_close(covering.log_probs, without.log_probs.flip(1))


def test_coverage_is_summed_in_at_least_32_bits():
    """A weight of 1/2 is followed by 59 of 0.0015, none of which would change a bfloat16 sum."""

    def step(token, state):
        (generated,) = state
        first = torch.tensor([0.0, 0.0, 0.6, 0.4]).expand(len(token), -1)
        ends = (generated == 59)[:, None]
        later = torch.where(
            ends, torch.tensor([0.0, 0.0, 1.0, 0.0]), torch.tensor([0.0, 0.0, 0.0, 1.0])
        )
        begins = (token == BOS)[:, None]
        weights = torch.where(begins, 0.5, 0.0015).bfloat16()
        return DecoderStep(
            torch.where(begins, first, later).log(), (generated + 1,), weights
        )

    found = beam_search(step, (torch.zeros(1),), 70, 2, coverage_penalty=10.0, **MARKS)
    assert [length_of(sentence) for sentence in found.tokens[0]] == [60, 1]


def test_coverage_stops_early_only_if_padding_is_masked():
    """If padding counts as source tokens, no sentence covers everything, and the search goes on."""
    calls = []

    def step(token, state):
        calls.append(1)
        weights = torch.tensor([[0.5, 0.5, 0.0]]).expand(len(token), -1)
        return DecoderStep(two_tokens(token, state).logits, state, weights)

    def search(mask):
        calls.clear()
        return beam_search(
            step, torch.zeros(1, 1), 20, 2, 0.0, 0.01, mask, **MARKS
        ), len(calls)

    masked, few_steps = search(torch.tensor([[True, True, False]]))
    unmasked, many_steps = search(None)
    assert torch.equal(masked.tokens, unmasked.tokens)
    assert few_steps < many_steps


# The state


def test_what_a_model_leaves_untouched_is_not_copied():
    memories = []

    def step(token, state):
        hidden, memory = state
        memories.append(memory)
        logits = torch.randn(len(token), 5, generator=generator)
        logits[:, EOS] = -99
        return DecoderStep(logits, (hidden + 1, memory), None)

    generator = torch.Generator().manual_seed(0)
    source = torch.rand(3, 4)
    beam_search(step, (torch.zeros(3, 2), source), 6, 2, **MARKS)
    first, second, *later = memories
    assert first is source
    assert torch.equal(second, source.repeat_interleave(2, 0))
    assert len(later) > 1
    assert all(memory is second for memory in later)


def test_what_changed_once_is_reordered_from_then_on():
    """A state that the first token changes, and that later steps return as it was."""

    def step(token, state):
        (first,) = state
        if (token == BOS).all():
            logits = torch.tensor([[-torch.inf, -torch.inf, -9.0, 1.0, 1.1]])
            return DecoderStep(logits.expand(len(token), -1), state, None)
        first = torch.where(first == 0, token, first) if (first == 0).any() else first
        # after 3 the sentence ends, after 4 it goes on
        ending = torch.where(first == 3, 5.0, -5.0)
        logits = torch.tensor([[-torch.inf, -torch.inf, 0.0, 0.0, 0.0]]).repeat(
            len(token), 1
        )
        logits[:, EOS] = ending
        return DecoderStep(logits, (first,), None)

    found = beam_search(step, (torch.zeros(1, dtype=torch.long),), 4, 3, **MARKS)
    for rank in range(3):
        tokens = found.tokens[0, rank, : length_of(found.tokens[0, rank])].tolist()
        state, before, total = (torch.zeros(1, dtype=torch.long),), BOS, 0.0
        for token in tokens:
            logits, state, _ = step(torch.tensor([before]), state)
            total += logits.log_softmax(-1)[0, token].item()
            before = token
        assert found.log_probs[0, rank].item() == pytest.approx(total, abs=1e-5)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("shape", [(7,), (2, 7), (3, 6)])
def test_the_mask_of_a_coverage_penalty_has_the_shape_of_the_source(shape):
    model = ToyModel(0, 5)
    arguments = model.step, model.start(), 3, 2
    mask = torch.ones(shape, dtype=torch.bool)
    with pytest.raises(ValueError, match=r"shape of \(3, 7\), not \("):
        beam_search(*arguments, coverage_penalty=0.5, mask=mask, **MARKS)
