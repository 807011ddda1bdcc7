"""An explorer in a real browser: its tabs, its rows, its keys, and what axe finds."""

import pytest
import torch
from axe_playwright_python.sync_playwright import Axe

from companion.visualization import explore, explore_many
from tests.book.conftest import PIXEL, boxes

TOKENS = ["one", "two"]
WEIGHTS = {"first": torch.eye(2), "second": torch.tensor([[0.4, 0.6], [0.9, 0.1]])}
COLUMN = "head => getComputedStyle(head).backgroundColor.match(/[\\d.]+(?=\\))/)[0]"


@pytest.fixture
def page(browser):
    """A page with two explorers of the same maps, and one of a single map."""
    maps = {name: (weights, TOKENS, TOKENS) for name, weights in WEIGHTS.items()}
    explorers = [
        explore_many(maps, title="Upper"),
        explore_many(maps, title="Lower", first="second"),
        explore(WEIGHTS["second"], TOKENS, TOKENS),
    ]
    body = "".join(f"<div>{explorer._repr_html_()}</div>" for explorer in explorers)
    page = browser.new_page(viewport={"width": 390, "height": 844})
    page.set_content(
        f"<html lang='en'><title>t</title><main><h1>h</h1>{body}</main></html>"
    )
    yield page
    page.close()


def shown(page):
    """The number of each visible table."""
    tables = page.locator("table").all()
    return [number for number, table in enumerate(tables) if table.is_visible()]


def shades(table):
    """The opacity of the shade of each column."""
    heads = table.locator("thead th").all()
    return [float(head.evaluate(COLUMN)) for head in heads]


def test_one_map_of_each_explorer_is_shown_and_a_click_shows_another(page):
    assert shown(page) == [0, 3, 4]
    page.locator("summary", has_text="second").first.click()
    assert shown(page) == [1, 3, 4]


def test_a_tab_opens_by_key_and_tabs_stand_side_by_side(page):
    second = page.locator("summary").nth(1)
    left, right = boxes(page.locator("summary"))[:2]
    assert left["y"] == pytest.approx(right["y"], abs=PIXEL)
    second.focus()
    page.keyboard.press("Enter")
    assert shown(page) == [1, 3, 4]


def test_a_row_shades_the_columns_when_it_is_selected(page):
    table = page.locator("table").last
    assert shades(table) == pytest.approx([0.3, 0.45], abs=0.01)
    table.locator("input").last.focus()
    page.keyboard.press("Space")
    assert shades(table) == pytest.approx([0.675, 0.075], abs=0.01)
    table.locator("tbody tr").first.hover()
    assert shades(table) == pytest.approx([0.3, 0.45], abs=0.01)


def test_axe_finds_nothing(page):
    assert not Axe().run(page).response["violations"]
