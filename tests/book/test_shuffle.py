"""Shuffled words: the page computes what PyTorch computes, in every order, and says what has moved."""

import random
import re
from itertools import permutations

import pytest
import torch

from attention_course.data import comparisons
from attention_course.live import shuffle, weights
from attention_course.studies import synthesizer as study
from companion.attention import record_weights
from tests.conftest import ROOT

FIRST = ("five", "deux", "twenty", "vingt")
COMPUTE = """([kind, all]) => all.map(words => ShuffleModel[kind](words))"""
CELLS = """(kind) => [...document.querySelectorAll(
    `.shuffle-card[aria-label="${kind}"] .play-weights`)].map(
    grid => [...grid.querySelectorAll('[role=gridcell]')].map(cell => Number(cell.textContent)))"""


@pytest.fixture(scope="module")
def task():
    return study.shared()[0]


@pytest.fixture(scope="module")
def test():
    return study.shared()[1]


@pytest.fixture(scope="module")
def content():
    return weights.read(shuffle.SCRIPT.read_text("utf-8"))


@pytest.fixture(scope="module")
def models(task, content):
    return {
        kind: shuffle.restore(task, kind, content["models"][kind])
        for kind in shuffle.KINDS
    }


@pytest.fixture
def page(visit_live):
    return visit_live("08_synthesizer", "live-shuffle")


@torch.no_grad()
def by_the_package(task, model, sources):
    """The weights ``(sources, heads, n, n)`` and the probabilities."""
    tokens = torch.tensor([task.words.encode(words) for words in sources])
    with record_weights(model.encoder) as maps:
        probabilities = model(tokens).softmax(-1)
    return next(iter(maps.values()))[0], probabilities


@pytest.mark.parametrize("kind", shuffle.KINDS)
def test_weights_and_answers_are_those_of_the_package(page, task, test, models, kind):
    generator = random.Random(0)
    sources = [example.texts[0] for example in test]
    sources += [words[: generator.randint(1, 3)] for words in sources[:50]]
    sources += [(*words, *generator.sample(words, 4)) for words in sources[:50]]
    for length in {len(words) for words in sources}:
        some = [words for words in sources if len(words) == length]
        found = page.evaluate(COMPUTE, [kind, some])
        expected = by_the_package(task, models[kind], some)
        for name, tensor in zip(("weights", "probabilities"), expected, strict=True):
            numbers = torch.tensor([one[name] for one in found], dtype=torch.float32)
            torch.testing.assert_close(numbers, tensor, atol=1e-4, rtol=0)


def test_the_script_says_what_its_models_reach(task, test, models, content):
    for kind, model in models.items():
        assert content["measured"][kind] == shuffle.measure(task, model, test)
    chapter = (ROOT / "book" / "08_synthesizer.md").read_text("utf-8")
    same = {kind: content["measured"][kind]["same"] for kind in shuffle.KINDS}
    stated = re.search(
        r"for (\d+) % of the test sources, whereas .* for (\d+) %", chapter
    )
    assert [*map(int, stated.groups())] == [
        round(100 * same[kind]) for kind in ("random", "dot product")
    ]


def test_every_order_is_answered(page, task, models):
    orders = [[FIRST[i] for i in order] for order in permutations(range(4))]
    said = page.locator(".shuffle-card").all_inner_texts()
    for text, model in zip(said, models.values(), strict=True):
        _, probabilities = by_the_package(task, model, orders)
        shared = probabilities[:, task.labels.index("shared")]
        assert f"right in {int((shared > 0.5).sum())} of 24 orders" in text
        last = ("shared", shared[-1]) if shared[-1] > 0.5 else ("none", 1 - shared[-1])
        assert re.search(rf"{last[0]}.*, {round(100 * last[1].item())}\s%", text)


def test_what_moves_is_told_apart(page):
    least = page.locator(".shuffle-least th").all_inner_texts()
    assert least == ["rows and columns", "the rows", "nothing"]
    now, before = page.evaluate(CELLS, "Random table")
    assert now == before
    rows = [page.evaluate(CELLS, kind) for kind in ("Dense", "Dot product")]
    assert all(now != before for now, before in rows)
    page.get_by_role("button", name="First order").click()
    assert page.locator(".shuffle-least").count() == 0
    now, before = page.evaluate(CELLS, "Dot product")
    assert now == before


def test_two_words_are_swapped_by_the_keyboard(page):
    words = page.get_by_role("group", name="Words").get_by_role("button")
    assert [text.split()[1] for text in words.all_inner_texts()] == [*FIRST[::-1]]
    words.nth(0).press("Enter")
    assert words.nth(0).get_attribute("aria-pressed") == "true"
    words.nth(3).press("Space")
    assert [text.split()[1] for text in words.all_inner_texts()] == [
        "five",
        "twenty",
        "deux",
        "vingt",
    ]
    assert page.get_by_role("status").inner_text().startswith("five twenty deux vingt")


def test_a_cell_chooses_a_pair_in_all_grids(page):
    page.get_by_role("button", name="Head 3").click()
    grid = page.get_by_role("grid", name="Dense, now")
    grid.get_by_role("gridcell").first.focus()
    page.keyboard.press("ArrowRight")
    assert page.locator(".play-chosen").count() == 6
    for text in page.locator(".shuffle-pair").all_inner_texts():
        assert text.startswith("vingt to twenty: ")


def test_other_words_ask_the_same_question(page):
    words = page.get_by_role("group", name="Words").get_by_role("button")
    for number in range(20):
        page.get_by_role("button", name="Other words").click()
        shown = {text.split()[1] for text in words.all_inner_texts()}
        english = shown & set(comparisons.TRANSLATIONS)
        french = shown & set(comparisons.TRANSLATIONS.values())
        assert len(english) == len(french) == 2
        shared = {comparisons.TRANSLATIONS[word] for word in english} & french
        assert len(shared) == number % 2
        said = page.locator(".shuffle > p > b").inner_text()
        assert said.startswith("Yes") == bool(shared)
