from collections import Counter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from num2words import num2words

from attention_course.data.numbers import (
    LARGEST,
    LONGEST_FRENCH,
    english_words,
    french_pairs,
    french_words,
    german_characters,
    german_pairs,
    split,
)


def said(number, language):
    return tuple(
        num2words(number, lang=language).replace("-", " ").replace(",", "").split()
    )


@given(st.integers(1, 12).flatmap(lambda digits: st.integers(1, 10**digits - 1)))
@example(1_000_000_005)
@example(80_000_080)
@example(200_000_200)
@example(1_001_100_101)
@example(LARGEST)
def test_words_are_those_of_num2words(number):
    assert english_words(number) == said(number, "en")
    assert french_words(number) == said(number, "fr")
    assert "".join(german_characters(number)) == num2words(number, lang="de")


@pytest.mark.parametrize("scale", [1, 1000, 1_000_000, 1_001_001])
def test_every_group_of_three_digits_at_every_scale(scale):
    for group in range(1, 1000):
        number = group * scale
        assert english_words(number) == said(number, "en")
        assert french_words(number) == said(number, "fr")


def test_examples_of_the_book():
    assert english_words(97) == ("ninety", "seven")
    assert french_words(97) == ("quatre", "vingt", "dix", "sept")
    assert "".join(german_characters(97)) == "siebenundneunzig"
    assert " ".join(english_words(1_234_567)) == (
        "one million two hundred and thirty four thousand five hundred and sixty seven"
    )
    assert " ".join(french_words(1_234_567)) == (
        "un million deux cent trente quatre mille cinq cent soixante sept"
    )


def test_french_lengths_are_balanced():
    pairs = french_pairs(27 * 40, seed=0)
    assert Counter(len(pair.target) for pair in pairs) == dict.fromkeys(
        range(1, LONGEST_FRENCH + 1), 40
    )


def test_short_french_targets_include_small_numbers():
    digits = Counter(
        len(str(pair.number))
        for pair in french_pairs(5400, seed=0)
        if len(pair.target) == 4
    )
    assert digits[2] + digits[3] > 30
    assert sum(digits[d] for d in (7, 8, 9)) > 30


def test_german_short_numbers_are_not_rare():
    digits = Counter(len(str(pair.number)) for pair in german_pairs(4000, seed=0))
    assert set(digits) == {1, 2, 3, 4}
    assert digits[1] + digits[2] > 1000
    assert max(len(pair.target) for pair in german_pairs(10000, seed=0)) <= 42


@pytest.mark.parametrize("make", [french_pairs, german_pairs])
def test_pairs_are_deterministic_and_consistent(make):
    pairs = make(500, seed=1)
    assert pairs == make(500, seed=1)
    assert pairs != make(500, seed=2)
    for number, source, target in pairs:
        assert source == english_words(number)
        assert target == (
            french_words(number) if make is french_pairs else german_characters(number)
        )


@pytest.mark.parametrize("make", [french_pairs, german_pairs])
def test_the_split_puts_every_number_into_one_set(make):
    pairs = make(6000, seed=0)
    sets = split(pairs, 1 / 6, seed=0)
    numbers = [{pair.number for pair in one} for one in sets]
    assert set.union(*numbers) == {pair.number for pair in pairs}
    assert sum(map(len, numbers)) == len(set.union(*numbers))
    assert [len(one) for one in sets[1:]] == [len(one) for one in numbers[1:]]
    assert sets == split(pairs, 1 / 6, seed=0)
    for one, other in zip(sets, split(pairs, 1 / 6, seed=1), strict=True):
        assert one != other


def test_validation_and_test_numbers_are_balanced_by_length():
    train, *held_out = split(french_pairs(9720, seed=0), 1 / 6, seed=0)
    for pairs in held_out:
        bins = Counter((len(pair.target) - 1) // 4 for pair in pairs)
        assert min(bins.values()) > 50
        assert set(range(2, LONGEST_FRENCH + 1)) <= {len(pair.target) for pair in pairs}
    assert len(train) > 8000


@pytest.mark.parametrize("number", [0, LARGEST + 1])
def test_numbers_out_of_range_are_named(number):
    with pytest.raises(ValueError, match=f"{number} is not between 1 and 999,999,999,"):
        english_words(number)


def test_a_fraction_that_leaves_no_validation_and_test_pair_is_refused():
    with pytest.raises(ValueError, match=r"0\.001 of 20 pairs leaves 0 for validation"):
        split(german_pairs(20, seed=0), 0.001, seed=0)
