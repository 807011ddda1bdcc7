"""The study of the encoder's self-attention: which words are linked, and what is averaged."""

import pytest
import torch

from attention_course.data.vocabulary import Vocabulary
from attention_course.studies import self_attention as study
from companion.models import Transformer

SENTENCES = [
    sentence.split()
    for sentence in (
        "Eine junge Frau zieht ihren roten Mantel an .",
        "Zwei Hunde spielen mit ihrem Ball .",
    )
]


@pytest.mark.parametrize(
    ("sentence", "name", "found"),
    [
        ("Eine junge Frau zieht ihren roten Mantel an .", "article", [(0, 2)]),
        ("Eine junge Frau zieht ihren roten Mantel an .", "possessive", [(4, 2)]),
        ("Eine junge Frau zieht ihren roten Mantel an .", "particle", [(7, 3)]),
        ("Der Mann steht auf dem grünen Dach .", "article", [(4, 6)]),
        ("Der Mann steht auf dem grünen Dach .", "particle", []),
        ("Der Mann und die Frau stehen .", "article", []),
        ("Ein Mann in einem Hut hebt die Hand hoch .", "particle", []),
        ("Der Mann und die Frau heben seinen Hut auf .", "possessive", [(6, 1)]),
        ("Ihr Hund schläft .", "possessive", []),
    ],
)
def test_words_that_belong_together_are_found(sentence, name, found):
    assert study.links(sentence.split())[name] == found


def test_two_further_are_all_other_words_and_no_article():
    words = SENTENCES[0]
    found = study.links(words)
    both = sorted(found["article"] + found["two further"])
    assert both == [(i, i + 2) for i in range(len(words) - 2)]


def test_all_other_words_after_the_owner_of_something_are_its_control():
    found = study.links(SENTENCES[1])["first noun"]
    assert found == [(2, 1), (3, 1), (5, 1), (6, 1)]
    assert study.links(["Der", "Mann", "steht", "."])["first noun"] == []


@pytest.fixture
def vocabulary():
    return Vocabulary.of([[word.lower() for word in words] for words in SENTENCES])


@pytest.fixture
def model(vocabulary):
    torch.manual_seed(0)
    return Transformer(len(vocabulary), 11, 8, 2, 16, 3, pad=0).eval()


def test_weights_are_averaged_over_the_links_of_all_sentences(model, vocabulary):
    found = study.mean_weights(model, vocabulary, SENTENCES)["possessive"]
    first, second = (
        study.encoder_weights(model, vocabulary, words) for words in SENTENCES
    )
    assert first.shape == (3, 2, 9, 9)
    torch.testing.assert_close(first.sum(-1), torch.ones(3, 2, 9))
    assert found["count"] == 2
    assert found["uniform"] == pytest.approx((1 / 9 + 1 / 7) / 2)
    torch.testing.assert_close(
        torch.tensor(found["weight"]), (first[..., 4, 2] + second[..., 4, 1]) / 2
    )


def test_the_choice_is_the_most_probable_of_some_tokens(model):
    source, prefix = [4, 5, 6, 7], [3, 8]
    with torch.no_grad():
        logits = model(torch.tensor([source]), torch.tensor([[study.BOS, *prefix]]))
    best = logits[0, -1, [4, 9, 10]].argmax()
    assert study.choice(model, source, prefix, [4, 9, 10]) == [4, 9, 10][best]


def test_a_position_alone_attends_to_itself_and_is_visible_to_all():
    mask = study._visible(4, alone=2)[0]
    assert mask[2].tolist() == [False, False, True, False]
    assert mask[[0, 1, 3]].all()
    assert study._visible(4, alone=None).all()


def test_pairs_with_one_possessive_on_either_side_are_examined():
    german = [
        *SENTENCES,
        ["Ein", "Hund", "und", "sein", "Ball", "."],
        ["Ihr", "Hund", "."],
    ]
    english = [
        ["a", "young", "woman", "puts", "her", "red", "coat", "on", "."],
        ["two", "dogs", "play", "with", "their", "ball", "."],
        ["a", "dog", "and", "its", "ball", "."],
        ["her", "dog", "."],
    ]
    found = list(study.her_or_their(german, english))
    assert [(j, k) for _, j, _, k in found] == [(4, 4), (4, 4)]
