"""On a phone all text of figures can be read, and no code is cut off."""

import pytest

from tests.book.conftest import KEYBOARD_REACHES_ALL, OPEN
from tests.conftest import ROOT

CHAPTERS = sorted(path.stem for path in ROOT.glob("book/[0-9]*.ipynb"))
WIDTH, NARROWEST = 390, 320
SMALL = """() => [...document.querySelectorAll('article figure svg text:not(:empty)')].filter(
    text => !text.closest('.live') && text.getBoundingClientRect().width).map(text => {
        const { a, b } = text.ownerSVGElement.getScreenCTM();
        return [text.textContent, parseFloat(getComputedStyle(text).fontSize) * Math.hypot(a, b)];
    }).filter(([, size]) => size < 8.95)"""
CUT_OFF = """() => [...document.querySelectorAll('article .cell_input pre')].filter(
    code => code.scrollWidth > code.clientWidth + 1).map(code => code.textContent.slice(0, 80))"""


@pytest.fixture
def phone(browser, html):
    page = browser.new_page(viewport={"width": WIDTH, "height": 844})

    def read(name):
        page.goto(f"{html.as_uri()}/book/{name}.html#main-content")
        page.locator("article details").evaluate_all(OPEN)
        return page

    yield read
    page.close()


@pytest.mark.parametrize("name", CHAPTERS)
def test_labels_have_nine_pixels_and_code_is_wrapped(name, phone):
    page = phone(name)
    assert not page.evaluate(SMALL)
    assert not page.evaluate(CUT_OFF)
    assert page.evaluate("document.documentElement.scrollWidth") <= WIDTH
    page.set_viewport_size({"width": NARROWEST, "height": 700})
    assert not page.evaluate(SMALL)
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROWEST
    page.wait_for_function(KEYBOARD_REACHES_ALL)
