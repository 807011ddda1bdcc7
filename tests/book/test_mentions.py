"""Equations, figures and sections have addresses that stay, and what the texts say of them leads there."""

import re
from collections import Counter

import lxml.html
import pytest

from tests.book.conftest import MATH_IS_SET, PIXEL
from tests.conftest import ROOT

CHAPTERS = sorted(path.stem for path in ROOT.glob("book/[0-9]*.md"))
CODE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
# Written so, a decimal is no equation: there is no chapter 0.
EQUATION = re.compile(r"\(([1-9]\d*\.\d+)\)")
TAG = re.compile(r"\\tag\{([\d.]+)\}")
SHOWN = "document.querySelector('.mention-preview:popover-open')"


@pytest.fixture(scope="module")
def articles(html):
    """The text of each page of the book, as a tree."""
    return {
        path.stem: lxml.html.parse(path).getroot().xpath("//article")[0]
        for path in html.glob("book/*.html")
    }


def mentions(article):
    """Where each link leads that was made of a mention, by the words of the mention."""
    return [
        (link.text_content(), link.get("href"))
        for link in article.xpath(".//a[contains(@class, 'mention')]")
    ]


@pytest.mark.parametrize("name", CHAPTERS)
def test_every_equation_and_figure_has_an_address_of_its_own(name, articles):
    article, chapter = articles[name], int(name[:2])
    count = Counter(article.xpath(".//@id"))
    assert max(count.values()) == 1
    tags = TAG.findall((ROOT / "book" / f"{name}.md").read_text("utf-8"))
    assert len(tags) > 3
    for tag in tags:
        (equation,) = article.xpath(f".//*[@id='eq-{tag.replace('.', '-')}']")
        assert rf"\tag{{{tag}}}" in equation.text
        assert equation.getnext().get("href") == f"#{equation.get('id')}"
    figures = article.xpath(".//figure[figcaption]")
    assert len(figures) > 3
    for number, figure in enumerate(figures, start=1):
        assert re.match(r"fig-[a-z]\w*-", figure.get("id"))
        assert figure.xpath(f".//*[@id='fig-{chapter}-{number}']")


@pytest.mark.parametrize("name", [*CHAPTERS, "notation"])
def test_every_equation_that_a_text_mentions_is_a_link_to_it(name, articles):
    text = CODE.sub("", (ROOT / "book" / f"{name}.md").read_text("utf-8"))
    links = mentions(articles[name])
    found = [(words, target) for words, target in links if words[0] == "("]
    assert [words[1:-1] for words, _ in found] == EQUATION.findall(text)
    for words, target in found:
        assert target.endswith(f"#eq-{words[1:-1].replace('.', '-')}")


def test_most_mentions_are_links(articles):
    kinds = Counter(
        re.match(r"\(|[A-Z]?[a-z]*", words)[0].lower()
        for article in articles.values()
        for words, _ in mentions(article)
    )
    assert kinds["("] > 100
    assert kinds["section"] > 100
    assert kinds["figure"] >= 5


HOME = "# Home\n\n```{toctree}\n:glob:\n\nbook/*\n```\n"
CHAPTER = r"""# 6 Title

## 1 First

```{math}
a = b \tag{6.1}
```

By (6.1) and (0.5) and `(6.1)`, Figure 6.2 shows section 2 and section 9, in **Figure 6.1**.
See section 1 of [chapter 7](07_sparse.md), sections 1 and 2, section 2 of chapter 7, (7.1) and (7.9).
But section 1 of the paper, its section 1, the paper’s section 1, Li 2020, section 1, and section 1.2.

{figures}

## 2 Second

## Not numbered
"""
SPARSE = r"""# 7 Title

## 1 One

## 2 Two

```{math}
c = d \tag{7.1}
```
"""
FIGURE = """```{{figure}} x.svg
{name}
**Figure 6.{number}.** {words}
```
"""


def chapter(*captions):
    """A chapter with figures of these captions, of which "Arrows" has a name."""
    figures = [
        FIGURE.format(
            number=number,
            words=words,
            name=":name: arrows\n" if words == "Arrows" else "",
        )
        for number, words in enumerate(captions, start=1)
    ]
    return CHAPTER.replace("{figures}", "\n".join(figures))


@pytest.fixture(scope="module")
def build(build_small):
    """Build a book of two chapters, the first with figures of these captions; its page."""

    def built(*captions):
        files = {
            "index.md": HOME,
            "book/06_transformer.md": chapter(*captions),
            "book/07_sparse.md": SPARSE,
            "book/x.svg": "<svg xmlns='http://www.w3.org/2000/svg'/>",
        }
        html = build_small(["myst_nb", "mentions"], **files)
        page = lxml.html.parse(html / "book" / "06_transformer.html").getroot()
        return page.xpath("//*[@role='main']")[0]

    return built


@pytest.fixture(scope="module")
def small(build):
    """The first chapter of a book of two."""
    return build("One line.", "Two lines. They cross.", "Arrows")


def test_what_belongs_to_a_paper_or_is_code_is_left_as_it_is(small):
    assert mentions(small) == [
        ("(6.1)", "#eq-6-1"),
        ("Figure 6.2", "#fig-two-lines"),
        ("section 2", "#second"),
        ("Figure 6.1", "#fig-one-line"),
        ("section 1", "07_sparse.html#one"),
        ("sections 1", "#first"),
        ("2", "#second"),
        ("section 2", "07_sparse.html#two"),
        ("(7.1)", "07_sparse.html#eq-7-1"),
    ]


def test_a_figure_that_is_inserted_moves_no_address(small, build):
    after = build("One line.", "A new one.", "Two lines. They cross.", "Arrows")
    before, moved = (page.xpath(".//figure/@id") for page in (small, after))
    assert before == ["fig-one-line", "fig-two-lines", "arrows"]
    assert moved == ["fig-one-line", "fig-a-new-one", "fig-two-lines", "arrows"]
    assert set(small.xpath(".//@id")) < set(after.xpath(".//@id"))


@pytest.fixture
def page(browser, html):
    """A chapter on a screen, with all its formulas set."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    page.goto((html / "book" / "06_transformer.html").as_uri())
    page.wait_for_function(MATH_IS_SET)
    yield page
    context.close()


@pytest.mark.parametrize("address", ["#eq-6-2", "#fig-the-encoder-and"])
def test_the_keyboard_opens_a_preview_and_escape_closes_it(address, page):
    mention = page.locator(f".mention[href^='{address}']").first
    text = page.locator(mention.get_attribute("href")).inner_text()
    page.keyboard.press("Tab")  # from now on focus is the keyboard's
    mention.focus()
    page.wait_for_function(SHOWN)
    preview = page.locator(".mention-preview")
    assert preview.locator("mjx-container, svg").count()
    assert not preview.locator("[id]").count()
    text = text.replace("Enlarge\n", "")  # a button, which a preview has not
    assert preview.inner_text().strip() == text.removesuffix("#").strip()
    box, link = preview.bounding_box(), mention.bounding_box()
    assert 0 <= box["x"] <= 1280 - box["width"]
    assert 0 <= box["y"] <= 800 - box["height"]
    below = box["y"] - link["y"] - link["height"]
    above = link["y"] - box["y"] - box["height"]
    assert max(below, above) >= -PIXEL
    page.keyboard.press("Escape")
    assert not page.evaluate(SHOWN)
    page.keyboard.press("Tab")
    page.keyboard.press("Shift+Tab")
    page.wait_for_function(SHOWN)
    page.keyboard.press("Tab")
    page.wait_for_function(f"!{SHOWN}")


def test_the_pointer_opens_a_preview_and_may_enter_it(page):
    mention = page.locator(".mention[href='#eq-6-2']").first
    mention.hover()
    page.wait_for_function(SHOWN)
    page.locator(".mention-preview").hover()
    page.wait_for_timeout(500)
    assert page.evaluate(SHOWN)
    page.mouse.move(5, 5)
    page.wait_for_function(f"!{SHOWN}")


def test_a_mention_of_another_page_or_a_section_has_no_preview(page):
    mention = page.locator(".mention:not([href^='#eq-'], [href^='#fig-'])").first
    page.keyboard.press("Tab")
    mention.focus()
    page.wait_for_timeout(500)
    assert not page.evaluate(SHOWN)
