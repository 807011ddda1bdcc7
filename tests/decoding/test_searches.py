"""Searches over random tiny models, against plain searches over one sentence at a time."""

import math

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from companion.decoding import DecoderStep, beam_search, greedy, sample
from tests.reference import searches, wu_2016

PAD, BOS, EOS = 0, 1, 2
KEYS = 7
few = settings(deadline=None, max_examples=40, derandomize=True)


class TinyModel:
    """A recurrence over random vectors. Where it looks tells its whole past, so that a mix-up shows.

    ``ending`` is added to the score of ``<eos>``.
    """

    def __init__(self, seed, vocabulary, ending=0.0):
        generator = torch.Generator().manual_seed(seed)

        def draw(*shape):
            return torch.randn(*shape, generator=generator, dtype=torch.float64)

        self.vocabulary, self.ending = vocabulary, ending
        self.words, self.turn, self.out, self.look = (
            draw(vocabulary, 5),
            draw(5, 5),
            draw(5, vocabulary),
            draw(5, KEYS),
        )
        self.sentences = draw(3, 5)

    def step(self, token, state):
        (hidden,) = state
        hidden = torch.tanh(hidden @ self.turn + self.words[token])
        logits = 2 * hidden @ self.out
        logits[:, EOS] += self.ending
        return DecoderStep(logits, (hidden,), (hidden @ self.look).softmax(-1))

    def start(self, row=None):
        return (self.sentences if row is None else self.sentences[row : row + 1],)

    def retrace(self, row, tokens):
        """log p of the tokens, a number each, and where each step looked, one step after another."""
        state, before, log_probs, weights = self.start(row), BOS, [], []
        for token in tokens:
            logits, state, looked = self.step(torch.tensor([before]), state)
            log_probs.append(logits.log_softmax(-1)[0, token].item())
            weights.append(looked[0])
            before = token
        return log_probs, torch.stack(weights)

    def next_log_probs(self, row):
        def next_log_probs(beginning):
            state, before = self.start(row), BOS
            for token in (*beginning, None):
                logits, state, _ = self.step(torch.tensor([before]), state)
                before = token
            return logits.log_softmax(-1)[0].tolist()

        return next_log_probs


models = st.builds(
    TinyModel,
    st.integers(0, 10**6),
    st.integers(3, 7),
    st.sampled_from([-math.inf, -2.0, 0.0, 2.0]),
)
lengths = st.integers(1, 5)
widths = st.integers(1, 6)
penalties = st.sampled_from([0.0, 0.6, 1.0, 2.5])


def length_of(tokens):
    """The number of words, ``<eos>`` included."""
    tokens = tokens.tolist()
    return tokens.index(EOS) + 1 if EOS in tokens else len(tokens)


def assert_same(found, expected):
    """A sentence in a batch, which may leave more places empty, and the same sentence alone."""
    places = expected.tokens.shape[-1]
    assert torch.equal(found.tokens[..., :places], expected.tokens)
    assert (found.tokens[..., places:] == PAD).all()
    torch.testing.assert_close(found.log_probs, expected.log_probs, atol=1e-10, rtol=0)
    torch.testing.assert_close(
        found.weights[..., :places, :], expected.weights, atol=1e-10, rtol=0
    )
    assert (found.weights[..., places:, :] == 0).all()


def assert_true_to_the_model(model, row, tokens, log_prob, weights):
    """Log-probability and weights are those of these very tokens; after ``<eos>`` comes nothing."""
    length = length_of(tokens)
    log_probs, looked = model.retrace(row, tokens[:length].tolist())
    assert log_prob.item() == pytest.approx(sum(log_probs), abs=1e-9)
    torch.testing.assert_close(weights[:length], looked, atol=1e-10, rtol=0)
    assert (tokens[length:] == PAD).all()
    assert (weights[length:] == 0).all()


# Greedy


@few
@given(models, lengths)
def test_greedy_takes_the_best_word_until_the_end(model, max_length):
    found = greedy(model.step, model.start(), max_length)
    assert found.tokens.shape[1] == max(map(length_of, found.tokens))
    for row in range(3):
        expected = []
        while len(expected) < max_length and EOS not in expected:
            log_probs = model.next_log_probs(row)(expected)
            expected.append(log_probs.index(max(log_probs)))
        assert found.tokens[row, : len(expected)].tolist() == expected
        assert_true_to_the_model(
            model, row, found.tokens[row], found.log_probs[row], found.weights[row]
        )


@few
@given(models, lengths)
def test_greedy_of_a_batch_is_each_sentence_alone(model, max_length):
    together = greedy(model.step, model.start(), max_length)
    for row in range(3):
        alone = greedy(model.step, model.start(row), max_length)
        one = type(together)(*(part[row : row + 1] for part in together))
        assert_same(one, alone)


# Beam search


@few
@given(models, lengths, widths, penalties)
@example(TinyModel(0, 3), 5, 6, 0.0)
@example(TinyModel(0, 3), 1, 6, 0.0)  # more places than there are sentences
@example(TinyModel(0, 3, ending=-math.inf), 2, 6, 1.0)
def test_beam_search_finds_what_a_plain_one_finds(model, max_length, width, penalty):
    found = beam_search(model.step, model.start(), max_length, width, penalty)
    assert found.log_probs.shape == (3, width)
    for row in range(3):
        expected = [
            (sentence, log_prob)
            for sentence, log_prob in searches.beam(
                model.next_log_probs(row), max_length, width, penalty
            )
            if log_prob > -math.inf
        ]
        for place, (sentence, log_prob) in enumerate(expected):
            length = length_of(found.tokens[row, place])
            assert found.tokens[row, place, : len(sentence)].tolist() == list(sentence)
            assert length == len(sentence)
            assert found.log_probs[row, place].item() == pytest.approx(
                log_prob, abs=1e-9
            )
        assert (found.log_probs[row, len(expected) :] == -torch.inf).all()
        assert (found.tokens[row, len(expected) :] == PAD).all()
        assert (found.weights[row, len(expected) :] == 0).all()


@few
@given(models, lengths, widths, penalties)
def test_tokens_log_probs_and_weights_belong_together(
    model, max_length, width, penalty
):
    found = beam_search(model.step, model.start(), max_length, width, penalty)
    for row, place in torch.argwhere(found.log_probs > -torch.inf).tolist():
        assert_true_to_the_model(model, row, *(part[row, place] for part in found))


@few
@given(models, lengths, widths, penalties)
def test_sentences_are_distinct_and_the_best_stands_first(
    model, max_length, width, penalty
):
    found = beam_search(model.step, model.start(), max_length, width, penalty)
    for row in range(3):
        possible = found.log_probs[row] > -torch.inf
        tokens = [tuple(sentence) for sentence in found.tokens[row, possible].tolist()]
        assert len(tokens) == len(set(tokens)) > 0
        scores = [
            log_prob / ((5 + length_of(sentence)) / 6) ** penalty
            for sentence, log_prob in zip(
                found.tokens[row, possible],
                found.log_probs[row, possible].tolist(),
                strict=True,
            )
        ]
        assert scores == sorted(scores, reverse=True)


@few
@given(models, lengths, widths, penalties)
def test_beam_search_of_a_batch_is_each_sentence_alone(
    model, max_length, width, penalty
):
    together = beam_search(model.step, model.start(), max_length, width, penalty)
    for row in range(3):
        alone = beam_search(model.step, model.start(row), max_length, width, penalty)
        assert_same(type(together)(*(part[row : row + 1] for part in together)), alone)


@few
@given(models, lengths)
def test_a_beam_of_one_is_greedy(model, max_length):
    one = beam_search(model.step, model.start(), max_length, 1)
    assert_same(
        greedy(model.step, model.start(), max_length),
        type(one)(*(part.squeeze(1) for part in one)),
    )


@settings(deadline=None, max_examples=15, derandomize=True)
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
    model = TinyModel(seed, vocabulary)
    space = len(list(searches.all_sentences(vocabulary, max_length)))
    found = beam_search(model.step, model.start(), max_length, space + more, penalty)
    for row in range(3):
        expected = searches.exhaustive(
            lambda sentence, row=row: sum(model.retrace(row, sentence)[0]),
            vocabulary,
            max_length,
            penalty,
        )
        for place, (sentence, log_prob) in enumerate(expected):
            assert tuple(found.tokens[row, place, : len(sentence)].tolist()) == sentence
            assert (found.tokens[row, place, len(sentence) :] == PAD).all()
            assert found.log_probs[row, place].item() == pytest.approx(
                log_prob, abs=1e-9
            )
        assert (found.log_probs[row, space:] == -torch.inf).all()


def choosing(first, later):
    """The probabilities of the words after ``<bos>``, and after any other word."""

    def step(token, state):
        probabilities = torch.where(
            token[:, None] == BOS, torch.tensor(first), torch.tensor(later)
        )
        return DecoderStep(probabilities.log(), state, None)

    return step


by_hand = choosing([0.0, 0.0, 0.4, 0.6], [0.0, 0.0, 0.5, 0.5])


@pytest.mark.parametrize(
    ("penalty", "best", "log_prob"),
    [
        (0.0, [EOS, PAD, PAD], math.log(0.4)),  # 0.4 against 0.3, 0.15 and 0.15
        (
            1.0,
            [EOS, PAD, PAD],
            math.log(0.4),
        ),  # −0.916 / 1 against −1.204 / (7/6) = −1.032
        (
            2.0,
            [3, EOS, PAD],
            math.log(0.3),
        ),  # −0.916 / 1 against −1.204 / (7/6)² = −0.885
        (
            5.0,
            [3, 3, EOS],
            math.log(0.15),
        ),  # −0.557 for two words, −1.897 / (8/6)⁵ = −0.450 for three
    ],
)
def test_the_length_penalty_is_gnmts(penalty, best, log_prob):
    found = beam_search(by_hand, torch.zeros(1, 1), 3, 4, penalty)
    assert found.tokens[0, 0].tolist() == best
    assert found.log_probs[0, 0].item() == pytest.approx(log_prob, abs=1e-6)
    assert found.weights is None


def test_an_end_that_is_not_among_the_best_is_none():
    step = choosing([0.0, 0.0, 0.4, 0.6], [0.0, 0.0, 0.6, 0.4])
    found = beam_search(step, torch.zeros(1, 1), 3, 1)
    assert found.tokens.tolist() == [
        [[3, EOS]]
    ]  # 0.36, although 0.4 was to be had: as greedy search


def test_a_longer_sentence_may_overtake_with_a_length_penalty():
    step = choosing([0.0, 0.0, 0.6, 0.4], [0.0, 0.0, 1.0, 0.0])
    found = beam_search(step, torch.zeros(1, 1), 3, 1, length_penalty=5.0)
    assert found.tokens.tolist() == [[[3, EOS]]]  # −0.92 / (7/6)⁵ = −0.42 against −0.51


def test_places_that_every_sentence_leaves_empty_are_left_out():
    step = choosing([0.0, 0.0, 0.6, 0.4], [0.2, 0.2, 0.4, 0.2])
    found = beam_search(step, torch.zeros(1, 1), 3, 1, length_penalty=5.0)
    assert found.tokens.tolist() == [[[EOS]]]  # after a look at longer ones


# The edges


def test_a_model_that_never_ends_stops_at_the_maximum_length():
    model = TinyModel(3, 5, ending=-math.inf)
    for found in (
        greedy(model.step, model.start(), 11),
        beam_search(model.step, model.start(), 11, 3),
    ):
        assert found.tokens.shape[-1] == 11
        assert (found.tokens != EOS).all()
        assert found.log_probs.isfinite().all()


def test_a_model_that_ends_at_once_takes_one_step():
    calls = []

    def step(token, state):
        calls.append(token)
        return DecoderStep(
            torch.tensor([[-9.0, -9.0, 9.0, -9.0]]).expand(len(token), -1), state, None
        )

    assert greedy(step, torch.zeros(3, 1), 50).tokens.tolist() == [[EOS]] * 3
    assert beam_search(step, torch.zeros(3, 1), 50, 1).tokens.tolist() == [[[EOS]]] * 3
    assert len(calls) == 2
    assert all((token == BOS).all() for token in calls)


def test_the_search_ends_as_soon_as_nothing_can_overtake():
    calls = []

    def step(token, state):
        calls.append(token)
        return by_hand(token, state)

    beam_search(step, torch.zeros(1, 1), 50, 2)
    assert len(calls) == 2  # 0.4 and 0.3 are found, 0.3 goes on


def test_ended_sentences_are_fed_padding_and_stay_ended():
    fed = []

    def step(token, state):
        (row,) = state
        fed.append(token.tolist())
        logits = torch.tensor([[-9.0, -9.0, 9.0, 5.0], [-9.0, -9.0, 1.0, 5.0]])[row]
        return DecoderStep(logits, state, torch.ones(len(row), 2))

    found = greedy(step, (torch.tensor([0, 1]),), 3)
    assert found.tokens.tolist() == [[EOS, PAD, PAD], [3, 3, 3]]
    assert fed == [[BOS, BOS], [EOS, 3], [PAD, 3]]
    assert found.weights[:, :, 0].tolist() == [[1, 0, 0], [1, 1, 1]]


def test_no_gradient_is_kept():
    model = TinyModel(0, 5)
    model.out.requires_grad_()
    for found in (
        greedy(model.step, model.start(), 3),
        beam_search(model.step, model.start(), 3, 2),
    ):
        assert not found.log_probs.requires_grad
        assert not found.weights.requires_grad


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_log_probabilities_are_summed_in_at_least_float32(dtype):
    def step(token, state):
        return DecoderStep(
            torch.tensor([[3.0, 1.0, -2.0, 2.5]], dtype=dtype).expand(len(token), -1),
            state,
            None,
        )

    for found in (
        greedy(step, torch.zeros(1, 1), 9),
        beam_search(step, torch.zeros(1, 1), 9, 2),
    ):
        expected = 9 * torch.tensor([3.0, 1.0, -2.0, 2.5]).log_softmax(-1)[0]
        assert found.log_probs.dtype == torch.float32
        assert found.log_probs.flatten()[0].item() == pytest.approx(
            expected.item(), rel=1e-5
        )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"width": 0}, "at least 1 wide, not 0"),
        ({"width": -1}, "at least 1 wide, not -1"),
        ({"length_penalty": -0.5}, "are -0.5 for the length"),
        ({"coverage_penalty": -0.5}, "-0.5 for the coverage"),
        ({"length_penalty": 1000.0}, "1000.0 is too great for 3 words"),
        (
            {"coverage_penalty": 0.5, "mask": torch.ones(3, 6).bool()},
            r"\(3, 6\), that of the weights \(3, 2, 7\)",
        ),
        ({"max_length": 0}, "at least 1, not 0"),
        ({"max_length": -3}, "at least 1, not -3"),
        ({"state": None}, "0 tensors and no sentence"),
        ({"state": (None, ())}, "0 tensors and no sentence"),
        ({"state": (torch.zeros(0, 5),)}, "1 tensors and no sentence"),
    ],
)
def test_what_cannot_be_searched_is_an_error(arguments, message):
    model = TinyModel(0, 5)
    given_ = {"state": model.start(), "max_length": 3, "width": 2, **arguments}
    with pytest.raises(ValueError, match=message):
        beam_search(model.step, **given_)
    if not {"width", "length_penalty", "coverage_penalty"} & set(arguments):
        del given_["width"]
        for search in (greedy, sample):
            with pytest.raises(ValueError, match=message):
                search(model.step, **given_)


def test_a_state_that_is_no_tuple_is_an_error():
    model = TinyModel(0, 5)
    for search in (
        lambda state: greedy(model.step, state, 3),
        lambda state: beam_search(model.step, state, 3, 2),
    ):
        with pytest.raises(TypeError, match="dict"):
            search({"hidden": model.sentences})


@pytest.mark.parametrize("logit", [torch.nan, -torch.inf])
def test_sentences_without_probability_are_named(logit):
    def step(token, state):
        return DecoderStep(
            torch.where(state[:, None] == 1, torch.tensor(logit), torch.zeros(1, 4)),
            state,
            None,
        )

    state = torch.tensor([0, 1, 0])
    for search in (greedy, sample):
        with pytest.raises(
            FloatingPointError, match=r"sentences \[1\] have no probability"
        ):
            search(step, state, 3)
    with pytest.raises(
        FloatingPointError, match=r"sentences \[1\] have no probability"
    ):
        beam_search(step, state, 3, 2)


@pytest.mark.parametrize("penalty", [math.inf, math.nan])
@pytest.mark.parametrize("name", ["length_penalty", "coverage_penalty"])
def test_a_penalty_must_be_finite(name, penalty):
    with pytest.raises(ValueError, match=f"finite and at least 0, but are .*{penalty}"):
        beam_search(lambda token, state: None, torch.zeros(1), 3, 2, **{name: penalty})


def test_coverage_needs_a_model_that_looks():
    with pytest.raises(ValueError, match="needs a model that looks"):
        beam_search(by_hand, torch.zeros(1, 1), 3, 2, coverage_penalty=0.2)


# Coverage


@settings(deadline=None, max_examples=15, derandomize=True)
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
    model = TinyModel(seed, vocabulary)
    mask = torch.arange(KEYS) < torch.tensor([[KEYS], [4], [1]])
    everything = list(searches.all_sentences(vocabulary, max_length))
    found = beam_search(
        model.step, model.start(), max_length, len(everything), length, coverage, mask
    )
    for row in range(3):
        scores = {}
        for sentence in everything:
            log_probs, looked = model.retrace(row, sentence)
            words = looked[:, mask[row]].tolist()
            scores[sentence] = wu_2016.score(sum(log_probs), words, length, coverage)
        expected = sorted(scores, key=scores.get, reverse=True)
        assert [
            tuple(t[: length_of(t)].tolist()) for t in found.tokens[row]
        ] == expected


def test_coverage_prefers_the_sentence_that_looks_everywhere():
    """After ``<bos>`` a model looks at the first word, after 3 there again, after 4 at the second word."""

    def step(token, state):
        probabilities = torch.tensor([[0.0, 0.0, 1.0, 0.0, 0.0]]).repeat(len(token), 1)
        probabilities[token == BOS] = torch.tensor([0.0, 0.0, 0.0, 0.6, 0.4])
        looked = torch.where(
            (token == 4)[:, None],
            torch.tensor([0.0, 1.0, 0.0]),
            torch.tensor([1.0, 0.0, 0.0]),
        )
        return DecoderStep(probabilities.log(), state, looked)

    mask = torch.tensor([[True, True, False]])
    without = beam_search(step, torch.zeros(1, 1), 3, 2)
    covering = beam_search(
        step, torch.zeros(1, 1), 3, 2, coverage_penalty=0.1, mask=mask
    )
    assert without.tokens[0].tolist() == [[3, EOS], [4, EOS]]
    assert covering.tokens[0].tolist() == [[4, EOS], [3, EOS]]
    torch.testing.assert_close(covering.log_probs, without.log_probs.flip(1))


def test_coverage_is_summed_in_at_least_32_bits():
    """After one look of 1/2 come 59 of 0.0015, of which none would move a sum of bfloat16's 8 bits."""

    def step(token, state):
        (written,) = state
        first = torch.tensor([0.0, 0.0, 0.6, 0.4]).expand(len(token), -1)
        ends = (written == 59)[:, None]
        later = torch.where(
            ends, torch.tensor([0.0, 0.0, 1.0, 0.0]), torch.tensor([0.0, 0.0, 0.0, 1.0])
        )
        begins = (token == BOS)[:, None]
        looked = torch.where(begins, 0.5, 0.0015).bfloat16()
        return DecoderStep(
            torch.where(begins, first, later).log(), (written + 1,), looked
        )

    found = beam_search(step, (torch.zeros(1),), 70, 2, coverage_penalty=10.0)
    assert [length_of(sentence) for sentence in found.tokens[0]] == [60, 1]


def test_coverage_stops_early_only_if_padding_is_masked():
    """Where padding counts as words, every sentence seems to leave something out, and the search goes on."""
    calls = []

    def step(token, state):
        calls.append(1)
        looked = torch.tensor([[0.5, 0.5, 0.0]]).expand(len(token), -1)
        return DecoderStep(by_hand(token, state).logits, state, looked)

    def search(mask):
        calls.clear()
        return beam_search(step, torch.zeros(1, 1), 20, 2, 0.0, 0.01, mask), len(calls)

    masked, few_steps = search(torch.tensor([[True, True, False]]))
    unmasked, many_steps = search(None)
    assert torch.equal(masked.tokens, unmasked.tokens)
    assert few_steps < many_steps


# What moves


def test_what_a_model_leaves_untouched_is_not_moved():
    memories = []

    def step(token, state):
        hidden, memory = state
        memories.append(memory)
        return DecoderStep(
            torch.randn(len(token), 5, generator=generator), (hidden + 1, memory), None
        )

    generator = torch.Generator().manual_seed(0)
    beam_search(step, (torch.zeros(3, 2), torch.rand(3, 4)), 6, 2)
    assert len(memories) > 2
    assert all(memory is memories[0] for memory in memories)


def test_what_changed_once_is_moved_from_then_on():
    """A state that the first word changes, and that later steps return as they got it."""

    def step(token, state):
        (first,) = state
        if (token == BOS).all():
            logits = torch.tensor([[-torch.inf, -torch.inf, -9.0, 1.0, 1.1]])
            return DecoderStep(logits.expand(len(token), -1), state, None)
        first = torch.where(first == 0, token, first) if (first == 0).any() else first
        ending = torch.where(
            first == 3, 5.0, -5.0
        )  # after 3 the sentence ends, after 4 it goes on
        logits = torch.tensor([[-torch.inf, -torch.inf, 0.0, 0.0, 0.0]]).repeat(
            len(token), 1
        )
        logits[:, EOS] = ending
        return DecoderStep(logits, (first,), None)

    found = beam_search(step, (torch.zeros(1, dtype=torch.long),), 4, 3)
    for place in range(3):
        tokens = found.tokens[0, place, : length_of(found.tokens[0, place])].tolist()
        state, before, total = (torch.zeros(1, dtype=torch.long),), BOS, 0.0
        for token in tokens:
            logits, state, _ = step(torch.tensor([before]), state)
            total += logits.log_softmax(-1)[0, token].item()
            before = token
        assert found.log_probs[0, place].item() == pytest.approx(total, abs=1e-5)


# Sampling


def shares(probabilities, **how):
    """How often each word is drawn from these probabilities, in 20,000 one-word sentences."""
    logits = torch.tensor(probabilities).log()

    def step(token, state):
        return DecoderStep(logits.expand(len(token), -1), state, None)

    found = sample(
        step,
        torch.zeros(20_000, 1),
        1,
        **how,
        generator=torch.Generator().manual_seed(0),
    )
    torch.testing.assert_close(
        found.log_probs, logits[found.tokens[:, 0]]
    )  # the model's own, always
    return torch.bincount(found.tokens[:, 0], minlength=len(probabilities)) / 20_000


P = [0.05, 0.1, 0.15, 0.3, 0.4]


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ({}, P),
        ({"temperature": 0.5}, [p**2 / sum(q**2 for q in P) for p in P]),
        (
            {"temperature": 3.0},
            [p ** (1 / 3) / sum(q ** (1 / 3) for q in P) for p in P],
        ),
        ({"top_k": 2}, [0, 0, 0, 3 / 7, 4 / 7]),
        ({"top_k": 99}, P),
        (
            {"top_p": 0.5},
            [0, 0, 0, 3 / 7, 4 / 7],
        ),  # the word that crosses the share stays
        ({"top_p": 0.3}, [0, 0, 0, 0, 1]),
        ({"top_p": 1.0}, P),
        (
            {"top_k": 3, "top_p": 0.8},
            [0, 0, 0, 3 / 7, 4 / 7],
        ),  # .7 of .85, which is .82
        ({"temperature": 1e-3}, [0, 0, 0, 0, 1]),
        (
            {"temperature": 1e-40},
            [0, 0, 0, 0, 1],
        ),  # where every log-probability over it is −∞
        ({"temperature": 1e-300, "top_k": 2}, [0, 0, 0, 0, 1]),
        ({"temperature": 1e300}, [0.2] * 5),
    ],
)
def test_words_are_drawn_as_often_as_their_probability_says(how, expected):
    expected = torch.tensor(expected, dtype=torch.float32)
    found = shares(P, **how)
    assert (found[expected == 0] == 0).all()
    deviation = (expected * (1 - expected) / 20_000).sqrt()
    assert ((found - expected).abs() <= 4 * deviation + 1e-6).all()


def test_a_nucleus_that_has_its_share_exactly_is_full():
    assert shares([0.5, 0.25, 0.25], top_p=0.5).tolist() == [1, 0, 0]


def test_at_the_lowest_temperature_each_sentence_has_its_best_word_however_improbable_all_are():
    logits = torch.zeros(
        2, 400
    )  # each word has about 1/400, whose logarithm over 1e-40 is −∞ …
    logits[0, 7], logits[1, 9] = (
        0.5,
        8.0,
    )  # … and the best words of the two are far apart

    def step(token, state):
        return DecoderStep(logits, state, None)

    found = sample(step, torch.zeros(2, 1), 1, temperature=1e-40)
    assert found.tokens.tolist() == [[7], [9]]


def test_an_impossible_word_stays_so_at_any_temperature():
    found = sample(by_hand, torch.zeros(500, 1), 2, temperature=1e300)
    assert set(found.tokens[:, 0].tolist()) == {EOS, 3}


@few
@given(models, lengths, st.integers(0, 10**6))
def test_samples_belong_to_the_model(model, max_length, seed):
    found = sample(
        model.step,
        model.start(),
        max_length,
        generator=torch.Generator().manual_seed(seed),
    )
    again = sample(
        model.step,
        model.start(),
        max_length,
        generator=torch.Generator().manual_seed(seed),
    )
    assert torch.equal(found.tokens, again.tokens)
    for row in range(3):
        assert_true_to_the_model(model, row, *(part[row] for part in found))


@few
@given(
    models,
    lengths,
    st.sampled_from([{"top_k": 1}, {"top_p": 1e-6}, {"temperature": 1e-6}]),
)
def test_sampling_from_the_best_word_alone_is_greedy(model, max_length, how):
    assert_same(
        sample(model.step, model.start(), max_length, **how),
        greedy(model.step, model.start(), max_length),
    )


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"temperature": 0.0}, "not 0.0"),
        ({"temperature": -1.0}, "not -1.0"),
        ({"temperature": math.inf}, "not inf"),
        ({"temperature": math.nan}, "not nan"),
        ({"top_k": 0}, "at least 1, not 0"),
        ({"top_p": 0.0}, "not 0.0"),
        ({"top_p": 1.1}, "not 1.1"),
        ({"top_p": math.nan}, "not nan"),
    ],
)
def test_what_cannot_be_sampled_is_an_error(how, message):
    with pytest.raises(ValueError, match=message):
        sample(by_hand, torch.zeros(1, 1), 3, **how)
