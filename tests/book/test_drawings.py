"""Drawings stand in the pages themselves, in the colours of the page."""

import re
import xml.etree.ElementTree as ET

import nbformat
import pytest

from tests.book.conftest import MATH_IS_SET
from tests.book.test_browser import axe_violations
from tests.conftest import ROOT

SVG = "{http://www.w3.org/2000/svg}"
ENLARGED = "dialog.enlarged[open]"
FOCUSED = "document.activeElement.textContent"
SIZES_OF_TEXT = """svg => [...svg.querySelectorAll('text:not(:empty)')].map(text => {
    const { a, b } = svg.getScreenCTM();
    return parseFloat(getComputedStyle(text).fontSize) * Math.hypot(a, b);
})"""
FILLS = "svg => getComputedStyle(svg.querySelector('.fill-paper')).fill"


def drawings(notebook):
    """The drawings that a notebook holds."""
    cells = nbformat.read(notebook, 4).cells
    outputs = [one.get("data", {}) for cell in cells for one in cell.get("outputs", [])]
    pictures = [data["image/svg+xml"] for data in outputs if "image/svg+xml" in data]
    return [svg for svg in pictures if 'class="drawing"' in svg[:200]]


def test_every_drawing_of_a_notebook_stands_in_its_page_above_its_caption(html):
    count = 0
    for notebook in ROOT.glob("book/[0-9]*.ipynb"):
        text = (html / "book" / f"{notebook.stem}.html").read_text("utf-8")
        for svg in drawings(notebook):
            begin = text.index(re.search(r'aria-label="[^"]*"', svg)[0])
            rest = text[begin : text.index("</figure>", begin)]
            assert svg.rstrip().split("\n", 1)[1] in rest
            assert "<figcaption>" in rest
            count += 1
    assert count


def test_a_drawing_has_the_colours_of_its_page_and_fits_a_phone(html, browser):
    page = browser.new_page(viewport={"width": 390, "height": 844})
    name = next(
        path.name
        for path in sorted(html.glob("book/[0-9]*.html"))
        if 'class="drawing"' in path.read_text("utf-8")
    )
    found = set()
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        page.goto((html / "book" / name).as_uri())
        for drawing in page.locator("figure svg.drawing").all():
            found.add((scheme, drawing.evaluate(FILLS)))
            box = drawing.bounding_box()
            assert 0 <= box["x"] <= box["x"] + box["width"] <= 390
            viewed = drawing.evaluate(
                "svg => svg.viewBox.baseVal.width / svg.viewBox.baseVal.height"
            )
            assert box["width"] / box["height"] == pytest.approx(viewed, rel=0.01)
    page.close()
    assert found == {("light", "rgb(255, 255, 255)"), ("dark", "rgb(20, 24, 30)")}


@pytest.fixture(params=["light", "dark"])
def chapter(html, browser, request):
    """A chapter with drawings, in light or dark."""
    page = browser.new_page(color_scheme=request.param)
    page.goto((html / "book" / "06_transformer.html").as_uri())
    page.wait_for_function(MATH_IS_SET)  # which moves what a pointer is above
    yield page
    page.close()


def opacity(button):
    return button.evaluate("button => getComputedStyle(button).opacity")


def test_each_drawing_has_a_button_that_comes_with_the_pointer_or_the_keyboard(chapter):
    figures = chapter.locator("figure:has(> :is(svg.drawing, svg.plot))")
    assert figures.count() > 3
    for figure in figures.all():
        number = figure.locator("figcaption strong").text_content().removesuffix(".")
        button = figure.get_by_role("button", name=f"Enlarge {number}", exact=True)
        assert button.count() == 1
        assert opacity(button) == "0"
    figures.first.hover()
    first, second = figures.get_by_role("button").all()[:2]
    assert (opacity(first), opacity(second)) == ("1", "0")
    first.focus()
    chapter.keyboard.press("Shift+Tab")
    chapter.keyboard.press("Tab")
    chapter.mouse.move(0, 0)
    assert opacity(first) == "1"
    chapter.emulate_media(media="print")
    assert not first.is_visible()


def test_a_saved_drawing_is_whole_and_light_and_says_where_it_is_from(
    chapter, tmp_path
):
    figure = chapter.locator("figure:has(> svg.drawing)").first
    number = figure.locator("figcaption strong").text_content().removesuffix(".")
    figure.hover()
    figure.get_by_role("button").click()
    with chapter.expect_download() as download:
        chapter.get_by_role("button", name="Save as SVG").click()
    assert chapter.locator(ENLARGED).is_visible()
    name = number.lower().replace(" ", "-").replace(".", "-")
    assert download.value.suggested_filename == f"{name}.svg"
    path = tmp_path / "figure.svg"
    download.value.save_as(path)
    file = ET.parse(path).getroot()
    (drawing,) = file.findall(f"{SVG}svg")
    written = figure.locator("svg.drawing").evaluate("svg => svg.outerHTML")
    assert [x.tag for x in drawing.iter()] == [x.tag for x in with_names(written)]
    (credit,) = file.findall(f"{SVG}text")
    title = "Attention, from the paper to the page"
    assert credit.text.startswith(f"{number}, from “{title}”")
    chapter.goto(path.as_uri())
    fills = "fill => getComputedStyle(fill).fill"
    paper, words = (chapter.locator(part) for part in (".fill-paper", "svg > text"))
    assert paper.first.evaluate(fills) == "rgb(255, 255, 255)"
    whole, line = (
        part.bounding_box() for part in (chapter.locator("svg").first, words.last)
    )
    assert whole["x"] <= line["x"]
    assert line["x"] + line["width"] <= whole["x"] + whole["width"]
    assert line["y"] + line["height"] <= whole["y"] + whole["height"]
    below = chapter.locator("svg svg").bounding_box()
    assert line["y"] >= below["y"] + below["height"]


@pytest.mark.parametrize(("kind", "least"), [("drawing", 12), ("plot", 15)])
def test_a_tap_enlarges_a_picture_where_it_is_tapped_and_another_closes_it(
    kind, least, html, browser
):
    phone = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True)
    page = phone.new_page()
    page.goto((html / "book" / "06_transformer.html").as_uri() + "#main-content")
    picture = page.locator(f"figure > svg.{kind}").first
    picture.scroll_into_view_if_needed()
    small = min(picture.evaluate(SIZES_OF_TEXT))
    box = picture.bounding_box()
    picture.tap(position={"x": 330, "y": box["height"] / 2})
    enlarged = page.locator(ENLARGED)
    enlarged.wait_for()
    sizes = enlarged.locator("svg").evaluate(SIZES_OF_TEXT)
    assert len(sizes) == picture.locator("text:not(:empty)").count()
    assert min(sizes) >= max(least, 1.3 * small)
    assert enlarged.evaluate("one => one.scrollLeft") > 0
    enlarged.tap(position={"x": 100, "y": 400})
    assert not enlarged.count()
    phone.close()


def test_the_keyboard_enlarges_a_picture_and_returns_to_it(chapter):
    opener = chapter.get_by_role("button", name="Enlarge Figure 6.6", exact=True)
    opener.focus()
    chapter.keyboard.press("Enter")
    enlarged = chapter.locator(ENLARGED)
    assert enlarged.get_attribute("aria-label") == "Figure 6.6"
    assert enlarged.locator("svg.plot").count() == 1
    assert not axe_violations(chapter)
    assert chapter.evaluate(FOCUSED) == "Close"
    chapter.keyboard.press("Tab")
    assert chapter.evaluate(FOCUSED) == "Save as SVG"
    chapter.keyboard.press("Escape")
    assert not enlarged.count()
    assert opener.evaluate("one => one === document.activeElement")
    chapter.keyboard.press("Enter")
    chapter.keyboard.press("Enter")  # on "Close"
    assert not enlarged.count()
    assert opener.evaluate("one => one.matches(':focus-visible')")


def with_names(written):
    """The elements of an SVG document as they stand in a page."""
    return ET.fromstring(written).iter()


def test_a_preview_of_a_drawing_has_no_button(chapter):
    mention = chapter.locator("a.mention[href='#fig-6-1'], a.mention[href^='#fig-']")
    mention.first.hover()
    preview = chapter.locator(".mention-preview figure")
    preview.wait_for()
    assert preview.locator("svg.drawing, img, svg.plot").count()
    assert preview.locator("button").count() == 0
