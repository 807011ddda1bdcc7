"""The built pages for the PDF and the ePub, without what only works on a screen, and Chromium to set them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple
from urllib.parse import urldefrag, urlsplit

import lxml.html
import yaml
from browser import launched
from lxml.html import HtmlElement
from lxml.html.builder import E
from playwright.sync_api import Page as Screen
from plots import IN_BOTH
from stamp import ROOT

from companion.visualization.explorer import PERCENT

ARTICLE = "//article[contains(@class, 'bd-article')]"
# Link marks beside headings, links to source code, links to the downloads themselves, lists of pages that
# the theme hides, and the cells that install the package.
SUPERFLUOUS = (
    ".//a[@class='headerlink' or span[@class='viewcode-link']]"
    " | .//div[contains(@class, 'downloads') or contains(@class, 'toctree-wrapper')]"
    " | .//div[contains(@class, 'tag_hide-cell')][details/summary[normalize-space() = 'Setup']]"
)
EXPLORERS = ".//form[starts-with(@class, 'explore-')]"
FORMULAS = ".//*[contains(concat(' ', @class, ' '), ' math ')]"
WEIGHT = "--w:"
LIGHT = 'html[data-theme="light"] '
TOOLS = Path(__file__).parent
DOCUMENT = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{title}</title>
<style>{style}</style>
<script>
window.MathJax = {{options: {{
  ignoreHtmlClass: "book", processHtmlClass: "math", menuOptions: {{settings: {{assistiveMml: false}}}}
}}}};
</script>
<script defer src="{mathjax}"></script>
</head>
<body class="book">
{body}
</body>
</html>
"""
SET = "() => MathJax.startup.promise.then(() => document.fonts.ready).then(() => true)"


class Page(NamedTuple):
    """A page of the book: the name of its file, its title, the part of the book, and its content."""

    name: str
    title: str
    part: str
    body: HtmlElement


class Book(NamedTuple):
    """A built book: the folder of its web pages, its title, its author, and its pages in order."""

    html: Path
    title: str
    author: str
    pages: list[Page]

    def listed(self, entry: Callable[[Page], str]) -> str:
        """The pages as a table of contents: below each part of the book their entries."""
        lines = ""
        for part, group in groupby(self.pages, key=lambda page: page.part):
            entries = "".join(map(entry, group))
            whole = f"<li><span>{escape(part)}</span><ol>{entries}</ol></li>"
            lines += whole if part else entries
        return f"<h1>Contents</h1><ol>{lines}</ol>"


def read_book(html: Path) -> Book:
    """The book that is built in the folder ``html``."""
    settings = yaml.safe_load((ROOT / "_config.yml").read_text("utf-8"))
    pages = [
        read_page(html / Path(file).with_suffix(".html"), title, part)
        for part, file, title in contents()
    ]
    return Book(html, settings["title"], settings["author"], pages)


def contents() -> Iterator[tuple[str, str, str | None]]:
    """The part, the file and the title, where it has one, of each page in the table of contents."""
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text("utf-8"))
    yield "", toc["root"], None
    for part in toc["parts"]:
        for chapter in part["chapters"]:
            for page in [chapter, *chapter.get("sections", ())]:
                yield part["caption"], page["file"], page.get("title")


def read_page(path: Path, title: str | None, part: str) -> Page:
    """One page, its heading as in the table of contents."""
    body = lxml.html.fromstring(path.read_text("utf-8")).xpath(ARTICLE)[0]
    for element in body.xpath(SUPERFLUOUS):
        element.drop_tree()
    for drawing in body.xpath(".//svg[@viewbox]"):  # as HTML spells it
        drawing.set("viewBox", drawing.attrib.pop("viewbox"))
    for clip in body.iter("clippath"):
        clip.tag = "clipPath"
    for styled in body.xpath(".//svg//*[contains(@style, 'light-dark')]"):
        styled.set("style", IN_BOTH.sub("", f"{styled.get('style')};"))
    for explorer in body.xpath(EXPLORERS):
        flatten(explorer)
    for folded in body.iter("details"):
        folded.set("open", "")
    for label in body.xpath(".//summary/p"):
        label.drop_tag()
    for image in body.iter("img"):
        image.attrib.pop("loading", None)
    heading = body.find(".//h1")
    if title:
        heading.text = title
    return Page(path.stem, heading.text_content(), part, body)


def flatten(explorer: HtmlElement) -> None:
    """Replace an explorer by its open map, as a table whose cells have their own background colours."""
    shown = explorer.xpath("(details[@open] | self::*[not(details)])")[0]
    table = shown.find(".//table")
    for head in table.iter("th"):
        head.attrib.pop("style", None)
        head.text, head[:] = head.text_content(), []
    for cell in table.xpath(".//td[@style]"):
        del cell.attrib["title"]
        weight = int(cell.get("style").removeprefix(WEIGHT))
        cell.set(
            "style", f"background-color: rgba(60, 110, 190, {weight * 0.0075:.2f})"
        )
    said = f"{explorer.findtext('p/b')} {PERCENT}"
    if names := explorer.xpath("details/summary/text()"):
        name = shown.findtext("summary")
        said = f"{said} This is {name}, one of {len(names)} maps; the web page has them all."
    outer = explorer.getparent()  # which also has the explorer's own style sheet
    outer[:] = [
        E.figure(
            E.div(table, {"class": "map"}),
            E.figcaption(E.p(said)),
            {"class": "explorer"},
        )
    ]


def relink(pages: list[Page], link: Callable[[str, str], str]) -> None:
    """Replace each link to a page of the book by what ``link`` returns for the page's name and the fragment.

    Raises:
        ValueError: a link leads to a page that is not in the book.
    """
    names = {page.name for page in pages}
    for page in pages:
        for anchor in page.body.xpath(".//a[@href]"):
            address, fragment = urldefrag(anchor.get("href"))
            if not urlsplit(address).scheme:
                name = Path(address).stem or page.name
                if name not in names:
                    raise ValueError(
                        f"{page.name} links to {address}, which is no page of the book"
                    )
                anchor.set("href", link(name, fragment))


def stylesheet(book: Book, name: str) -> str:
    """``pages.css``, the colours of code as on the light web pages, and the file ``name``."""
    code = (book.html / "_static" / "pygments.css").read_text("utf-8").splitlines()
    light = (line for line in code if line.startswith(f"{LIGHT}.highlight "))
    first, last = ((TOOLS / x).read_text("utf-8") for x in ("pages.css", name))
    return "\n".join([first, *(line.removeprefix(LIGHT) for line in light), last])


def cover(book: Book) -> str:
    """The title page in HTML."""
    picture = (book.html / "_static" / "alignment.png").resolve().as_uri()
    return (
        f'<header class="cover"><p class="title">{escape(book.title)}</p><img src="{picture}" alt="">'
        f'<p class="author">{escape(book.author)}</p></header>\n'
    )


@contextmanager
def opened(book: Book, style: str, body: str) -> Iterator[Screen]:
    """A page with this style sheet and body, in the book's faces, its formulas set by its own MathJax."""
    static = (book.html / "_static").resolve()
    mathjax = (static / "mathjax" / "tex-chtml.js").as_uri()
    faces = (static / "type.css").read_text("utf-8").split("/* The icons")[0]
    style = faces.replace("optional", "block") + style
    with TemporaryDirectory() as folder, launched() as browser:
        path = Path(folder, "document.html")
        Path(folder, "fonts").symlink_to(static / "fonts")
        title = escape(book.title)
        written = DOCUMENT.format(title=title, style=style, mathjax=mathjax, body=body)
        path.write_text(written, "utf-8")
        page = browser.new_page(offline=True)
        page.set_default_timeout(300_000)
        page.goto(path.as_uri())
        page.evaluate(SET)
        yield page
