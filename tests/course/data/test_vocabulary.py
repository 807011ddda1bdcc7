import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attention_course.data import (
    BOS,
    EOS,
    PAD,
    SPECIAL,
    UNK,
    Vocabulary,
    pad,
    pad_documents,
)

words = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=1, max_size=5
).filter(lambda word: word not in SPECIAL)


def test_the_special_tokens_come_first():
    vocabulary = Vocabulary(["a"])
    assert vocabulary.tokens == ("<pad>", "<bos>", "<eos>", "<unk>", "a")
    assert (PAD, BOS, EOS, UNK) == (0, 1, 2, 3)
    assert len(vocabulary) == 5


def test_tokens_are_ordered_by_frequency_then_by_alphabet():
    vocabulary = Vocabulary.of([["b", "c", "a"], ["c", "b"], ["c"]])
    assert vocabulary.tokens[4:] == ("c", "b", "a")


def test_rare_tokens_are_left_out_and_unknown():
    vocabulary = Vocabulary.of([["a", "b"], ["a"]], minimum_frequency=2)
    assert vocabulary.tokens[4:] == ("a",)
    assert vocabulary.encode(["a", "b"]) == [4, UNK]


def test_special_tokens_in_a_text_are_not_listed_again():
    assert Vocabulary.of([["<eos>", "a"]]).tokens[4:] == ("a",)


def test_a_word_spelt_like_a_special_token_is_unknown():
    assert Vocabulary(["a"]).encode(["a", *SPECIAL, "a"]) == [4, UNK, UNK, UNK, UNK, 4]


@given(st.lists(st.lists(words, max_size=6), min_size=1, max_size=6))
def test_decoding_undoes_encoding(sentences):
    vocabulary = Vocabulary.of(sentences)
    for sentence in sentences:
        assert (
            vocabulary.decode([BOS, *vocabulary.encode(sentence), EOS, PAD, 4])
            == sentence
        )


def test_decoding_stops_at_eos():
    assert Vocabulary("ab").decode([1, 5, 4, 0, 2, 99]) == ["b", "a"]
    assert Vocabulary("ab").decode(torch.tensor([4, 2, 5])) == ["a"]


@pytest.mark.parametrize("token", [-1, 6])
def test_an_id_outside_the_vocabulary_is_named(token):
    with pytest.raises(
        ValueError, match=rf"token {token} is outside the vocabulary of 6 entries"
    ):
        Vocabulary("ab").decode([token])


def test_a_token_listed_twice_is_named():
    with pytest.raises(
        ValueError, match="1 tokens are listed more than once, the first is 'a'"
    ):
        Vocabulary("aba")


def test_sequences_are_padded_to_the_longest():
    padded = pad([[5], [], [6, 7]])
    assert padded.dtype == torch.int64
    assert padded.tolist() == [[5, 0], [0, 0], [6, 7]]
    assert pad([[]]).dtype == torch.int64


def test_no_sequences_are_refused():
    with pytest.raises(ValueError, match="no sequences to pad"):
        pad([])


def test_documents_are_padded_to_the_most_sentences_and_the_longest():
    padded = pad_documents([[[5], [6, 7, 8]], [], [[], [], [9]]])
    assert padded.dtype == torch.int64
    none = [0, 0, 0]
    assert padded.tolist() == [
        [[5, 0, 0], [6, 7, 8], none],
        [none] * 3,
        [none, none, [9, 0, 0]],
    ]


@pytest.mark.parametrize("documents", [[], [[]]])
def test_documents_without_sentences_are_refused(documents):
    with pytest.raises(ValueError, match="no sequences to pad"):
        pad_documents(documents)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("token", [2.5, math.nan, torch.tensor(1.0)])
def test_ids_that_are_no_integers_are_refused(token):
    with pytest.raises(TypeError, match="token ids must be integers, not"):
        pad([[1, 2], [token]])
