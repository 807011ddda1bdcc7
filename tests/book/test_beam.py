"""The beam tree: the page searches as the package does, and says which errors are whose."""

import random

import pytest
import torch

from attention_course.data import numbers
from attention_course.live import beam
from attention_course.tasks.number_translation import french_numbers
from tests.conftest import ROOT

CHAPTER = "01_seq2seq"
SEARCH = """all => all.map(([number, width, alpha]) => {
    const { found, steps } = BeamSearch.search(NumberWords.english(number), width, alpha);
    const words = one => one.tokens.map(token => LIVE_MODEL.target[token]);
    return [
        found.map(one => [BeamSearch.wordsOf(one), one.logProb, one.score]),
        steps.map(all => all.filter(one => one.fate === 'kept').map(words)),
        BeamSearch.judge(NumberWords.english(number), NumberWords.french(number), 0).logProb,
    ];
})"""


@pytest.fixture(scope="module")
def task():
    return french_numbers()


@pytest.fixture(scope="module")
def model():
    return beam.model()


@pytest.fixture
def tree(visit_live):
    return visit_live(CHAPTER, "live-beam")


@pytest.mark.parametrize(
    ("width", "alpha"), [(1, 0.0), (2, 0.0), (3, 1.0), (4, 4.0), (5, 0.0)]
)
def test_the_page_finds_what_the_package_finds(tree, task, model, width, alpha):
    chosen = [pair.number for pair in random.Random(width).sample(task.test_pairs, 100)]
    pages = tree.evaluate(SEARCH, [[number, width, alpha] for number in chosen])
    found, _ = beam.search(task, model, chosen, width, alpha)
    for row, (shown, _, _) in enumerate(pages):
        count = int(found.log_probs[row].isfinite().sum())
        assert len(shown) == count
        scores = torch.tensor([score for _, _, score in shown])
        torch.testing.assert_close(
            scores, found.scores[row, :count], atol=2e-4, rtol=1e-4
        )
        # hypotheses whose scores are equal may change places
        for rank, (words, log_prob, _) in enumerate(shown):
            if (scores - scores[rank]).abs().lt(1e-3).sum() == 1:
                assert words == list(task.target.decode(found.tokens[row, rank]))
                assert log_prob == pytest.approx(
                    found.log_probs[row, rank].item(), abs=1e-3
                )


def test_it_keeps_the_prefixes_that_the_package_keeps(tree, task, model):
    chosen = [pair.number for pair in random.Random(9).sample(task.test_pairs, 40)]
    pages = tree.evaluate(SEARCH, [[number, 3, 0] for number in chosen])
    for number, (_, steps, reference) in zip(chosen, pages, strict=True):
        _, kept = beam.search(task, model, [number], 3)
        for shown, rows in zip(steps, kept[1:], strict=False):
            expected = [list(task.target.decode(row[1:])) for row in rows]
            assert sorted(shown) == sorted(expected)
        (expected,) = beam.log_probs(
            task, model, number, [numbers.french_words(number)]
        )
        assert reference == pytest.approx(expected, abs=1e-3)


def test_the_still_picture_shows_the_same_search(task, model):
    shown = beam.recorded()
    del shown["errors"]
    assert shown == beam.rounded(beam.still(task, model))


@pytest.mark.slow
def test_the_errors_of_all_widths_are_those_on_record(task, model):
    assert beam.errors(task, model) == beam.recorded()["errors"]


def test_the_text_says_what_is_on_record():
    text = (ROOT / "book" / f"{CHAPTER}.md").read_text("utf-8")
    _, searching, modelling = zip(*beam.recorded()["errors"], strict=True)
    assert sum(beam.recorded()["errors"][0]) == 534
    assert (
        f"on the 534 test numbers fall from {searching[0]} to {searching[2]}, while the"
        f" model errors rise from {modelling[0]} to {modelling[2]}." in text
    )


def verdict(page, number, width):
    page.fill("#beam-input", number)
    page.get_by_label("Beam width B").fill(str(width))
    return page.locator(".beam-verdict").inner_text()


def test_the_examples_of_the_text_are_what_it_says(tree):
    assert tree.locator(".beam-verdict").inner_text().startswith("✓ Exact")
    assert verdict(tree, "7164", 1).startswith("Search error")
    assert "(7,184)" in tree.locator(".beam table").first.inner_text()
    for width in range(1, 6):
        assert verdict(tree, "1984", width).startswith("Model error")
        assert "(1,980)" in tree.locator(".beam table tr").first.inner_text()
        right = "✓ Exact" if width == 1 else "Model error"
        assert verdict(tree, "6925", width).startswith(right)


def test_a_length_penalty_makes_sentences_longer(tree):
    before = tree.locator(".beam-row").count()
    tree.get_by_label("Length penalty α").fill("4")
    assert tree.locator(".beam-row").count() > before + 10
    assert "score" in tree.locator(".beam table").first.inner_text()


@pytest.mark.parametrize(
    "typed",
    ["", "0", "-3", "9" * 9999, "<img src=x onerror=alert(1)>", "ninety ninety"],
)
def test_what_is_no_number_is_said_and_loses_nothing(tree, typed):
    before = tree.locator(".beam-tree").inner_text()
    tree.fill("#beam-input", typed)
    assert tree.locator(".play-problem").inner_text()
    assert tree.locator(".beam img").count() == 0
    tree.fill("#beam-input", "twenty")
    assert tree.locator(".play-problem").inner_text() == ""
    assert tree.locator(".beam-tree").inner_text() != before


def test_arrow_keys_walk_over_the_tree_and_show_the_competition(tree):
    tree.locator(".beam-cell[tabindex='0']").focus()
    for key in ("ArrowUp", "ArrowDown", "ArrowRight"):
        tree.keyboard.press(key)
    chosen = tree.locator(".beam-cell.beam-chosen")
    assert chosen.evaluate("one => one === document.activeElement")
    step = tree.locator(".beam-step")
    assert "best extensions" in step.inner_text()
    for sums in step.locator("td:nth-child(2)").all_inner_texts():
        prefix, sign, added, total = sums.replace("−", "-").replace("= ", "").split(" ")
        step_sum = float(prefix) + float(sign + added)
        assert step_sum == pytest.approx(float(total), abs=0.011)
