"""Head surgery: the page computes what PyTorch computes, also without some heads."""

import random

import pytest
import torch

from attention_course.data import numbers
from attention_course.live import heads, weights
from attention_course.tasks.number_translation import short_numbers
from tests.conftest import ROOT

STATIC = ROOT / "book" / "_static"
TRANSLATE = """all => all.map(([number, off]) =>
    HeadsModel.translate(NumberWords.english(number), new Set(off)))"""
ALL_ARE_WEIGHED = """() => [...document.querySelectorAll('.heads-need')]
    .every(need => need.textContent.trim())"""


@pytest.fixture(scope="module")
def task():
    return short_numbers()


@pytest.fixture(scope="module")
def content():
    return weights.read((STATIC / "heads" / "weights.js").read_text("utf-8"))


@pytest.fixture(scope="module")
def model(task, content):
    return heads.restore(task, content["model"])


@pytest.fixture
def surgery(visit_live):
    return visit_live("06_transformer", "live-heads")


def name(head):
    return ".".join(map(str, head))


def off_together(generator, every):
    return generator.sample(every, generator.randint(2, 6))


def test_the_page_translates_as_the_package_with_these_heads_masked(
    surgery, task, model
):
    generator, every = random.Random(0), heads.every_head(model)
    assert len(every) == 24
    cut = [(), *((head,) for head in every)]
    cut += [tuple(off_together(generator, every)) for _ in range(15)]
    for off in cut:
        chosen = [pair.number for pair in generator.sample(task.test_pairs, 12)]
        asked = [[number, [name(head) for head in off]] for number in chosen]
        found = surgery.evaluate(TRANSLATE, asked)
        expected = heads.translate(task, model, chosen, off)
        assert [tuple(one["words"]) for one in found] == [
            one.target for one in expected
        ]


def test_the_weights_of_all_heads_are_those_of_the_package(surgery, task, model):
    chosen = [pair.number for pair in random.Random(1).sample(task.test_pairs, 40)]
    found = surgery.evaluate(TRANSLATE, [[number, []] for number in chosen])
    for one, expected in zip(found, heads.translate(task, model, chosen), strict=True):
        maps = heads.maps(task, model, expected)
        for kind, layer, head in heads.every_head(model):
            rows = one["seen"][f"{kind}.{layer}"][head]
            for row, weight in zip(rows, maps[kind][layer, head], strict=True):
                width = len(row["weights"])
                torch.testing.assert_close(
                    torch.tensor(row["weights"]).float(),
                    weight[:width],
                    atol=1e-4,
                    rtol=0,
                )
                assert weight[width:].sum() == 0  # the future


def test_the_script_says_what_its_model_reaches_with_and_without_each_head(
    task, model, content
):
    assert content["exactMatch"] == heads.exact_match(task, model)
    assert [tuple(row[:3]) for row in content["without"]] == heads.every_head(model)
    for *head, match in random.Random(2).sample(content["without"], 3):
        assert match == heads.exact_match(task, model, [tuple(head)])


def test_the_still_picture_is_of_the_same_model(task, content):
    assert heads.STILL.read_text("utf-8") == heads.still(task, content)


def test_a_head_that_is_off_is_on_again_afterwards(task, model):
    before = heads.exact_match(task, model)
    assert heads.exact_match(task, model, [("decoder", 0, 1)]) < 0.5 < before
    assert heads.exact_match(task, model) == before


def switch(page, kind, head):
    return page.get_by_role("switch", name=f"{kind} head {head} is on")


def test_a_switch_breaks_the_translation_and_mends_it(surgery):
    cut = surgery.locator(".heads-results dd").nth(2)
    assert "Switch a head off" in cut.inner_text()
    switch(surgery, "decoder", "1.2").click()
    assert cut.inner_text().count("quatre") > 5
    assert "wrong or extra, says no number" in cut.inner_text()
    assert "decoder head 1.2 off" in surgery.locator(".heads-cut").inner_text()
    assert switch(surgery, "decoder", "1.2").get_attribute("aria-checked") == "false"
    surgery.get_by_role("button", name="Switch all on").click()
    assert "Switch a head off" in cut.inner_text()


def test_each_head_is_marked_as_needed_or_not(surgery):
    surgery.wait_for_function(ALL_ARE_WEIGHED)
    needed = surgery.evaluate(
        """() => [...document.querySelectorAll('.heads-card')].map(card => [
            card.querySelector('.heads-switch').ariaLabel,
            card.querySelector('.heads-need').textContent === 'needed'])"""
    )
    assert dict(needed)["decoder head 1.2 is on"]
    assert not dict(needed)["encoder head 1.1 is on"]


@pytest.mark.parametrize(
    "typed",
    [
        "",
        "0",
        "-3",
        "1000000000",
        "9" * 9999,
        "<img src=x onerror=alert(1)>",
        "ninety ninety",
    ],
)
def test_what_is_no_such_number_is_said_and_loses_nothing(surgery, typed):
    before = surgery.locator(".heads-results dd").nth(1).inner_text()
    surgery.fill("#heads-input", typed)
    assert surgery.locator(".play-problem").inner_text()
    assert surgery.locator("#heads-input").get_attribute("aria-invalid") == "true"
    assert surgery.locator(".heads img").count() == 0
    surgery.fill("#heads-input", "twenty")
    assert surgery.locator(".play-problem").inner_text() == ""
    after = surgery.locator(".heads-results dd").nth(1).inner_text()
    assert after.startswith("vingt")
    assert after != before


def test_a_cell_shows_the_arithmetic_of_its_weight(surgery):
    surgery.get_by_role(
        "button", name="Show the weights of cross-attention head 2.1"
    ).click()
    cells = surgery.get_by_role("gridcell")
    words = len(numbers.english_words(97_000_080))
    cells.nth(words + 1).click()  # second row, second column
    said = surgery.locator(".heads-arithmetic").inner_text()
    product, score = (
        float(part.split("=")[-1].split(":")[-1].strip().replace("−", "-"))
        for part in (said.split(";")[0], said.split(";")[1].split(":")[1])
    )
    assert score == pytest.approx(product / 4, abs=0.011)
    label = cells.nth(words + 1).get_attribute("aria-label")
    percent = float(said.split(" % of")[0].split("\u00a0%")[0].split()[-1])
    assert f"{round(percent)}" in label
    surgery.keyboard.press("ArrowRight")
    assert surgery.evaluate("document.activeElement.ariaLabel") == cells.nth(
        words + 2
    ).get_attribute("aria-label")


def test_one_can_do_all_with_the_keyboard(surgery):
    surgery.locator("#heads-input").focus()
    for _ in range(len(heads.KINDS) * 16 + 20):
        surgery.keyboard.press("Tab")
        if (
            surgery.evaluate("document.activeElement.ariaLabel")
            == "cross-attention head 2.4 is on"
        ):
            break
    surgery.keyboard.press("Space")
    assert (
        switch(surgery, "cross-attention", "2.4").get_attribute("aria-checked")
        == "false"
    )
