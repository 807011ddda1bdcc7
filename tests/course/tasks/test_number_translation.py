import pytest
import torch

from attention_course.data import numbers
from attention_course.tasks import (
    LENGTH_RANGES,
    bahdanau_translator,
    exact_match_by_length,
    luong_general,
    narrow_transformer,
    short_numbers,
)
from companion.attention import Additive
from companion.layers import LearnedPositionalEncoding, PostNorm, PreNorm


@pytest.fixture(scope="module")
def french():
    return short_numbers()


def every_pair(task):
    return task.training_pairs + task.validation_pairs + task.test_pairs


def test_numbers_are_below_a_billion_and_in_one_set_only(french):
    sets = french.training_pairs, french.validation_pairs, french.test_pairs
    assert [len(pairs) for pairs in sets] == [9_989, 216, 216]
    numbers = [{pair.number for pair in pairs} for pairs in sets]
    assert sum(map(len, numbers)) == len(set.union(*numbers))
    assert max(set.union(*numbers)) < 10**9


def test_the_ranges_of_lengths_hold_every_pair_once(french):
    for pair in every_pair(french):
        assert (
            sum(least <= len(pair.target) <= most for least, most in LENGTH_RANGES) == 1
        )


def test_numbers_with_few_words_are_selected_before_the_split(french):
    few = short_numbers(most_words=8)
    chosen = {pair for pair in every_pair(french) if len(pair.target) <= 8}
    assert {*every_pair(few)} == chosen
    assert len(few.test_pairs) == pytest.approx(0.025 * len(chosen), rel=0.2)


def test_the_model_depends_on_its_seed_and_has_the_size_of_chapter_5(french):
    first, again, other = (luong_general(french, seed) for seed in (0, 0, 1))
    assert sum(parameter.numel() for parameter in first.parameters()) == 66_656
    for a, b in zip(first.parameters(), again.parameters(), strict=True):
        assert torch.equal(a, b)
    assert not torch.equal(
        first.encoder.embedding.weight, other.encoder.embedding.weight
    )


def test_a_translator_of_bahdanaus_attends_with_what_it_is_given_in_the_sizes_it_is_given():
    default, small = bahdanau_translator(9, 7), bahdanau_translator(9, 7, units=8)
    assert default.encoder.rnn.hidden_size == default.decoder.cell.hidden_size == 64
    assert small.encoder.rnn.hidden_size == small.decoder.cell.hidden_size == 8
    assert small.decoder.attention.U.in_features == small.decoder.source_size == 16
    attention = Additive(8, 16, 5)
    model = bahdanau_translator(9, 7, attention=attention, units=8)
    assert model.decoder.attention is attention
    tokens = torch.tensor([[4, 5, 6]])
    assert model(tokens, tokens).shape == (1, 3, 7)


def test_exact_match_of_all_and_of_each_length(french):
    model = luong_general(french)
    french.train(model, steps=1)
    assert exact_match_by_length(french, model) == [0.0] * (1 + len(LENGTH_RANGES))

    def translate(model, sentences):
        """Right where the French has at most four words."""
        answers = {pair.source: pair.target for pair in french.test_pairs}
        return [
            numbers.Pair(0, words, answers[words] if len(answers[words]) <= 4 else ())
            for words in sentences
        ]

    few = sum(len(pair.target) <= 4 for pair in french.test_pairs)
    french.translate = translate
    try:
        assert exact_match_by_length(french, model) == [
            few / 216,
            1.0,
            0.0,
            0.0,
            0.0,
            0.0,
        ]
    finally:
        del french.translate


def test_the_parts_of_a_narrow_transformer_are_those_that_are_named(french):
    model = narrow_transformer(
        french, PreNorm, lambda: LearnedPositionalEncoding(9, 16), layers=3, d_model=16
    )
    assert len(model.encoder.layers) == len(model.decoder.layers) == 3
    assert model.encoder.position is not model.decoder.position
    assert model.encoder.position.embedding.weight.shape == (9, 16)
    kinds = {type(part) for part in model.modules()}
    assert PreNorm in kinds
    assert PostNorm not in kinds
    first, again, other = (
        narrow_transformer(french, d_model=16, seed=seed) for seed in (0, 0, 1)
    )
    weights = [next(one.parameters()) for one in (first, again, other)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])
