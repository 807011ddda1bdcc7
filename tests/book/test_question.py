"""The question of chapter 10: the page reads it as the package does, whatever is crossed out."""

import random

import pytest
import torch

from attention_course.live import question, weights
from tests.conftest import ROOT

CHAPTER = "10_attention_over_attention"
READ = """all => all.map(([told, words, attends]) => {
    const { beta, attended, answer, evenly } = QuestionModel.read(told, words, attends);
    return [beta, attended, [...answer], [...evenly]];
})"""


@pytest.fixture(scope="module")
def content():
    return weights.read(question.SCRIPT.read_text("utf-8"))


@pytest.fixture(scope="module")
def reader(content):
    return question.restore(content)


@pytest.fixture
def page(visit_live):
    return visit_live(CHAPTER, "live-question")


def in_page(asked, silent):
    words = [word for sentence in asked.sentences for word in sentence]
    attends = [t not in silent for t in range(len(words))]
    return [asked.descriptions, words, attends]


def crossed_out(generator, content):
    """A question of the page of which some words are deleted, and some do not attend."""
    asked = generator.choice(
        [*question.asked_of(generator.choice(content["examples"]))]
    )
    some = range(sum(map(len, asked.sentences)))
    left = generator.randint(2, len(some))
    asked = question.without(asked, set(generator.sample(some, len(some) - left)))
    return asked, set(generator.sample(range(left), generator.randrange(left)))


def test_the_page_computes_what_the_package_computes(page, content, reader):
    generator = random.Random(0)
    chosen = [crossed_out(generator, content) for _ in range(300)]
    shown = page.evaluate(READ, [in_page(*one) for one in chosen])
    for (asked, silent), numbers in zip(chosen, shown, strict=True):
        found = question.read(*reader, asked, silent)
        expected = (found.beta, found.attended, found.answer, found.evenly)
        for one, other in zip(numbers, expected, strict=True):
            torch.testing.assert_close(
                torch.tensor(one).float(), other, atol=2e-4, rtol=0
            )
    assert sum(bool(silent) for _, silent in chosen) > 200


def test_the_record_is_of_this_reader(content, reader):
    record = question.recorded()
    assert record["accuracy"] == content["accuracy"]
    assert record["still"] == question.still(content)


def test_the_text_says_what_is_on_record():
    text = (ROOT / "book" / f"{CHAPTER}.md").read_text("utf-8")
    record = question.recorded()
    before, after = record["on_right"]
    deleted, silent = record["lost"]
    assert record["moved"] == 498 / 500
    assert (
        f"all but two of 500 questions with two sentences, from {before:.2f} to {after:.2f}"
        in text
    )
    assert (
        f"loses {deleted:.3f} of its probability on average when one word is deleted, and {silent:.3f} when"
        in text
    )


def verdict(page):
    return page.locator(".question-verdict").inner_text()


def word(page, name):
    return page.locator(".question-word", has_text=name).first


def press(page, name):
    page.get_by_role("button", name=name, exact=True).first.click()


def test_deleting_a_word_costs_the_answer_and_its_silence_does_not(page):
    assert "With β: description 3 ✓ (0.61)" in verdict(page)
    assert "With equal weights: description 1 ✗ (0.58)" in verdict(page)
    assert "β 0.04, attends most to description 3" in word(page, "bébé").get_attribute(
        "aria-label"
    )
    word(page, "bébé").click()
    assert word(page, "bébé").get_attribute("aria-pressed") == "true"
    assert "With β: description 1 ✗" in verdict(page)
    press(page, "are read, but do not attend")
    assert "With β: description 3 ✓ (0.61)" in verdict(page)


def test_the_weight_moves_to_the_sentence_that_the_document_describes(page):
    sentences = page.locator(".question-sentence")
    assert "β 0.63, equal 0.43" in sentences.nth(1).inner_text()
    press(page, "sentence 1")
    assert "β 0.62, equal 0.57" in sentences.nth(0).inner_text()
    assert "breakdancing" in page.locator(".question table").inner_text()
    largest = word(page, "hommes").get_attribute("aria-label")
    assert largest == "hommes, β 0.31, attends most to description 1"
    assert "With β: description 1 ✗" in verdict(page)


def test_without_the_other_sentence_equal_weights_are_right(page):
    press(page, "Cross out")
    assert verdict(page).count("description 3 ✓") == 2
    page.get_by_role("button", name="Cross out").last.click()
    assert verdict(page) == "No word attends. Put one back."
    press(page, "Put back")
    assert "It answers without the described sentence." in verdict(page)
    press(page, "Put all back")
    assert "With β: description 3 ✓ (0.61)" in verdict(page)


@pytest.mark.parametrize("title", ["Baby", "Camera", "Three sentences", "Failure"])
def test_one_word_alone_has_all_the_weight(page, title):
    press(page, title)
    for number in range(page.locator(".question-word").count() - 1):
        page.locator(".question-word").nth(number).press(" ")
    alone = page.locator(".question-word").last
    assert "β 1.00" in alone.get_attribute("aria-label")
    beta, even = page.locator(".question table td:nth-child(n + 3)").evaluate_all(
        "all => [0, 1].map(k => all.filter((_, i) => i % 2 === k).map(one => one.textContent))"
    )
    assert beta == even
    assert "NaN" not in page.locator(".question").inner_text()
