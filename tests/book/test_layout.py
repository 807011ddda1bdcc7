"""A page is shown before all of it is laid out or loaded; in the end nothing differs."""

import pytest

from tests.book.conftest import (
    IMAGES_ARE_LOADED,
    KEYBOARD_REACHES_ALL,
    MATH_IS_SET,
    OPEN,
    PIXEL,
    TRAINING_IS_KNOWN,
)

PHONE = {"width": 390, "height": 844}
BLOCKS = ".bd-article section section[id] > :not(section)"
WAITING = """blocks => blocks.filter(
    block => getComputedStyle(block).contentVisibility === 'auto').length"""
IS_LAID_OUT = f"""() => [...document.querySelectorAll('{BLOCKS}')].every(
    block => getComputedStyle(block).contentVisibility === 'visible')"""
PLACES = """parts => parts.map(part => {
    const { x, y, width, height } = part.getBoundingClientRect();
    return [part.tagName, x, y + scrollY, width, height];
})"""
HAS_ARRIVED = """() => {
    const { top } = document.querySelector(':target').getBoundingClientRect();
    return 0 <= top && top < innerHeight;
}"""


@pytest.fixture
def phone(browser, html):
    """Open a page of the book on a phone, where the scripts may be left out whose names are given."""
    contexts = []

    def open_page(address, *blocked, **options):
        contexts.append(browser.new_context(viewport=PHONE, **options))
        page = contexts[-1].new_page()
        for script in blocked:
            page.route(f"**/{script}*", lambda route: route.abort())
        page.goto(f"{html.as_uri()}/book/{address}")
        return page

    yield open_page
    for context in contexts:
        context.close()


@pytest.mark.parametrize("name", ["01_seq2seq", "02_bahdanau", "12_modern"])
def test_slices_give_the_layout_of_the_whole(name, phone):
    sliced, whole = phone(f"{name}.html"), phone(f"{name}.html#main-content")
    assert whole.locator("html.in-slices").count() == 0
    assert sliced.locator("html.in-slices").count() == 1
    places = []
    for page in (sliced, whole):
        page.wait_for_function(IS_LAID_OUT)
        page.wait_for_function(MATH_IS_SET)
        page.wait_for_function(TRAINING_IS_KNOWN)
        page.wait_for_function(IMAGES_ARE_LOADED)
        parts = page.locator(".bd-article *:not(mjx-container *, svg *)")
        places.append(parts.evaluate_all(PLACES))
    assert len(places[0]) > 200
    for (tag, *one), (other_tag, *other) in zip(*places, strict=True):
        assert tag == other_tag
        assert one == pytest.approx(other, abs=PIXEL)


@pytest.mark.parametrize("name", ["glossary", "bench", "api_attention"])
def test_a_page_that_is_no_chapter_is_laid_out_at_once(name, phone):
    assert phone(f"{name}.html", "layout.js").evaluate(IS_LAID_OUT)


def test_what_is_below_the_screen_waits(phone):
    blocks = phone("01_seq2seq.html", "layout.js").locator(BLOCKS)
    assert blocks.evaluate_all(WAITING) == blocks.count() > 100


def test_a_link_leads_to_a_place_that_does_not_move_afterwards(phone):
    page = phone("errata.html")
    page.add_init_script("window.setTimeout = () => {}")  # no slice
    page.goto(page.url.replace("errata", "01_seq2seq"))
    assert not page.evaluate(IS_LAID_OUT)
    page.locator(".bd-article a.headerlink").last.evaluate("link => link.click()")
    assert page.evaluate(IS_LAID_OUT)
    page.wait_for_function(HAS_ARRIVED)


@pytest.mark.parametrize("javascript", [True, False])
def test_a_page_that_may_not_open_at_its_top_is_laid_out_at_once(javascript, phone):
    page = phone("01_seq2seq.html", "layout.js", java_script_enabled=javascript)
    assert page.evaluate(IS_LAID_OUT) is not javascript
    page.reload()
    assert page.evaluate(IS_LAID_OUT)


def test_the_theme_does_not_measure_each_part_again(phone):
    pages = [phone("06_transformer.html", *blocked) for blocked in ((), ("layout.js",))]
    of_theme = []
    for page in pages:
        page.wait_for_load_state()
        of_theme.append(page.locator("article pre[tabindex='-1']").count())
    assert of_theme[0] == 0 < of_theme[1]


def test_the_keyboard_reaches_code_that_was_folded(phone):
    page = phone("06_transformer.html")
    page.wait_for_function(IS_LAID_OUT)
    narrow = "one => { one.style.cssText = 'white-space: pre; width: 100px' }"
    page.locator("details pre").first.evaluate(narrow)  # code is wrapped on a phone
    page.locator("details").evaluate_all(OPEN)
    page.wait_for_function(KEYBOARD_REACHES_ALL)
    assert page.locator("details pre[tabindex='0']").count() > 0


def test_the_keyboard_reaches_a_table_that_becomes_wider_and_not_higher(phone):
    page = phone("11_convs2s.html")
    page.wait_for_function(IS_LAID_OUT)
    page.wait_for_function(MATH_IS_SET)
    box = page.locator(".pst-scrollable-table-container").first
    box.evaluate("one => { one.style.height = '100px'; one.id = 'box' }")
    resize = """(table, width) => {
        table.style.cssText = `display: block; overflow: hidden; height: 50px; width: ${width}px`;
    }"""
    page.locator("#box > table").evaluate(resize, 50)
    page.locator("#box:not([tabindex])").wait_for()
    page.locator("#box > table").evaluate(resize, 1000)
    page.locator("#box[tabindex='0']").wait_for()


def test_weights_are_asked_for_after_all_that_the_page_needs(phone):
    page, requests = phone("errata.html"), []
    page.on("request", lambda request: requests.append(request.url.split("/")[-1]))
    page.goto(page.url.replace("errata", "02_bahdanau"))
    page.locator(".live-attended li").first.wait_for()
    order = [file.partition("?")[0] for file in requests]
    needed = ["book.css", "live.css", "layout.js", "pydata-sphinx-theme.js"]
    assert max(map(order.index, needed)) < order.index("weights.js")
