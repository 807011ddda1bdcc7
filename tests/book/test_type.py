"""Typography: faces of the book's own, in the page itself, and lines that are easy to read."""

import statistics

import pytest

from tests.book.conftest import MATH_IS_SET
from tests.conftest import ROOT

FONTS = ROOT / "book" / "_static" / "fonts"
STYLE = """selector => {
    const { fontFamily, fontSize, fontWeight, color } =
        getComputedStyle(document.querySelector(selector));
    return [fontFamily.split(",")[0].replaceAll('"', ""), parseFloat(fontSize), +fontWeight, color];
}"""
# Letters of each whole line of the paragraphs that have more than three lines.
LETTERS_A_LINE = """() => [...document.querySelectorAll(".bd-article section > p")].flatMap(part => {
    const lines = Math.round(part.clientHeight / parseFloat(getComputedStyle(part).lineHeight));
    return lines > 3 && !part.querySelector(".math, code") ? [part.textContent.length / (lines - 0.5)] : [];
})"""
FACES = """async () => {
    await document.fonts.ready;
    return [...document.fonts].filter(face => face.status === "loaded").map(
        face => face.family.replaceAll('"', "")).sort();
}"""
ENDS_A_LINE = """marks => [...document.querySelectorAll("p mjx-container")].filter(formula => {
    const math = formula.closest(".unbroken") ?? formula.closest(".math");
    return marks.before.includes(math.previousSibling?.data?.at(-1))
        || marks.after.includes(math.nextSibling?.data?.at(0));
}).map(formula => formula.parentElement.parentElement.textContent.slice(0, 60))"""


@pytest.fixture
def read(browser, html):
    """Open a page of the book with its formulas set."""
    contexts = []

    def open_page(name, width=1280, scheme="light"):
        contexts.append(
            browser.new_context(
                viewport={"width": width, "height": 900}, color_scheme=scheme
            )
        )
        page = contexts[-1].new_page()
        page.goto(f"{html.as_uri()}/book/{name}#main-content")
        page.wait_for_function(MATH_IS_SET)
        return page

    yield open_page
    for context in contexts:
        context.close()


def test_the_faces_are_small_and_have_their_licence():
    fonts = list(FONTS.glob("*.woff2"))
    assert len(fonts) == 7
    assert sum(font.stat().st_size for font in fonts) <= 150_000
    assert "SIL OPEN FONT LICENSE" in (FONTS / "OFL.txt").read_text("utf-8")


def test_text_labels_and_code_have_faces_of_their_own(read):
    page = read("06_transformer.html")
    assert {"Book Serif", "Book Sans", "Book Code"} <= set(page.evaluate(FACES))
    for selector, face in (
        ("article section > p", "Book Serif"),
        ("article h2", "Book Sans"),
        ("article figcaption p", "Book Sans"),
        ("article svg.drawing text", "Book Sans"),
        ("article .highlight pre", "Book Code"),
    ):
        assert page.evaluate(STYLE, selector)[0] == face, selector


@pytest.mark.parametrize("name", ["index", "06_transformer", "api_attention"])
def test_all_faces_of_a_page_are_those_of_the_book_its_icons_too(name, browser, html):
    page, asked = browser.new_page(), set()
    page.on("request", lambda request: asked.add(request.url))
    page.goto((html / "book" / f"{name}.html").as_uri(), wait_until="networkidle")
    page.evaluate("document.fonts.ready.then(() => true)")
    fonts = {url for url in asked if url.endswith((".woff2", ".ttf"))}
    assert any(url.endswith("/icons.woff2") for url in fonts)
    assert all("/_static/fonts/" in url for url in fonts if "mathjax" not in url)
    page.close()


def test_text_is_larger_than_code_and_a_section_heavier_than_what_is_in_it(read):
    page = read("06_transformer.html")
    _, text, weight, _ = page.evaluate(STYLE, "article section > p")
    assert 17 <= text <= 18
    assert page.evaluate(STYLE, "article .cell > .cell_input pre")[1] == 15
    _, second, heavy, _ = page.evaluate(STYLE, "article h2")
    _, third, light, _ = page.evaluate(STYLE, "article h3")
    assert second > third > text
    assert heavy > light >= weight


@pytest.mark.parametrize("name", ["06_transformer", "12_modern"])
def test_a_line_has_70_to_75_letters(name, read):
    lengths = read(f"{name}.html").evaluate(LETTERS_A_LINE)
    assert 70 <= statistics.median(lengths) <= 75


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_there_is_one_accent(scheme, read):
    page = read("06_transformer.html", scheme=scheme)
    accents = {
        page.evaluate(STYLE, selector)[3]
        for selector in ("article p a", "nav .current > a", "article p a > code")
    }
    assert len(accents) == 1


@pytest.mark.parametrize("name", ["03_attention", "06_transformer"])
def test_no_line_breaks_between_a_bracket_or_a_comma_and_its_formula(name, read):
    page = read(f"{name}.html")
    assert page.locator("p .unbroken").count() > 10
    assert not page.evaluate(ENDS_A_LINE, {"before": "([“", "after": ".,;:!?)]”"})
