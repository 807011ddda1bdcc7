"""Beam search where many continuations are impossible, against a plain search in Python."""

import math
import random
import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from companion.decoding import DecoderStep, beam_search, greedy
from tests.decoding.toy_models import BOS, EOS, PAD, at
from tests.reference import searches, wu_2016
from tests.tiny import MARKS

SENTENCES, POSITIONS = 3, 4
MASK = torch.tensor([[True] * 4, [True, True, False, False], [True] * 3 + [False]])


class TableModel:
    """Random logits and weights for every prefix of every sentence, many logits −∞.

    The state holds the number of the sentence and the prefix itself. ``asked`` collects
    what the model was called with. For a prefix that is impossible or has ended, its
    logits are ``poison`` and its weights NaN.
    """

    def __init__(self, seed, vocabulary, impossible, poison=math.nan):
        self.seed, self.vocabulary = seed, vocabulary
        self.impossible, self.poison = impossible, poison
        self.asked, self.planted = [], {}

    def start(self, sentences=range(SENTENCES)):
        return (torch.tensor([[sentence] for sentence in sentences]),)

    def logits(self, sentence, prefix):
        if (sentence, prefix) in self.planted:
            return self.planted[sentence, prefix]
        generator = random.Random(f"{self.seed} {sentence} {prefix}")
        return [
            -math.inf if generator.random() < self.impossible else generator.gauss(0, 2)
            for _ in range(self.vocabulary)
        ]

    def log_probs(self, sentence, prefix):
        logits = self.logits(sentence, prefix)
        total = sum(math.exp(logit) for logit in logits)
        return [logit - math.log(total) if total > 0 else -math.inf for logit in logits]

    def weights(self, sentence, prefix):
        generator = random.Random(f"weights {self.seed} {sentence} {prefix}")
        numbers = [generator.random() + 0.01 for _ in range(POSITIONS)]
        return [number / sum(numbers) for number in numbers]

    def is_possible(self, sentence, prefix):
        return EOS not in prefix and all(
            self.log_probs(sentence, prefix[:t])[token] > -math.inf
            for t, token in enumerate(prefix)
        )

    def step(self, token, state):
        histories = torch.cat([state[0], token[:, None]], 1)
        logits, weights = [], []
        for sentence, begin, *prefix in histories.tolist():
            assert begin == BOS
            question = sentence, tuple(prefix)
            self.asked.append(question)
            possible = self.is_possible(*question)
            poison = [self.poison] * self.vocabulary
            logits.append(self.logits(*question) if possible else poison)
            weights.append(
                self.weights(*question) if possible else [math.nan] * POSITIONS
            )
        double = {"dtype": torch.float64}
        return DecoderStep(
            torch.tensor(logits, **double),
            (histories,),
            torch.tensor(weights, **double),
        )


def score(model, sentence, tokens, log_prob, length_penalty, coverage_penalty):
    visible = MASK[sentence].tolist()
    weights = [
        [
            w
            for w, m in zip(model.weights(sentence, tokens[:t]), visible, strict=True)
            if m
        ]
        for t in range(len(tokens))
    ]
    return wu_2016.score(log_prob, weights, length_penalty, coverage_penalty)


def plain_beam(model, sentence, max_length, width, *penalties):
    """The ``width`` best possible sentences that a beam search finds, with log p and score."""
    live, found = [((), 0.0)], []
    for _ in range(max_length):
        candidates = [
            ((*prefix, token), log_prob + more)
            for prefix, log_prob in live
            for token, more in enumerate(model.log_probs(sentence, prefix))
            if more > -math.inf
        ]
        candidates.sort(key=lambda pair: -pair[1])
        found += [pair for pair in candidates[:width] if pair[0][-1] == EOS]
        live = [pair for pair in candidates if pair[0][-1] != EOS][:width]
    scored = [
        (tokens, log_prob, score(model, sentence, tokens, log_prob, *penalties))
        for tokens, log_prob in found + live
    ]
    return sorted(scored, key=lambda triple: -triple[2])[:width]


def assert_found(found, expected):
    """What was found for a sentence is what is expected, and nothing else is possible."""
    for rank, (tokens, log_prob, score) in enumerate(expected):
        padding = [PAD] * (found.tokens.shape[1] - len(tokens))
        assert found.tokens[rank].tolist() == [*tokens, *padding]
        assert found.log_probs[rank].item() == pytest.approx(log_prob, abs=1e-9)
        assert found.scores[rank].item() == pytest.approx(score, abs=1e-9)
    assert (found.log_probs[len(expected) :] == -torch.inf).all()
    assert (found.scores[len(expected) :] == -torch.inf).all()
    assert (found.tokens[len(expected) :] == PAD).all()
    assert found.weights.isfinite().all()


def found_or_named(search, *arguments):
    """What a search finds, or the rows that its error names."""
    try:
        return search(*arguments, **MARKS)
    except FloatingPointError as error:
        rows = re.search(r"the sentences \[([\d, ]+)\] have no probability", str(error))
        return [int(row) for row in rows[1].split(",")]


seeds = st.integers(0, 10**6)
tables = st.builds(
    TableModel,
    seeds,
    st.integers(3, 5),
    st.sampled_from([0.2, 0.4, 0.6]),
    st.sampled_from([math.nan, math.inf, -math.inf, 0.0]),
)
penalty_pairs = st.sampled_from([(0.0, 0.0), (0.7, 0.0), (0.0, 0.3), (1.0, 2.0)])


@given(tables, st.integers(1, 5), st.integers(1, 5), penalty_pairs)
def test_what_a_plain_search_finds_is_found_and_the_other_sentences_are_named(
    model, max_length, width, penalties
):
    expected = [
        plain_beam(model, sentence, max_length, width, *penalties)
        for sentence in range(SENTENCES)
    ]
    solvable = [row for row in range(SENTENCES) if expected[row]]
    lost = [row for row in range(SENTENCES) if not expected[row]]
    arguments = max_length, width, *penalties
    if lost:
        rows = found_or_named(beam_search, model.step, model.start(), *arguments, MASK)
        assert rows == lost
    if solvable:
        found = beam_search(
            model.step, model.start(solvable), *arguments, MASK[solvable], **MARKS
        )
        for row, sentence in enumerate(solvable):
            assert_found(at(found, row), expected[sentence])
    assert all(model.is_possible(*question) for question in model.asked)


@given(seeds, st.integers(3, 4), st.integers(1, 3), penalty_pairs)
def test_a_beam_as_wide_as_the_space_finds_every_possible_sentence(
    seed, vocabulary, max_length, penalties
):
    model = TableModel(seed, vocabulary, 0.4)
    space = list(searches.all_sentences(vocabulary, max_length))
    for sentence in range(SENTENCES):
        expected = []
        for tokens in space:
            log_prob = sum(
                model.log_probs(sentence, tokens[:t])[token]
                for t, token in enumerate(tokens)
            )
            if log_prob > -math.inf:
                value = score(model, sentence, tokens, log_prob, *penalties)
                expected.append((tokens, log_prob, value))
        if not expected:
            continue
        expected.sort(key=lambda triple: -triple[2])
        found = beam_search(
            model.step,
            model.start([sentence]),
            max_length,
            len(space),
            *penalties,
            MASK[[sentence]],
            **MARKS,
        )
        assert_found(at(found, 0), expected)


@given(tables, st.integers(1, 4), st.integers(1, 4), penalty_pairs, st.data())
def test_logits_that_are_no_number_are_an_error_of_the_sentence_asked_for_alone(
    model, max_length, width, penalties, data
):
    """NaN or +∞ at a random prefix of sentence 0: an error if and only if it was asked."""
    arguments = max_length, width, *penalties, MASK
    before = found_or_named(beam_search, model.step, model.start(), *arguments)
    if isinstance(before, list):
        return
    token = st.integers(0, model.vocabulary - 1).filter(lambda token: token != EOS)
    prefix = tuple(data.draw(st.lists(token, max_size=max_length - 1)))
    bad = data.draw(st.sampled_from([math.nan, math.inf]))
    if not model.is_possible(0, prefix):
        return
    rest = model.logits(0, prefix)
    model.planted[0, prefix] = [*rest[:-1], bad]
    model.is_possible = lambda sentence, tokens: True  # it cannot be told any more
    model.asked.clear()
    after = found_or_named(beam_search, model.step, model.start(), *arguments)
    if (0, prefix) in model.asked:
        assert after == [0]
    else:
        assert torch.equal(before.tokens, after.tokens)


@given(tables, st.integers(1, 5))
def test_width_1_dies_where_greedy_search_does_and_finds_what_it_finds(
    model, max_length
):
    for sentence in range(SENTENCES):
        arguments = model.step, model.start([sentence]), max_length
        one = found_or_named(beam_search, *arguments, 1)
        best = found_or_named(greedy, *arguments)
        if isinstance(best, list):
            assert one == best == [0]
        else:
            assert torch.equal(one.tokens[:, 0], best.tokens)
            torch.testing.assert_close(one.log_probs[:, 0], best.log_probs)


def from_table(following):
    """A step with the given distributions after each token; all others are impossible."""
    table = torch.zeros(6, 6)
    for token, probabilities in following.items():
        for next_token, probability in probabilities.items():
            table[token, next_token] = probability

    def step(token, state):
        return DecoderStep(table[token].log(), state, None)

    return step


def test_the_best_prefix_may_be_a_dead_end():
    step = from_table({BOS: {3: 0.9, 4: 0.1}, 4: {EOS: 1.0}})  # nothing follows 3
    found = beam_search(step, torch.zeros(1, 1), 4, 2, **MARKS)
    assert found.tokens.tolist() == [[[4, EOS], [PAD, PAD]]]
    assert found.log_probs[0].exp().tolist() == pytest.approx([0.1, 0.0])


def test_a_sentence_that_has_ended_survives_the_death_of_all_others():
    step = from_table({BOS: {3: 0.6, EOS: 0.4}, 3: {4: 1.0}})  # nothing follows 4
    found = beam_search(step, torch.zeros(1, 1), 4, 3, **MARKS)
    assert found.tokens.tolist() == [[[EOS], [PAD], [PAD]]]


def test_a_beam_whose_hypotheses_all_die_is_an_error_of_its_sentence():
    good = from_table({BOS: {3: 0.9, 4: 0.1}, 3: {EOS: 1.0}, 4: {EOS: 1.0}})
    dead = from_table({BOS: {3: 0.9, 4: 0.1}})

    def step(token, state):
        logits = torch.where(
            state[0] == 1, dead(token, ()).logits, good(token, ()).logits
        )
        return DecoderStep(logits, state, None)

    state = (torch.tensor([[0], [1], [0]]),)
    with pytest.raises(FloatingPointError, match=r"sentences \[1\] have no"):
        beam_search(step, state, 4, 2, **MARKS)


def test_weights_that_are_no_number_are_an_error_where_coverage_needs_them():
    def step(token, state):
        weights = torch.tensor([[0.5, 0.5]]).expand(len(token), -1)
        weights = weights.masked_fill(state == 1, torch.nan)
        logits = torch.zeros(len(token), 4)
        return DecoderStep(logits, state, weights)

    state = torch.tensor([[0], [1]])
    assert beam_search(step, state, 3, 2, **MARKS).log_probs.isfinite().all()
    with pytest.raises(FloatingPointError, match=r"sentences \[1\] have no"):
        beam_search(step, state, 3, 2, coverage_penalty=0.1, **MARKS)
