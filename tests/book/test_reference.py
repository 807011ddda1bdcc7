"""The links between the chapters and the reference of the package."""

import re
from types import SimpleNamespace

import lxml.html
import pytest
from reference import link_to_source, short_names

from tests.conftest import ROOT

PAGES = sorted((ROOT / "book").glob("api*.md"))
HEADING = re.compile(
    r"^## \[Chapter (\d+): (.*?)\]\((\d\d_\w+)\.ipynb\)$", re.MULTILINE
)
LONG = 4_500  # words of a page, about 30 screens of a desktop

# A made-up package, its reference, and two pages that speak of it.
SMALL = {
    "shop/__init__.py": """
from shop.tools import Hammer, find_nail

__all__ = ["Hammer", "find_nail"]
""",
    "shop/tools.py": '''"""Tools."""


class Hammer:
    """Drives nails."""

    def hit(self):
        """Hit once."""


def find_nail():
    """A nail."""


def sort():
    """Sort the tools."""
''',
    "shop/house.py": '''"""Houses."""


class House:
    """A house."""

    def hit(self):
        """Knock."""
''',
    "index.md": "# Home\n\n```{toctree}\n:glob:\n\nbook/*\n```\n",
    "book/api.md": """# Reference

## [Chapter 2: Nails](02_nails.md)

### shop.tools

```{eval-rst}
.. automodule:: shop.tools
   :members:
```

## Others

### shop.house

```{eval-rst}
.. automodule:: shop.house
   :members:
```
""",
    "book/02_nails.md": """# Nails, by `Hammer`

`Hammer` and `Hammer.hit` and `tools.find_nail()` and `shop.Hammer` and [my `Hammer`](03_own.md).
Not these: `hit`, `sort`, `nail`, `House`. `find_nail(1, 2)`, `tools.sort` and `shop.tools`.
""",
    "book/03_own.md": """# Own things

`Hammer`, and not that of the package:

```python
def find_nail():
    pass
```

`find_nail()`
""",
}


@pytest.fixture(scope="module")
def small(build_small):
    """The pages of the made-up package, parsed."""
    extensions = ["myst_nb", "sphinx.ext.autodoc", "reference"]
    folder = build_small(extensions, **SMALL)
    return {
        path.stem: lxml.html.fromstring(path.read_text("utf-8"))
        for path in folder.glob("book/*.html")
    }


def code_links(page):
    """The text of each link in a page's paragraphs that is all code, and where it leads."""
    links = page.xpath("//div[@class='body']//p/a[code][not(text())]")
    return [(link.text_content(), link.get("href")) for link in links]


def test_names_of_the_package_link_to_their_entries(small):
    tools = "api.html#shop.tools."
    assert code_links(small["02_nails"])[:-1] == [
        ("Hammer", f"{tools}Hammer"),
        ("Hammer.hit", f"{tools}Hammer.hit"),
        ("tools.find_nail()", f"{tools}find_nail"),
        ("shop.Hammer", f"{tools}Hammer"),
        ("find_nail(1, 2)", f"{tools}find_nail"),
        ("tools.sort", f"{tools}sort"),
        ("shop.tools", "api.html#module-shop.tools"),
    ]


def test_a_name_that_the_page_defines_is_its_own(small):
    assert [text for text, _ in code_links(small["03_own"])] == ["Hammer"]


def test_entries_link_to_the_chapter_that_explains_them(small):
    found = {}
    for signature in small["api"].xpath("//dt[contains(@class, 'sig')]"):
        links = signature.xpath("a[not(@class='headerlink')]")
        found[signature.get("id")] = [link.text_content() for link in links]
    explained, other = ["[chapter 2]"], []
    assert found == {
        "shop.tools.Hammer": explained,
        "shop.tools.Hammer.hit": other,
        "shop.tools.find_nail": explained,
        "shop.tools.sort": explained,
        "shop.house.House": other,
        "shop.house.House.hit": other,
    }
    assert small["api"].xpath("//dt//a[.='[chapter 2]']/@href")[0] == "02_nails.html"


@pytest.mark.parametrize(
    ("address", "file"),
    [
        (None, None),
        ("https://a.b/c", "https://a.b/c/blob/main/companion/attention/masks.py"),
    ],
)
def test_with_an_address_an_entry_links_to_its_file(address, file):
    config = SimpleNamespace(html_theme_options={"repository_url": address})
    link_to_source(None, config)
    module = {"module": "companion.attention.masks", "fullname": "causal"}
    assert config.linkcode_resolve("py", module) == file


def test_a_chapter_ends_with_its_modules(small):
    (box,) = small["02_nails"].find_class("in-the-package")
    assert box.text_content().split() == ["In", "the", "package:", "shop.tools"]
    assert box.xpath(".//a/@href") == ["api.html#module-shop.tools"]
    assert not small["03_own"].find_class("in-the-package")


def test_the_names_that_a_text_may_use():
    modules = {"companion", "companion.attention.scores", "attention_course.profiling"}
    assert set(short_names("companion.attention.scores.Dot.score", modules)) == {
        "companion.attention.scores.Dot.score",
        "attention.scores.Dot.score",
        "scores.Dot.score",
        "companion.attention.Dot.score",
        "attention.Dot.score",
        "Dot.score",
    }
    assert set(short_names("attention_course.profiling.milliseconds", modules)) == {
        "attention_course.profiling.milliseconds",
        "profiling.milliseconds",
    }
    assert list(short_names("attention_course.profiling", modules)) == [
        "attention_course.profiling"
    ]


def test_headings_of_the_reference_name_the_chapters_by_their_titles():
    found = [one for path in PAGES for one in HEADING.findall(path.read_text("utf-8"))]
    assert len({chapter for *_, chapter in found}) == 13
    for number, title, chapter in found:
        text = (ROOT / "book" / f"{chapter}.md").read_text("utf-8")
        assert f"\n# {number} {title}\n" in text


def test_each_chapter_has_its_modules_and_each_of_these_links_to_it(html):
    for path in html.glob("book/[0-9]*.html"):
        page = lxml.html.fromstring(path.read_text("utf-8"))
        (box,) = page.find_class("in-the-package")
        modules = box.xpath(".//a/@href")
        assert modules
        for address in modules:
            name = address.split("#module-")[0]
            assert path.name in (html / "book" / name).read_text("utf-8")


@pytest.mark.parametrize("name", ["api", "api_attention", "api_models"])
def test_all_classes_in_the_tables_of_the_reference_are_links(name, html):
    page = lxml.html.fromstring((html / "book" / f"{name}.html").read_text("utf-8"))
    names = page.xpath("//article//table//td[2]//code")
    assert len(names) > 15
    for code in names:
        assert code.getparent().tag == "a", code.text_content()


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_no_page_of_the_reference_is_long(path, html):
    page = lxml.html.fromstring(
        (html / "book" / f"{path.stem}.html").read_text("utf-8")
    )
    (article,) = page.xpath("//article")
    assert len(article.text_content().split()) < LONG
