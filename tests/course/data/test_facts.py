from collections import Counter
from datetime import date

import pytest

from attention_course.data import facts as module
from attention_course.data.facts import (
    BLANK,
    MARKERS,
    Fact,
    Question,
    facts,
    questions,
    split,
)

SQUARE = [
    Fact("A", "USD", "en"),
    Fact("B", "USD", "fr"),
    Fact("C", "EUR", "en"),
    Fact("D", "EUR", "fr"),
]
MONEY = {"USD": ("us dollar", "dollar des états unis"), "EUR": ("euro", "euro")}
TONGUE = {"en": ("english", "anglais"), "fr": ("french", "français")}


@pytest.fixture(scope="module")
def real():
    return facts()


def sentence_about(marker, asked):
    """The sentence of a document that contains a marker."""
    sentences = " ".join(asked.document).split(" .")
    (found,) = [sentence for sentence in sentences if marker in sentence]
    return found


def test_facts_are_those_of_the_world(real):
    assert {
        Fact("BE", "EUR", "nl"),
        Fact("BE", "EUR", "fr"),
        Fact("CH", "CHF", "de"),
    } <= set(real)
    assert Fact("BE", "USD", "nl") not in real
    assert len(real) == len(set(real)) > 400


def test_the_facts_are_those_of_a_fixed_day(monkeypatch):
    def currencies(days):
        monkeypatch.setattr(module, "_DAY", days)
        return {fact.currency for fact in facts() if fact.territory == "HR"}

    assert currencies(date(2022, 6, 1)) == {"HRK"}
    assert currencies(date(2023, 6, 1)) == {"EUR"}


def test_a_document_describes_the_whole_square_with_each_marker_twice():
    behind = {fact.territory: fact for fact in SQUARE}
    for asked in questions(SQUARE, SQUARE, 60, seed=0):
        assert set(asked.territories) == set("ABCD")
        assert asked.candidates == MARKERS
        counts = Counter(asked.document)
        assert [counts[marker] for marker in MARKERS] == [2] * 4
        for marker, territory in zip(MARKERS, asked.territories, strict=True):
            sentence, fact = sentence_about(marker, asked), behind[territory]
            assert MONEY[fact.currency][0] in sentence
            assert TONGUE[fact.language][0] in sentence
            asks = (
                MONEY[fact.currency][1] in " ".join(asked.question),
                TONGUE[fact.language][1] in asked.question,
            )
            assert all(asks) == (marker == asked.answer)


def test_the_answer_cannot_be_guessed():
    """All markers, positions in the document and facts are the answer equally often."""
    asked = questions(SQUARE, SQUARE, 800, seed=1)
    markers = Counter(one.answer for one in asked)
    order = Counter(
        list(dict.fromkeys(w for w in one.document if w in MARKERS)).index(one.answer)
        for one in asked
    )
    for counts in (
        markers,
        order,
        Counter(one.territories[MARKERS.index(one.answer)] for one in asked),
    ):
        assert len(counts) == 4
        assert all(150 < count < 250 for count in counts.values())


def test_only_the_facts_to_ask_about_are_answers():
    asked = questions(SQUARE[1:2], [SQUARE[0], *SQUARE[2:]], 20, seed=6)
    assert {one.territories[MARKERS.index(one.answer)] for one in asked} == {"B"}


def test_the_question_has_one_gap_and_both_halves_in_both_orders():
    asked = questions(SQUARE, SQUARE, 60, seed=2)
    assert all(
        one.question[:2] == (BLANK, ":") and one.question.count("et") == 1
        for one in asked
    )
    tongue_first = [
        " ".join(one.question).index(" et ")
        > min(
            " ".join(one.question).find(word)
            for word in ("anglais", "français")
            if word in one.question
        )
        for one in asked
    ]
    assert 0 < sum(tongue_first) < 60


def test_a_seed_gives_the_same_questions():
    assert questions(SQUARE, SQUARE, 9, seed=3) == questions(SQUARE, SQUARE, 9, seed=3)
    assert questions(SQUARE, SQUARE, 9, seed=3) != questions(SQUARE, SQUARE, 9, seed=4)


def test_four_markers_are_four_territories():
    """C has both languages, but occurs with one of them only."""
    double = [*SQUARE[:2], SQUARE[2], SQUARE[3], Fact("C", "EUR", "fr")]
    assert all(
        len(set(one.territories)) == 4 for one in questions(double, double, 50, seed=0)
    )
    with pytest.raises(
        ValueError, match="no question can be asked about 4 facts among 4 others"
    ):
        questions(*[[*SQUARE[:3], Fact("C", "EUR", "fr")]] * 2, 5, seed=0)


def test_the_split_is_by_territory_and_test_facts_have_known_currencies_and_languages(
    real,
):
    train, test = split(real, 0.2, seed=1)
    known = {fact.territory for fact in train}
    assert len(known) > 50
    assert len({fact.territory for fact in test}) > 10
    assert known.isdisjoint(fact.territory for fact in test)
    assert {fact.currency for fact in test} <= {fact.currency for fact in train}
    assert {fact.language for fact in test} <= {fact.language for fact in train}
    assert {(f.currency, f.language) for f in test} <= {
        (f.currency, f.language) for f in train
    }
    words = {
        word
        for one in questions(train, train, 1500, seed=0)
        for word in (*one.document, *one.question)
    }
    for one in questions(test, train, 200, seed=1):
        assert {*one.document, *one.question} <= words
        answer = one.territories[one.candidates.index(one.answer)]
        assert answer not in known
        assert sum(territory in known for territory in one.territories) == 3
    assert split(real, 0.2, seed=1) == (train, test)
    assert split(real, 0.2, seed=2) != (train, test)


def test_too_few_territories_are_an_error():
    with pytest.raises(
        ValueError,
        match="1 of 4 territories in the test set there are 0 facts to train on and 0 to",
    ):
        split(SQUARE, 0.25, seed=0)
    with pytest.raises(ValueError, match="0 of 0 territories"):
        split(SQUARE[:3], 0.25, seed=0)
    with pytest.raises(
        ValueError, match="no question can be asked about 3 facts among 3 others"
    ):
        questions(SQUARE[:3], SQUARE[:3], 1, seed=0)


def test_the_answer_occurs_in_the_document_and_the_blank_does_not():
    (one,) = questions(SQUARE, SQUARE, 1, seed=0)
    assert isinstance(one, Question)
    assert one.answer in one.document
    assert BLANK not in one.document
