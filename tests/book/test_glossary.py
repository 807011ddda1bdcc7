"""The glossary: readers can filter its terms, and a link to a term leads to it."""

import lxml.html
import pytest

VISIBLE = "terms => terms.filter(term => term.checkVisibility()).map(term => term.id)"
TERMS, MEANINGS = "dl.glossary > dt", "dl.glossary > dd"


@pytest.fixture
def page(html, browser):
    """The glossary on a desktop, where its list of contents is beside it."""
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.goto((html / "book" / "glossary.html").as_uri())
    yield page
    page.close()


def shown(page):
    """The identifiers of the terms that can be seen, each with its meaning."""
    found = page.locator(TERMS).evaluate_all(VISIBLE)
    assert page.locator(MEANINGS).locator("visible=true").count() == len(found)
    return found


def test_words_filter_the_terms_and_their_subjects(page):
    everything = shown(page)
    assert len(everything) > 150
    page.get_by_label("Words").fill("SCORE cosine")
    found = shown(page)
    assert "term-cosine-score" in found
    assert 0 < len(found) < 10
    headings = page.locator("article h2").locator("visible=true").all_text_contents()
    names = [heading.removesuffix("#") for heading in headings]
    assert 0 < len(names) < 4
    entries = page.locator(".page-toc li").locator("visible=true").all_text_contents()
    assert [entry.strip() for entry in entries] == names
    said = page.locator("output").text_content()
    assert said == f"{len(found)} of {len(everything)} terms"
    page.get_by_label("Words").fill("no such word")
    assert page.locator("output").text_content() == "No term matches."
    page.get_by_role("button", name="Show all").click()
    assert shown(page) == everything


def test_a_term_is_found_by_its_chinese_name(page):
    page.get_by_label("Words").fill("加性注意力")
    assert shown(page)[0] == "term-additive-attention"


def test_each_term_is_under_one_letter_and_one_subject(page):
    everything = shown(page)
    for field in ("Letter", "Subject"):
        choice, found = page.get_by_label(field), []
        names = choice.locator("option").all_text_contents()[1:]
        for name in names:
            choice.select_option(name)
            found += shown(page)
            if field == "Letter":
                terms = page.locator(TERMS).locator("visible=true").all_text_contents()
                assert {term[0].upper() for term in terms} == {name}
        choice.select_option("all")
        assert names == sorted(names) or field == "Subject"
        assert sorted(found) == sorted(everything)


def test_a_link_to_a_term_that_is_hidden_shows_it(page):
    page.get_by_label("Letter").select_option("A")
    link = page.locator(f"{MEANINGS} a[href='#term-score']").first
    link.click()
    term = page.locator("#term-score")
    assert term.is_visible()
    page.wait_for_function("scrollY > 500")
    assert 0 <= term.bounding_box()["y"] < 800


def test_without_scripts_all_terms_are_there(html):
    page = lxml.html.parse(str(html / "book" / "glossary.html"))
    (place,) = page.xpath("//article//div[@class='page-filter']")
    assert len(place) == 0
    assert not page.xpath("//article//*[@hidden]")
