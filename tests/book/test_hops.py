"""A question in two steps: the page computes and shows what PyTorch computes, whatever is in what."""

import random

import pytest
import torch

from attention_course.live import hops, weights
from attention_course.studies import hops as study
from companion.attention.recording import record_weights
from tests.conftest import ROOT

ANSWERS = """all => all.map(([facts, asked, withoutFirst]) =>
    HopsModel.answer(facts, asked, withoutFirst))"""
# What is shown: the facts, what is asked for, and the weights in percent.
SHOWN = """() => {
    const rows = [...document.querySelectorAll('.hops tbody tr')];
    const percent = layer => rows.map(row => parseInt(row.querySelector(`.hops-layer-${layer}`).textContent));
    return {
        facts: rows.map(row => [row.querySelector('button').textContent, row.querySelector('select').value]),
        asked: document.querySelector('.hops tbody [aria-pressed=true]').textContent,
        weights: [percent(1), percent(2)],
    };
}"""
CHANGE = """all => [...document.querySelectorAll('.hops select')].forEach((select, i) => {
    select.value = all[i];
    select.dispatchEvent(new Event('change'));
})"""


@pytest.fixture(scope="module")
def content():
    script = ROOT / "book" / "_static" / "hops" / "weights.js"
    return weights.read(script.read_text("utf-8"))


@pytest.fixture(scope="module")
def model(content):
    return hops.restore(content["model"])


@pytest.fixture
def page(visit_live):
    return visit_live("11_convs2s", "live-hops", reduced_motion="reduce")


@torch.no_grad()
def expected(model, *stories):
    """Answers, their probabilities, and the weights of both layers, by the package."""
    batch = hops.questions(*((facts, asked, asked) for facts, asked in stories))
    with record_weights(model) as recorded:
        probabilities, tokens = model(*batch[:2])[:, 0].softmax(-1).max(-1)
    assert len(recorded) == 2
    found = [passes[0][:, 0] for passes in recorded.values()]
    answers = [study.THINGS[token - study.FIRST] for token in tokens]
    return answers, probabilities, torch.stack(found, 1)


def stories(count, seed):
    """Questions as in training, and others whose facts lead anywhere, in circles too."""
    generator, found = random.Random(seed), []
    for i in range(count):
        things = generator.sample(study.THINGS, 9)
        facts = [(things[j], things[j + 1]) for j in (0, 1, 3, 4, 6, 7)]
        generator.shuffle(facts)
        if i % 2:
            firsts = [a for a, _ in facts]
            facts = [
                (a, generator.choice([b for b in firsts if b != a])) for a in firsts
            ]
        found.append((facts, things[0]))
    return found


def test_the_page_answers_and_attends_as_the_package(page, model):
    asked = stories(200, seed=0)
    for tested, without in ((model, False), (hops.without_first_context(model), True)):
        found = page.evaluate(ANSWERS, [[*one, without] for one in asked])
        answers, probabilities, both = expected(tested, *asked)
        close = torch.testing.assert_close
        close(torch.tensor([x["weights"] for x in found]), both, atol=1e-4, rtol=0)
        close(
            torch.tensor([x["probability"] for x in found]),
            probabilities,
            atol=1e-4,
            rtol=0,
        )
        for one, answer, probability in zip(found, answers, probabilities, strict=True):
            assert one["thing"] == answer or probability < 0.5


def test_the_record_is_of_this_model(model, content):
    assert content["record"] == hops.recorded() == hops.record(model)


def test_what_the_text_says_of_the_page(page, model):
    answer, reason = page.locator(".hops-answer"), page.locator(".hops-reason")
    assert answer.inner_text().startswith("Where is the pen? In the car ✓")
    page.get_by_label("The pen is in").select_option("box")
    assert answer.inner_text().startswith("Where is the pen? In the house ✓")
    said = (
        "pen → box → house: layer 1 reads “pen in box”, layer 2 reads “box in house”."
    )
    assert reason.inner_text().strip() == said
    page.get_by_role("button", name="A chain of three").click()
    assert answer.inner_text().startswith("Where is the pen? In the box ✗")
    assert reason.inner_text().startswith("pen → bag → box → house: ")
    shown = torch.tensor(
        [study.THINGS.index(x) for pair in page.evaluate(SHOWN)["facts"] for x in pair]
    )
    assert torch.equal(shown + study.FIRST, hops.lengthened(hops.opening()).facts[0])
    before = page.evaluate(SHOWN)["weights"]
    page.get_by_role("button", name="Remove the first context").click()
    after = page.evaluate(SHOWN)["weights"]
    assert after[0] == before[0]
    assert max(after[1]) < 60 < 95 < max(before[1])
    assert "✗" in answer.inner_text()
    page.get_by_role("button", name="Start again").click()
    assert answer.inner_text().startswith("Where is the pen? In the car ✓")
    page.get_by_role("button", name="Where is the box?").click()
    assert "No fact says where the house is" in reason.inner_text()


def test_whatever_is_moved_the_page_shows_what_the_package_computes(page, model):
    generator = random.Random(1)
    for i in range(12):
        if i % 3 == 0:
            page.get_by_role("button", name="Other facts").click()
        else:
            page.evaluate(CHANGE, generator.choices(study.THINGS, k=6))
            page.locator(".hops tbody button").nth(i % 6).click()
        shown = page.evaluate(SHOWN)
        _, _, both = expected(model, (shown["facts"], shown["asked"]))
        sums = 100 * both[0].unflatten(1, (-1, 2)).sum(-1)
        found = torch.tensor(shown["weights"]).float()
        torch.testing.assert_close(found, sums, atol=0.6, rtol=0)


def test_one_can_do_all_with_the_keyboard(page):
    page.get_by_role("button", name="Start again").focus()
    for key in ("Tab", "Space", "Tab", "Tab"):
        page.keyboard.press(key)
    pressed = page.get_by_role("button", name="Remove the first context")
    assert pressed.get_attribute("aria-pressed") == "true"
    assert page.evaluate("document.activeElement.ariaLabel") == "The box is in"
    page.keyboard.type("sh")
    assert page.evaluate(SHOWN)["facts"][0] == ["box", "shed"]
    durations = "all => all.map(one => getComputedStyle(one).transitionDuration)"
    assert set(page.locator(".hops-weight div").evaluate_all(durations)) == {"0s"}
