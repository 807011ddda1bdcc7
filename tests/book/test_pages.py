"""What a browser gets: pages that say what they are, whose parts do not move, and a map to walk on."""

import re
from itertools import pairwise
from urllib.parse import urlsplit

import lxml.html
import pypdfium2
import pytest
from playwright.sync_api import Page
from stamp import repository_url

from tests.book.conftest import MATH_IS_SET, OPEN, PIXEL, RAW, boxes, stop_clock
from tests.conftest import ROOT
from tests.contracts.subjects import SUBJECTS

PAGES = sorted(path.name for path in ROOT.glob("_build/html/book/*.html"))
CHAPTERS = [name for name in PAGES if name[0].isdigit()]
DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
# Pages with formulas, pictures, wide tables or long words at its top.
FIRST_SEEN = [
    "index",
    "03_attention",
    "06_transformer",
    "errata",
    "glossary",
    "api_attention",
]
# On a desktop and on a phone in turn, and by the slow tests on both.
FIRST_VISITS = [
    pytest.param(
        name, screen, marks=[pytest.mark.slow] * ((i + j) % 2), id=f"{name}-{kind}"
    )
    for i, name in enumerate(FIRST_SEEN)
    for j, (kind, screen) in enumerate([("desktop", DESKTOP), ("phone", PHONE)])
]
NOTE_SHIFTS = """
window.shifted = 0;
new PerformanceObserver(list => {
    for (const shift of list.getEntries()) window.shifted += shift.value;
}).observe({ type: "layout-shift", buffered: true });
"""
SITE = "http://book.test"
IS_PAINTED = "() => performance.getEntriesByName('first-contentful-paint').length"
# A frame is drawn, and what moved in it is noted.
NEXT_FRAME = """() => new Promise(resume =>
    requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(resume))))"""


@pytest.fixture
def arrive(browser, html):
    """Open a page of the book, from the disk, on a screen of a size, and do nothing on it."""
    contexts = []

    def open_page(name, screen=DESKTOP, go=Page.goto, scheme=None):
        contexts.append(
            browser.new_context(
                viewport=screen, color_scheme=scheme, reduced_motion="reduce"
            )
        )
        page = contexts[-1].new_page()
        go(page, (html / "book" / name).as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()


@pytest.fixture
def visit(arrive):
    """The same, with all its formulas set."""

    def open_page(*args, **options):
        page = arrive(*args, **options)
        page.wait_for_function(MATH_IS_SET)
        return page

    return open_page


@pytest.mark.parametrize("name", PAGES)
def test_a_page_says_its_language_its_title_and_what_it_is_about(name, html):
    head, body = (html / "book" / name).read_text("utf-8").split("<body", 1)
    heading = re.search(r"<h1>(.*?)<a", body)[1]
    assert re.search(r'<html lang="en"', head)
    assert heading in re.search(r"<title>(.*?)</title>", head)[1]
    (description,) = re.findall(r'<meta name="description" content="([^"]*)" />', head)
    assert 20 <= len(description) <= 200
    assert "\n" not in description
    assert head.count('name="viewport"') == 1


def shared(page):
    """What a page says to those who share it, by the names of Open Graph."""
    text = page.read_text("utf-8")
    found = re.findall(r'<meta property="og:(\w+)" content="([^"]*)" />', text)
    assert len(dict(found)) == len(found)
    return dict(found)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_says_to_those_who_share_it_what_it_says_to_all(name, html):
    said = shared(html / "book" / name)
    head = (html / "book" / name).read_text("utf-8").split("<body", 1)[0]
    titles = dict.fromkeys([said["title"], said["site_name"]])  # on the first page one
    assert f"<title>{' &#8212; '.join(titles)}</title>" in head
    assert f'name="description" content="{said["description"]}"' in head
    assert not re.search(r"&[^;]*$", said["description"])  # a character that is cut
    addressed = {"url", "image"} if repository_url() else set()
    assert {"url", "image"} & said.keys() == addressed


def test_no_two_pages_say_the_same_of_themselves(html):
    texts = [(html / "book" / name).read_text("utf-8") for name in PAGES]
    for pattern in (r"<title>(.*?)</title>", r'name="description" content="([^"]*)"'):
        found = [re.search(pattern, text)[1] for text in texts]
        assert len(set(found)) == len(found)


@pytest.mark.parametrize("name", PAGES)
def test_the_room_of_every_picture_is_known_before_it_comes(name, html):
    for picture in re.findall(
        r"<img\b[^>]*>", (html / "book" / name).read_text("utf-8")
    ):
        assert (
            re.search(r'\bwidth="\d+" height="\d+"', picture) or "data:" in picture
        ), picture


def answer(route):
    """Send a file of the book, as from a server: on a disk faces may come late and move the text."""
    file = urlsplit(route.request.url).path[1:]
    route.fulfill(path=ROOT / "_build" / "html" / file)


def go_noting_shifts(page, address):
    """Go to a page on a server and note what moves in it; its formulas are set after it is painted."""
    page.route(f"{SITE}/**", answer)
    note_shifts(page, address)


def note_shifts(page, address):
    """The same, where the test has said what a server answers."""
    page.add_init_script(NOTE_SHIFTS)
    page.goto(f"{SITE}/book/{address.rpartition('/')[2]}", wait_until="commit")
    page.wait_for_function(IS_PAINTED)


@pytest.mark.parametrize(("name", "screen"), FIRST_VISITS)
def test_little_moves_while_a_page_loads(name, screen, visit):
    page = visit(f"{name}.html", screen, go_noting_shifts)
    page.evaluate(NEXT_FRAME)
    assert page.evaluate("window.shifted") < 0.02


@pytest.mark.parametrize("name", ["glossary", "bibliography"])
def test_a_face_that_comes_late_moves_nothing(name, arrive):
    held = []

    def go(page, address):
        page.route(f"{SITE}/**", answer)
        page.route("**/*.woff2", lambda route: held.append(route))
        note_shifts(page, address)

    page = arrive(f"{name}.html", PHONE, go)
    assert held
    for route in held:
        answer(route)
    page.evaluate("document.fonts.ready.then(() => true)")
    page.evaluate(NEXT_FRAME)
    assert page.evaluate("window.shifted") < 0.001


def test_a_page_that_moves_is_noticed(visit):
    page = visit("index.html", DESKTOP, go_noting_shifts)
    page.evaluate("document.querySelector('article').style.paddingTop = '500px'")
    page.evaluate(NEXT_FRAME)
    assert page.evaluate("window.shifted") > 0.1


UNSET = """[...document.querySelectorAll("article .math")]
    .filter(formula => !formula.querySelector("mjx-container")).length"""
NOTE_BATCHES = """() => {
    window.batches = [];
    const { typesetPromise } = MathJax;
    MathJax.typesetPromise = formulas => {
        batches.push(formulas.length);
        return typesetPromise(formulas);
    };
}"""


def test_formulas_are_set_a_few_at_a_time(arrive):
    page = arrive("01_seq2seq.html")  # its first screen has no formula
    page.evaluate(NOTE_BATCHES)
    page.wait_for_function(MATH_IS_SET)
    batches = page.evaluate("batches")
    assert sum(batches) == page.locator("article .math").count() > 20
    assert max(batches) <= 3
    assert page.evaluate(UNSET) == 0


@pytest.mark.parametrize(
    "move",
    [
        lambda page: page.evaluate("scrollBy(0, 100)"),
        lambda page: page.mouse.move(50, 50),
        lambda page: page.keyboard.press("Tab"),
    ],
    ids=["scroll", "pointer", "key"],
)
def test_other_formulas_are_set_when_the_reader_first_does_something(move, arrive):
    page = arrive("01_seq2seq.html")
    page.wait_for_load_state("networkidle")
    assert page.evaluate(UNSET) == page.locator("article .math").count() > 0
    move(page)
    page.wait_for_function(f"{UNSET} === 0")


FIRST_IS_SET = "document.querySelector('article .math mjx-container')"


def test_formulas_on_the_screen_are_set_at_once(arrive):
    page = arrive("errata.html")
    page.wait_for_function(FIRST_IS_SET)
    last = page.locator("article .math").last
    assert last.locator("mjx-container").count() == 0


@pytest.mark.parametrize("name", ["06_transformer.html", "errata.html"])
def test_a_page_that_is_printed_at_once_has_no_raw_formula(name, arrive):
    page = arrive(name)
    assert page.evaluate(UNSET) > 50
    with pypdfium2.PdfDocument(page.pdf()) as printed:
        text = "".join(one.get_textpage().get_text_bounded() for one in printed)
    assert "Vaswani" in text
    assert not RAW.findall(text)


def test_what_a_page_looks_like_on_paper_can_be_seen_on_the_screen(arrive):
    def go(page, address):
        stop_clock(page)  # and with it what sets the formulas later
        page.goto(address)

    page = arrive("errata.html", go=go)
    page.emulate_media(media="print")
    page.wait_for_function(f"{UNSET} === 0")


def test_no_line_begins_with_the_comma_after_a_formula(visit):
    page = visit("06_transformer.html", PHONE)
    lines = page.locator(".unbroken").evaluate_all(
        "spans => spans.map(span => span.getClientRects().length)"
    )
    assert len(lines) > 20
    assert set(lines) <= {0, 1}  # none in what is folded
    followed = page.locator("span.math:not(.unbroken > *)").evaluate_all(
        "formulas => formulas.map(one => one.nextSibling?.data?.[0] ?? '')"
    )
    assert not set(followed) & set(".,;:!?)")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_first_visit_is_shown_in_the_colours_of_the_system(scheme, arrive):
    def go(page, address):
        page.route("**/pydata-sphinx-theme.js*", lambda route: route.abort())
        page.goto(address)

    page = arrive("index.html", go=go, scheme=scheme)
    assert page.evaluate("document.documentElement.dataset.theme") == scheme


@pytest.mark.parametrize("screen", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_the_map_is_large_enough_for_a_finger_and_in_one_order(screen, visit):
    page = visit("index.html", screen)
    cards = boxes(page.locator(".stages ul li"))
    assert len(cards) > 20
    for card in cards:
        assert card["height"] >= 44 - PIXEL
        assert card["width"] >= 120 - PIXEL
        assert 0 <= card["left"] <= card["right"] <= screen["width"] + PIXEL
    for part in (".stages ul li", ".stages > li > p"):
        rows = [box["y"] for box in boxes(page.locator(part))]
        assert all(lower >= upper - PIXEL for upper, lower in pairwise(rows))


def test_a_click_anywhere_on_a_card_opens_its_section(visit):
    page = visit("index.html")
    card = page.locator(".stages ul li").last
    goal = card.locator("a").evaluate("link => link.href")
    card.click(position={"x": 5, "y": 5})
    page.wait_for_url(goal)
    assert (
        page.evaluate(
            "document.querySelector(location.hash).getBoundingClientRect().top"
        )
        < DESKTOP["height"]
    )


def test_the_keyboard_walks_over_the_map_and_shows_where_it_is(visit):
    page = visit("index.html")
    links = page.locator(".stages a")
    links.first.focus()
    for index in range(links.count()):
        here = links.nth(index)
        assert here.evaluate("link => link === document.activeElement")
        assert here.evaluate(
            "link => getComputedStyle(link).outlineStyle !== 'none' || "
            "getComputedStyle(link).boxShadow !== 'none'"
        )
        page.keyboard.press("Tab")


@pytest.mark.parametrize("name", ["index.html", "02_bahdanau.html"])
def test_what_is_pressed_is_large_enough_on_a_phone(name, arrive):
    page = arrive(name, PHONE)
    pressed = page.locator(
        "header button, .bd-header-article button, article summary, .prev-next-footer a"
    )
    for box in boxes(pressed.locator("visible=true")):
        assert min(box["width"], box["height"]) >= 24 - PIXEL


def test_the_way_back_to_the_top_covers_no_text_on_a_phone(arrive):
    page = arrive("02_bahdanau.html", PHONE)
    page.evaluate("scrollTo(0, 3000)")
    page.wait_for_function("scrollY === 3000")
    page.evaluate("scrollBy(0, -300)")
    button = page.get_by_role("button", name="Back to top")
    button.wait_for()
    (box,) = boxes(button)
    (bar,) = boxes(page.locator(".bd-header-article"))
    assert box["bottom"] <= bar["bottom"] + PIXEL
    assert min(box["width"], box["height"]) >= 24 - PIXEL
    for other in boxes(page.locator(".bd-header-article button:visible")):
        assert box["right"] <= other["left"] or other["right"] <= box["left"]
    button.click()
    page.wait_for_function("scrollY === 0")


ON_PAPER = {"width": 672, "height": 972}  # A4 without its margins
CUT_OFF = """() => [...document.querySelectorAll('article :is(pre, table, img, svg)')].filter(
    part => part.checkVisibility() && part.getBoundingClientRect().right > innerWidth + 1
).map(part => part.outerHTML.slice(0, 200))"""
UNBROKEN = """() => [...document.querySelectorAll('.cell, .cell_input, .cell_input *')].filter(
    part => getComputedStyle(part).breakInside !== 'auto'
).length"""
CODE_CUT_OFF = """() => [...document.querySelectorAll('article pre')].filter(
    code => code.scrollWidth > code.clientWidth + 1).map(code => code.textContent)"""
NAVIGATION = (
    "header, nav, .bd-sidebar, .prev-next-footer, .headerlink, .copybtn, footer"
)


@pytest.mark.parametrize("name", ["02_bahdanau.html", "errata.html"])
def test_a_printed_page_has_no_navigation_and_nothing_is_cut_off(name, visit):
    page = visit(name, ON_PAPER)
    page.emulate_media(media="print")
    page.locator("article details").evaluate_all(OPEN)
    assert not page.evaluate(CUT_OFF)
    assert not page.evaluate(UNBROKEN)
    assert not page.locator(NAVIGATION).locator("visible=true").count()
    assert not page.evaluate(CODE_CUT_OFF)
    lines, colours = zip(
        *page.locator("article p a").evaluate_all(
            "links => links.map(link => [getComputedStyle(link).textDecorationLine,"
            " getComputedStyle(link).color === getComputedStyle(link.parentElement).color])"
        ),
        strict=True,
    )
    assert set(lines) == {"none"}
    assert all(colours)


def test_a_cell_that_is_folded_is_not_printed_and_an_open_one_is(arrive):
    page = arrive("02_bahdanau.html", ON_PAPER)
    page.emulate_media(media="print")
    folded = page.locator(".cell details.hide")
    assert folded.count() > 5
    assert not folded.locator("visible=true").count()
    folded.last.evaluate("cell => { cell.open = true }")
    assert folded.last.is_visible()


SIZES_OF_TEXT = """drawings => drawings.map(
    drawing => drawing.getScreenCTM().a * parseFloat(drawing.getAttribute('font-size')))"""


def test_the_text_of_a_tall_drawing_can_be_read_on_paper(arrive):
    page = arrive("06_transformer.html", ON_PAPER)
    page.emulate_media(media="print")
    sizes = page.locator("svg.drawing").evaluate_all(SIZES_OF_TEXT)
    assert sizes[0] >= 12  # pixels, which are 9 points


def test_a_dark_page_is_printed_as_a_light_one(visit):
    page = visit("notation.html")
    page.emulate_media(color_scheme="dark")
    theme = "document.documentElement.dataset.theme"
    page.wait_for_function(f"{theme} === 'dark'")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate(theme) == "light"
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.evaluate(theme) == "dark"


LONGEST_CUT_OFF = """() => [...document.querySelectorAll('article .cell_input pre')].filter(
    code => code.scrollWidth > code.clientWidth + 1
).map(code => code.textContent.split('\\n').reduce((a, b) => a.length < b.length ? b : a))"""


SCREEN = 800  # pixels
LAPTOP = {"width": 1280, "height": SCREEN}
HEIGHTS = """() => [...document.querySelectorAll('article :is(img, svg.drawing, svg.plot)')].map(
    figure => figure.getBoundingClientRect().height
)"""
FIRST_PICTURE = """() => {
    const pictures = [
        ...document.querySelectorAll('article :is(img, svg.drawing, svg.plot, .play)')
    ];
    return pictures.find(one => one.checkVisibility()).getBoundingClientRect().top + scrollY;
}"""


@pytest.mark.parametrize("name", CHAPTERS)
def test_a_chapter_fits_its_screens(name, visit):
    """A picture on the first screen, no figure taller than one or too small to read, and all of the code."""
    page = visit(name, LAPTOP)
    assert page.evaluate(FIRST_PICTURE) <= SCREEN
    assert max(page.evaluate(HEIGHTS)) < SCREEN
    assert (
        min(page.locator("svg.drawing").evaluate_all(SIZES_OF_TEXT), default=11) >= 11
    )
    page.set_viewport_size(PHONE)
    assert page.evaluate(FIRST_PICTURE) <= SCREEN
    page.set_viewport_size(LAPTOP)
    page.locator("article details").evaluate_all(OPEN)
    assert page.evaluate(LONGEST_CUT_OFF) == []


def test_no_formula_of_the_first_page_is_cut_off_on_a_phone(visit):
    formula = visit("index.html", PHONE).locator('mjx-container[display="true"]')
    assert formula.evaluate("one => one.scrollWidth <= one.clientWidth + 1")


def test_the_tables_of_compatibility_have_every_subject_and_every_refusal(html):
    page = lxml.html.parse(str(html / "book" / "compatibility.html"))
    tables = "//div[contains(@class, 'mechanisms') or contains(@class, 'models')]"
    rows = page.xpath(f"{tables}//tbody/tr")
    assert len(rows) == len(SUBJECTS)
    marks = {cell.text_content() for row in rows for cell in row[2:]}
    letters = page.xpath("//div[contains(@class, 'refusals')]//tbody/tr/td[1]")
    assert marks == {"✓", *(letter.text_content() for letter in letters)}


@pytest.mark.parametrize("name", ["index", "06_transformer", "bench", "api_attention"])
def test_no_script_delays_what_is_shown_first(name, html):
    head = lxml.html.parse(str(html / "book" / f"{name}.html")).find("head")
    scripts = head.xpath(".//script[@src]")
    assert len(scripts) > 8
    assert all("defer" in script.attrib for script in scripts)


def test_formulas_are_no_stops_of_the_keyboard(visit):
    page = visit("06_transformer.html")
    formulas = page.locator("article mjx-container")
    assert formulas.count() > 100
    assert not page.locator("article mjx-container[tabindex]").count()
    assert formulas.first.locator(
        "mjx-assistive-mml math"
    ).count()  # for screen readers
