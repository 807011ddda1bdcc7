"""The errata: each row leads to what shows it, and readers can filter the rows."""

from itertools import pairwise

import lxml.html
import pytest

from tests.book.conftest import MATH_IS_SET, PIXEL

VISIBLE = "rows => rows.map((row, index) => row.checkVisibility() ? index : -1).filter(index => index >= 0)"
CELLS = """rows => rows.map(row => [...row.cells].map(cell => cell.getBoundingClientRect().toJSON()))"""


@pytest.fixture
def page(html, browser):
    """The page of the errata on a phone."""
    page = browser.new_page(viewport={"width": 390, "height": 844})
    page.goto((html / "book" / "errata.html").as_uri())
    yield page
    page.close()


def shown(page):
    """The numbers of the rows that can be seen."""
    return page.locator("article tbody tr").evaluate_all(VISIBLE)


def test_each_row_leads_to_the_place_that_shows_it(html):
    """Whoever renames a section or a bold title in a chapter renames it in the errata, too."""
    page = lxml.html.fromstring((html / "book" / "errata.html").read_text("utf-8"))
    rows = page.xpath("//article//tbody/tr")
    assert len(rows) > 80
    for row in rows:
        last = row[-1]
        assert last.text_content() == "–" or last.xpath(".//a/@href"), (
            last.text_content()
        )


def test_words_filter_the_rows_and_their_sections(page):
    rows = page.locator("article tbody tr")
    everything = shown(page)
    assert everything == list(range(rows.count()))
    page.get_by_label("Words").fill("maxout LAYER")
    found = shown(page)
    assert 0 < len(found) < 5
    for number in found:
        text = rows.nth(number).text_content().lower()
        assert "maxout" in text
        assert "layer" in text
    headings = [one for one in page.locator("article h2").all() if one.is_visible()]
    assert 0 < len(headings) <= len(found)
    said = page.locator("output").text_content()
    assert said == f"{len(found)} of {len(everything)} rows"
    page.get_by_label("Words").fill("")
    assert shown(page) == everything


def test_a_chapter_can_be_chosen(page):
    chapter = page.get_by_label("Chapter")
    names = chapter.locator("option").all_text_contents()
    assert names[0] == "all"
    assert [name.split(":")[0] for name in names[1:]] == [
        f"Chapter {number}" for number in range(1, 14)
    ]
    found = []
    for name in names[1:]:
        chapter.select_option(name)
        found += shown(page)
        (heading,) = [one for one in page.locator("h2").all() if one.is_visible()]
        assert heading.text_content().startswith(name)
    chapter.select_option("")
    assert found == shown(page)


def test_each_row_is_of_some_kind_of_source_and_none_of_all(page):
    everything = shown(page)
    kind, found = page.get_by_label("Source"), {}
    for name in kind.locator("option").all_text_contents()[1:]:
        kind.select_option(name)
        found[name] = shown(page)
        assert 0 < len(found[name]) < len(everything) / 2, name
    assert sorted(set().union(*found.values())) == everything
    assert sum(map(len, found.values())) < 1.1 * len(everything)


def test_kind_and_chapter_and_words_hold_together(page):
    page.get_by_label("Chapter").select_option(index=2)
    page.get_by_label("Source").select_option("a tutorial")
    page.get_by_label("Words").fill("padding")
    rows = page.locator("article tbody tr")
    for number in shown(page):
        assert "tutorial" in rows.nth(number).locator("td").first.text_content()
    assert shown(page)
    page.get_by_label("Words").fill("no such word")
    assert shown(page) == []


@pytest.mark.parametrize(
    ("typed", "tex"),
    [("√", r"\sqrt"), ("√d", r"\sqrt{d"), ("√d_k", r"\sqrt{d_k}"), ("Lα", r"L^\alpha")],
)
def test_formulas_are_found_by_what_readers_see(typed, tex, page, html):
    source = lxml.html.fromstring((html / "book" / "errata.html").read_text("utf-8"))
    texts = [row.text_content() for row in source.xpath("//article//tbody/tr")]
    page.get_by_label("Words").fill(typed)
    found = [number for number, text in enumerate(texts) if tex in text]
    assert found
    assert shown(page) == found


def test_the_contents_name_the_sections_that_are_shown_and_no_others(page):
    page.set_viewport_size({"width": 1280, "height": 800})
    entries = page.locator(".page-toc li")
    assert entries.count() == 13
    page.get_by_label("Words").fill("maxout layer")
    headings = [one for one in page.locator("article h2").all() if one.is_visible()]
    names = [one.text_content().removesuffix("#") for one in headings]
    left = [one.text_content().strip() for one in entries.all() if one.is_visible()]
    assert left == names
    assert len(left) < 12


def test_where_no_row_matches_the_page_says_so_and_offers_all(page):
    everything, button = shown(page), page.get_by_role("button", name="Show all")
    assert not button.is_visible()
    page.get_by_label("Source").select_option("a library")
    page.get_by_label("Words").fill("no such word")
    assert page.locator("output").text_content() == "No row matches."
    button.click()
    assert shown(page) == everything
    assert not button.is_visible()
    assert page.get_by_label("Words").evaluate("one => one === document.activeElement")


def test_on_a_phone_each_cell_has_its_own_line_and_can_be_seen(page):
    page.wait_for_function(MATH_IS_SET)
    for cells in page.locator("article tbody tr").evaluate_all(CELLS):
        assert all(cell["right"] <= 390 + PIXEL for cell in cells)
        assert all(
            lower["top"] >= upper["bottom"] - PIXEL for upper, lower in pairwise(cells)
        )


def test_without_scripts_all_rows_are_there_and_no_filter(html, browser):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((html / "book" / "errata.html").as_uri())
    rows = page.locator("article tbody tr").all()
    assert all(row.is_visible() for row in rows)
    assert page.locator(".page-filter form").count() == 0
    context.close()
