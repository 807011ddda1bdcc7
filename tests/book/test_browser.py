"""A real Chromium reads every page: without a network, with its mathematics, and fit for every reader."""

import functools
import http.server
import re
import threading
from dataclasses import dataclass, field

import pytest
from axe_playwright_python.sync_playwright import Axe

from tests.book.conftest import KEYBOARD_REACHES_ALL, LIVE_IS_SHOWN, MATH_IS_SET, OPEN
from tests.conftest import ROOT

PAGES = sorted(
    path.relative_to(ROOT / "_build" / "html").as_posix()
    for path in ROOT.glob("_build/html/book/*.html")
)
DESKTOP, PHONE = 1280, 390
# Each page is opened in one of the first two views, in turn, and by the slow tests in all.
VIEWS = [(DESKTOP, "light"), (PHONE, "dark"), (DESKTOP, "dark"), (PHONE, "light")]
VISITS = [
    pytest.param(name, *view, marks=[pytest.mark.slow] * (view != VIEWS[index % 2]))
    for index, name in enumerate(PAGES)
    for view in VIEWS
]
VISIBLE_TEXT = """() => {
    const article = document.querySelector('article').cloneNode(true);
    article.querySelectorAll('pre, code, mjx-container, script, style').forEach(element => element.remove());
    return article.textContent;
}"""
LEFT_OF_FORMULAS = """() => [...document.querySelectorAll('mjx-container[display="true"]')].map(
    formula => (formula.querySelector('mjx-mtd') ?? formula).getBoundingClientRect().left
)"""
# axe reads every coloured word of code and every sign of a formula, thousands of them; those
# of one class look alike in one spot.
TOKENS = "div.highlight span[class], dt.sig span[class]"
ONE_OF_EACH_COLOUR = """tokens => {
    const seen = new Set();
    document.querySelectorAll(tokens).forEach(token => {
        const place = token.closest('dt, .cell_output')?.localName ?? 'a cell';
        const kind = `${token.className} in ${place}`;
        if (!seen.has(kind)) seen.add(kind);
        else token.replaceWith(...token.childNodes);
    });
    document.body.normalize();
    return seen.size;
}"""
ONE_FORMULA_OF_EACH_PLACE = """() => {
    const seen = new Set();
    document.querySelectorAll('mjx-container').forEach(formula => {
        const place = formula.closest('td, th, li, figcaption, summary, blockquote, h2, h3');
        const scrolls = formula.scrollWidth > formula.clientWidth;
        const kind = `${place?.localName} ${formula.getAttribute('display')} ${scrolls}`;
        if (!seen.has(kind)) seen.add(kind);
        else formula.remove();
    });
    return seen.size;
}"""
COLOURS_OF_CODE = """tokens => [...new Set([...document.querySelectorAll(tokens)].map(
    token => getComputedStyle(token).color
))].sort()"""

SIZE = "picture => [picture.clientWidth, picture.clientHeight]"
NATURAL_SIZE = """async picture => {
    picture.loading = 'eager';
    await picture.decode();
    return [picture.naturalWidth, picture.naturalHeight];
}"""


@dataclass
class Visit:
    """A page open in the browser, and what it asked for and complained about."""

    page: object
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@pytest.fixture(scope="module")
def server(html):
    handler = functools.partial(Quiet, directory=str(html))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.fixture
def visit(browser):
    """Open an address, wait until the mathematics is set, and write down all that happens."""
    contexts = []

    def open_page(address: str, width: int = DESKTOP, scheme: str = "light") -> Visit:
        context = browser.new_context(
            viewport={"width": width, "height": 844},
            color_scheme=scheme,
            reduced_motion="reduce",
        )
        contexts.append(context)
        visit = Visit(context.new_page())
        visit.page.on("request", lambda request: visit.requests.append(request.url))
        visit.page.on(
            "requestfailed", lambda request: visit.failures.append(request.url)
        )
        visit.page.on("pageerror", lambda error: visit.complaints.append(str(error)))
        visit.page.on(
            "console",
            lambda said: (
                visit.complaints.append(said.text)
                if said.type in ("error", "warning")
                else None
            ),
        )
        visit.page.goto(address)
        visit.page.wait_for_function(MATH_IS_SET)
        visit.page.wait_for_function(LIVE_IS_SHOWN)
        return visit

    yield open_page
    for context in contexts:
        context.close()


def test_there_are_pages(html):
    assert PAGES, "the book was built after the tests were collected: run them again"


def check_undisturbed(visited, home):
    """The page asked nothing of another host, missed nothing and complained of nothing."""
    assert visited.requests
    assert not [
        url for url in visited.requests if not url.startswith((home, "data:", "blob:"))
    ]
    assert not visited.failures
    assert not visited.complaints


@pytest.mark.parametrize("place", ["disk", "server"])
@pytest.mark.parametrize("name", ["index.html", "search.html"])
def test_an_entrance_asks_no_other_host_and_has_no_complaint(
    name, place, visit, html, server
):
    home = html.as_uri() if place == "disk" else server
    check_undisturbed(visit(f"{home}/{name}"), home)


@pytest.mark.parametrize(("name", "width", "scheme"), VISITS)
def test_page_is_fit_for_every_reader(name, width, scheme, visit, html, server):
    """One visit: from the disk in light and from the server in dark."""
    home = html.as_uri() if scheme == "light" else server
    visited = visit(f"{home}/{name}", width, scheme)
    page = visited.page
    check_mathematics(page, (html / name).read_text("utf-8"))
    check_undisturbed(visited, home)
    page.locator("article details").evaluate_all(OPEN)
    assert page.evaluate("document.documentElement.scrollWidth") <= width, (
        "the page is wider than the screen"
    )
    assert min(page.evaluate(LEFT_OF_FORMULAS), default=0) >= -1, (
        "a formula begins where nobody can scroll"
    )
    page.evaluate(ONE_OF_EACH_COLOUR, TOKENS)
    page.evaluate(ONE_FORMULA_OF_EACH_PLACE)
    page.wait_for_function(KEYBOARD_REACHES_ALL)
    assert not axe_violations(page)


def check_mathematics(page, source):
    """All that was written as mathematics is set: no error, no raw TeX, no number missing."""
    written = len(re.findall(r'<(?:span|div) class="math notranslate', source))
    assert page.locator("mjx-container").count() >= written
    assert page.locator("mjx-merror").count() == 0
    text = page.evaluate(VISIBLE_TEXT)
    assert not re.findall(r"\$\$.{0,40}|\\[(\[].{0,40}|\\tag.{0,20}", text)
    tags = len(
        re.findall(r"\\tag\{", re.sub(r"<pre>.*?</pre>", "", source, flags=re.DOTALL))
    )
    assert (
        page.locator(
            "mjx-container mjx-mlabeledtr, mjx-container mjx-labels mjx-mtr"
        ).count()
        >= tags
    )


def axe_violations(page):
    """What axe finds, each with its rule and the elements concerned."""
    found = (
        Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
    )
    return [
        (one["id"], one["help"], [node["html"] for node in one["nodes"]])
        for one in found
    ]


PLANTED = {
    "color-contrast": "<p style='color: #999; background: #aaa'>grey on grey</p>",
    "image-alt": "<img src='_static/favicon.svg'>",
    "button-name": "<button></button>",
}


def test_axe_sees_what_it_looks_for(visit, server):
    page = visit(f"{server}/search.html").page
    page.evaluate(
        "html => document.querySelector('main').insertAdjacentHTML('beforeend', html)",
        "".join(PLANTED.values()),
    )
    assert {rule for rule, *_ in axe_violations(page)} == PLANTED.keys()


@pytest.mark.parametrize("kind", [r"book/\d", "book/api_"])
def test_of_each_colour_of_code_one_token_stays_for_axe(kind, visit, html):
    some = next(name for name in PAGES if re.match(kind, name))
    page = visit((html / some).as_uri()).page
    text, colours = (
        page.evaluate("document.body.textContent"),
        page.evaluate(COLOURS_OF_CODE, TOKENS),
    )
    assert page.evaluate(ONE_OF_EACH_COLOUR, TOKENS) > 10
    assert page.evaluate("document.body.textContent") == text
    assert page.evaluate(COLOURS_OF_CODE, TOKENS) == colours


def test_of_the_formulas_in_each_place_one_stays_for_axe(visit, html):
    page = visit((html / "book/06_transformer.html").as_uri()).page
    kinds = page.evaluate(ONE_FORMULA_OF_EACH_PLACE)
    assert 3 <= kinds == page.locator("mjx-container").count()


def test_the_keyboard_leads_past_the_menu_and_shows_where_it_is(visit, html):
    page = visit((html / PAGES[0]).as_uri()).page
    page.keyboard.press("Tab")
    assert "Skip to main content" in page.evaluate("document.activeElement.textContent")
    page.keyboard.press("Enter")
    assert page.evaluate("location.hash") == "#main-content"
    for _ in range(3):
        page.keyboard.press("Tab")
        assert page.evaluate(
            "() => { const s = getComputedStyle(document.activeElement);"
            " return s.outlineStyle !== 'none' || s.boxShadow !== 'none' }"
        )


def test_a_folded_cell_opens_by_keyboard(visit, html):
    chapter = next(name for name in PAGES if re.match(r"book/\d", name))
    page = visit((html / chapter).as_uri()).page
    folded = page.locator("article details").first
    folded.locator("summary").focus()
    page.keyboard.press("Enter")
    assert folded.evaluate("element => element.open")


def test_the_search_finds(visit, html, server):
    for home in (html.as_uri(), server):
        page = visit(f"{home}/search.html?q=attention").page
        page.locator("#search-results ul.search li a").first.wait_for()


def test_figures_stay_on_white_in_the_dark(visit, html):
    chapter = next(name for name in PAGES if re.match(r"book/\d", name))
    page = visit((html / chapter).as_uri(), scheme="dark").page
    for figure in page.locator("article figure img").all():
        style = figure.evaluate(
            "element => [getComputedStyle(element).filter, getComputedStyle(element).backgroundColor]"
        )
        assert style == ["none", "rgb(255, 255, 255)"]


def test_figures_keep_their_shape_on_a_phone(visit, html):
    chapter = next(name for name in PAGES if re.match(r"book/\d", name))
    page = visit((html / chapter).as_uri()).page
    page.set_viewport_size({"width": PHONE, "height": 844})
    for figure in page.locator("article figure img").all():
        width, height = figure.evaluate(SIZE)
        natural_width, natural_height = figure.evaluate(NATURAL_SIZE)
        assert height == pytest.approx(width * natural_height / natural_width, abs=1)
