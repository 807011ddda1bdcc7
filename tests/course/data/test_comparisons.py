"""The labels of the comparisons are right, and no single word reveals them."""

from collections import Counter

import pytest

from attention_course.data.comparisons import ONE_WORD, TWO_WORDS, larger, shared
from attention_course.data.numbers import english_words, french_words

NUMBER = {english_words(number): number for number in range(1, 100)}
ENGLISH = {english_words(number)[0]: number for number in ONE_WORD}
FRENCH = {french_words(number)[0]: number for number in ONE_WORD}


def in_both(words):
    return {ENGLISH[word] for word in words if word in ENGLISH} & {
        FRENCH[word] for word in words if word in FRENCH
    }


def test_the_answer_is_the_larger_number_in_french():
    for pair in larger(0):
        first, second = NUMBER[pair.source[:2]], NUMBER[pair.source[3:]]
        assert pair.source[2] == "or"
        assert pair.number == max(first, second)
        assert pair.target == french_words(pair.number)


def test_every_pair_of_numbers_occurs_once_in_either_order():
    pairs = larger(0)
    two_numbers = {frozenset((pair.source[:2], pair.source[3:])) for pair in pairs}
    assert len(pairs) == len(two_numbers) == 72 * 71 // 2
    assert len(TWO_WORDS) == 72
    first = sum(NUMBER[pair.source[:2]] == pair.number for pair in pairs)
    assert 0.45 < first / len(pairs) < 0.55


def test_larger_depends_on_the_seed_alone():
    assert larger(3) == larger(3) != larger(4)


def test_the_label_says_whether_a_number_occurs_in_both_languages():
    for words, is_shared in shared(400, 3, 0):
        assert len(words) == 6
        assert sum(word in ENGLISH for word in words) == 3
        assert len(in_both(words)) == int(is_shared)


def test_half_of_the_sources_are_shared_and_none_is_repeated():
    found = shared(1001, 2, 0)
    assert len({words for words, _ in found}) == len(found) == 1001
    assert sum(is_shared for _, is_shared in found) == 501


def test_no_word_at_any_position_reveals_the_label():
    found = shared(20000, 2, 0)
    for position in range(4):
        counts = [
            Counter(words[position] for words, label in found if label == kind)
            for kind in (True, False)
        ]
        assert all(
            abs(counts[0][word] - counts[1][word]) < 100 for word in (*ENGLISH, *FRENCH)
        )  # of 250


def test_the_words_of_the_two_languages_differ():
    assert not ENGLISH.keys() & FRENCH.keys()
    assert len(ONE_WORD) == 20
    assert 6 not in ONE_WORD


def test_shared_depends_on_the_seed_alone():
    assert shared(50, 4, 3) == shared(50, 4, 3) != shared(50, 4, 4)


@pytest.mark.parametrize(
    ("count", "size", "words"),
    [(0, 2, "not 0"), (100_001, 2, "not 100001"), (5, 1, "not 1"), (5, 11, "not 11")],
)
def test_a_count_or_size_out_of_range_is_refused(count, size, words):
    with pytest.raises(ValueError, match=words):
        shared(count, size, 0)
