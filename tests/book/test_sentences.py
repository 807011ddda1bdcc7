"""Sentences taken out: the page computes what PyTorch computes, of what is left of a document."""

import random

import pytest
import torch

from attention_course.data.vocabulary import PAD, pad_documents
from attention_course.live import sentences, weights
from attention_course.studies import document as study
from tests.conftest import ROOT

CHAPTER = "09_hierarchical"
READ = "all => all.map(one => [SentencesModel.read(one), SentencesModel.answer(one) ?? null])"


@pytest.fixture(scope="module")
def content():
    return weights.read(sentences.SCRIPT.read_text("utf-8"))


@pytest.fixture(scope="module")
def setting():
    return sentences.task_and_test()


@pytest.fixture(scope="module")
def model(setting, content):
    return sentences.model_of(content["model"], len(setting[0].words))


@pytest.fixture
def removal(visit_live):
    return visit_live(CHAPTER, "live-sentences")


def with_less(generator, document):
    """A document that has lost sentences and words, but not all."""
    kept = [
        [word for word in sentence if generator.random() < 0.9]
        if generator.random() < 0.8
        else []
        for sentence in document
    ]
    return kept if any(kept) else [list(sentence) for sentence in document]


def answer_of(document):
    left = [sentence for sentence in document if sentence]
    clue = [i for i, sentence in enumerate(left) if "optional" in sentence]
    first = left[clue[0] + 4][0] if clue and clue[0] + 4 < len(left) else None
    return first if first in study.TYPES else None


def test_the_page_reads_what_is_left_as_the_package_does(removal, setting, model):
    task, test = setting
    generator = random.Random(0)
    asked = [with_less(generator, example.texts) for example in test]
    assert sum(not all(document) for document in asked) > 100  # with empty sentences
    batch = pad_documents([[task.words.encode(s) for s in one] for one in asked])
    of_words, of_sentences = model.attention_maps(batch)
    with torch.no_grad():
        probabilities = model(batch).softmax(-1)
    found = removal.evaluate(READ, asked)
    assert len(found) == 300
    for row, (one, answer) in enumerate(found):
        written = of_words[row][batch[row] != PAD]
        expected = torch.cat([of_sentences[row], probabilities[row], written])
        values = [*one["sentences"], *one["probabilities"]]
        values += [weight for sentence in one["words"] for weight in sentence]
        torch.testing.assert_close(torch.tensor(values), expected, atol=2e-4, rtol=0)
        assert answer == answer_of(asked[row])


def test_the_question_is_that_of_the_study(removal, setting):
    _, test = setting
    found = removal.evaluate(READ, [example.texts for example in test])
    assert [answer for _, answer in found] == [example.label for example in test]


def test_the_script_says_what_its_model_does(setting, model, content):
    task, test = setting
    assert content["labels"] == list(task.labels)
    texts = [test[number].texts for number in sentences.DOCUMENTS]
    assert content["documents"] == [list(map(list, one)) for one in texts]
    assert content["changed"] == sentences.without(task, model, test)
    assert content["accuracy"] == study.accuracy_on(model, task, test) == 1
    assert content["changed"]["other"][1] == 0
    replaced = content["changed"]["optional"][1]
    chapter = (ROOT / "book" / f"{CHAPTER}.md").read_text("utf-8")
    assert f"changes the class of {replaced:.0%}".replace("%", " %") in chapter


def sentence(page, number):
    return page.get_by_role("button", name=f"Sentence {number}, weight")


def verdict(page):
    return page.locator(".sentences-verdict").inner_text()


def test_what_the_text_says_of_the_first_document(removal):
    """Without 3 to 7 alone the class is int; replaced, only 3 and 7 change it."""
    assert "✓ class bool" in verdict(removal)
    for number, weight in ((7, 100), (3, 0)):
        assert f"{number}\n{weight}\u00a0%" == sentence(removal, number).inner_text()
    removal.get_by_role("button", name="Try each sentence").click()
    effects = removal.locator(".sentences-effect")
    said = [text.split("\u00a0")[0] for text in effects.all_inner_texts()]
    names = [text.split(": ")[1].rsplit(" ", 1)[0] for text in said]
    assert names == ["still bool"] * 2 + ["int"] * 5 + ["still bool"]
    removal.get_by_role("button", name="replaced").click()
    same = ["still" in text for text in effects.all_inner_texts()]
    assert [i for i, is_same in enumerate(same, 1) if not is_same] == [3, 7]


def test_a_removed_sentence_changes_no_word_weight_of_another(removal):
    sentence(removal, 3).click()
    assert "is not there: the model guesses int" in verdict(removal)
    changes = removal.locator(".sentences > .play-hint").inner_text()
    assert "word weights of other sentences 0.00" in changes
    assert sentence(removal, 3).get_attribute("aria-pressed") == "true"
    removal.get_by_role("button", name="Put all back").click()
    assert "✓ class bool" in verdict(removal)
    word = removal.get_by_role("button", name="optional, weight")
    word.click()
    assert word.get_attribute("aria-pressed") == "true"
    assert "is not there" in verdict(removal)


def test_a_document_without_words_has_no_class(removal):
    for number in range(8):
        removal.locator(".sentences-switch").nth(number).click()
    assert verdict(removal) == "No word is left, so there is nothing to average."
    back = removal.get_by_role("button", name="Put all back")
    for disabled in ("false", "true"):
        assert back.get_attribute("aria-disabled") == disabled
        back.press("Enter")
        assert back.evaluate("one => one === document.activeElement")
    for number in range(8):
        removal.locator(".sentences-switch").nth(number).click()
    removal.get_by_role("button", name="replaced").click()
    assert "the model guesses" in verdict(removal)
    removal.get_by_role("button", name="2", exact=True).click()
    assert "✓ class float" in verdict(removal)


def test_arrow_keys_lead_from_word_to_word(removal):
    sentence(removal, 1).focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "ArrowRight", "Space"):
        removal.keyboard.press(key)
    word = removal.get_by_role("button", name="optional, weight")
    assert word.get_attribute("aria-pressed") == "true"
    assert removal.locator(".sentences-list button[tabindex='0']").count() == 1
