"""What a reader looks for is found: by the menu, and by the search, from a disk too."""

import re
from urllib.parse import quote

import lxml.html
import pytest
import yaml

from tests.book.conftest import PATIENCE
from tests.conftest import ROOT

CONFIG = yaml.safe_load((ROOT / "_config.yml").read_text("utf-8"))
IDEAS = CONFIG["sphinx"]["config"]["ideas"]
# Where a chapter explains what a reader types.
EXPLAINED = {
    "mask": "03_attention",
    "beam search": "01_seq2seq",
    "Gumbel": "04_hard",
    "hard attention": "04_hard",
    "input feeding": "05_luong",
    "label smoothing": "06_transformer",
    "FlexAttention": "07_sparse",
    "rotary": "12_modern",
    "delta rule": "13_bounded_memory",
    "GQA": "12_modern",
    "KV cache": "12_modern",
    "attention sinks": "12_modern",
    "flashattention": "12_modern",
}


# Of the first result, where there is one.
EXCERPTS_ARE_THERE = """() => {
    const first = document.querySelector('#search-results ul.search li');
    return !first || first.querySelector('.context');
}"""


@pytest.fixture
def search(browser, html):
    """Search the book from the disk; the results as pairs of an address and a text."""
    page = browser.new_page()
    page.set_default_timeout(PATIENCE)

    def results(words):
        page.goto(f"{html.as_uri()}/search.html?q={quote(words)}")
        page.locator(".search-summary").filter(has_text=re.compile(".")).wait_for()
        page.wait_for_function(EXCERPTS_ARE_THERE)
        return page.locator("#search-results ul.search li").evaluate_all(
            "all => all.map(one => [one.querySelector('a').href, one.innerText])"
        )

    yield results
    page.close()


@pytest.fixture(scope="module")
def menu(html):
    """The menu of the welcome page."""
    page = lxml.html.fromstring((html / "book" / "index.html").read_text("utf-8"))
    return page.xpath("//nav[contains(@class, 'bd-docs-nav')]")[0]


@pytest.mark.parametrize(("words", "chapter"), EXPLAINED.items())
def test_the_chapter_that_explains_a_term_is_found_first(words, chapter, search):
    address, text = search(words)[0]
    assert f"/book/{chapter}.html#" in address
    assert re.search(words, text.split("\n", 1)[1], re.IGNORECASE)


def test_chapters_are_found_before_the_pages_of_the_package(search):
    pages = [
        re.search(r"/book/(\w+)\.html", address)[1] for address, _ in search("mask")
    ]
    chapters = [place for place, page in enumerate(pages) if page[0].isdigit()]
    others = [place for place, page in enumerate(pages) if page.startswith("api_")]
    assert chapters
    assert others
    assert max(chapters) < min(others)


def test_a_class_of_the_package_is_found(search):
    assert any(
        address.endswith("#companion.attention.additive.Additive")
        for address, _ in search("Additive")
    )


def test_a_result_leads_to_a_place_that_is_there(search, html):
    for words in ("mask", "beam search"):
        for address, _ in search(words):
            page, _, anchor = address.removeprefix(f"{html.as_uri()}/").partition("#")
            assert f'id="{anchor}"' in (html / page).read_text("utf-8"), address


def test_what_no_page_says_is_not_found(search):
    assert not search("xylophone zeppelin")


@pytest.mark.parametrize("words", ["(", "[a-z]*", "a\\", "<img src=x>", "'\""])
def test_signs_of_patterns_and_pages_are_only_letters(words, search):
    search(words)  # the fixture waits for an answer


def test_the_menu_is_short_the_bench_is_among_the_first_and_the_package_one_entry(menu):
    first = [
        a.get("href") for a in menu.xpath(".//li[contains(@class, 'toctree-l1')]/a")
    ]
    assert len(first) <= 24
    assert first.index("bench.html") < 3
    assert [name for name in first if name.startswith("api")] == ["api.html"]
    assert menu.xpath(
        ".//li[a/@href='api.html']/details//a[@href='api_attention.html']"
    )


def test_each_chapter_in_the_menu_has_its_ideas(menu, html):
    for chapter, ideas in IDEAS.items():
        links = menu.xpath(f".//li[a/@href='{chapter}.html']/ul[@class='ideas']/li/a")
        assert [link.text for link in links] == ideas
        text = (html / "book" / f"{chapter}.html").read_text("utf-8")
        for link in links:
            page, _, anchor = link.get("href").partition("#")
            assert page == f"{chapter}.html"
            assert f' id="{anchor}"' in text
    assert set(IDEAS) == {path.stem for path in ROOT.glob("book/[0-9]*.md")}
    found = " ".join(menu.xpath(".//ul[@class='ideas']//text()"))
    assert {"rotary", "grouped-query", "FlashAttention"} <= set(found.split())
