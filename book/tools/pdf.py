"""The book as one PDF for A4, printed by Chromium, with bookmarks and a table of contents."""

import io
import json
from html import escape
from pathlib import Path

import lxml.html
import pikepdf
from pages import Book, Page, cover, opened, read_book, relink, stylesheet

NUMBERS = """numbers => document.querySelectorAll('nav.contents .number').forEach(
    (element, index) => { element.textContent = numbers[index] })"""


def write_pdf(html: Path, path: Path) -> None:
    """Print the book that is built in the folder ``html`` into the file ``path``."""
    book = read_book(html)
    with opened(book, *document(book)) as browser:
        with pikepdf.open(io.BytesIO(browser.pdf(prefer_css_page_size=True))) as draft:
            sheets = [draft.Root.Dests[f"/{page.name}"][0] for page in book.pages]
            browser.evaluate(NUMBERS, [pikepdf.Page(sheet).label for sheet in sheets])
        printed = browser.pdf(
            prefer_css_page_size=True, print_background=True, outline=True, tagged=True
        )
    finish(printed, book, path)


def document(book: Book) -> tuple[str, str]:
    """The style sheet and the body of one document with all pages, whose links and pictures work there."""
    for page in book.pages:
        for element in page.body.xpath(".//*[@id][not(ancestor::svg)]"):
            element.set("id", anchor(page.name, element.get("id")))
        for image in page.body.iter("img"):
            image.set("src", (book.html / "book" / image.get("src")).resolve().as_uri())
    relink(book.pages, lambda name, fragment: f"#{anchor(name, fragment)}")
    heads = "".join(
        running_head(number, page.title) for number, page in enumerate(book.pages)
    )
    sections = "".join(section(number, page) for number, page in enumerate(book.pages))
    nav = f'<nav class="contents">{book.listed(line)}</nav>\n'
    return stylesheet(book, "pdf.css") + heads, cover(book) + nav + sections


def finish(printed: bytes, book: Book, path: Path) -> None:
    """Write the printed book into a file with its title and author, which opens with the bookmarks shown."""
    with pikepdf.open(io.BytesIO(printed)) as pdf:
        pdf.Root.PageMode = pikepdf.Name.UseOutlines
        with pdf.open_metadata(set_pikepdf_as_editor=False) as metadata:
            metadata["dc:title"] = book.title
            metadata["dc:creator"] = [book.author]
        for mark in pdf.objects:
            if (
                isinstance(mark, pikepdf.Dictionary)
                and {"/Title", "/Parent"} <= mark.keys()
            ):
                mark.Title = once(str(mark.Title))
        pdf.save(path, object_stream_mode=pikepdf.ObjectStreamMode.generate)


def once(title: str) -> str:
    """The title of a bookmark, which Chromium writes twice where it moved a heading to the next sheet."""
    half = title[: len(title) // 2]
    return half if title == half * 2 else title


def anchor(name: str, fragment: str) -> str:
    """The id of an element of a page, or of the page itself, in the document with all pages."""
    return f"{name}--{fragment}" if fragment else name


def running_head(number: int, title: str) -> str:
    """The style rule that prints the page's title at the top of each of its sheets."""
    return f"@page page-{number} {{ @top-center {{ content: {json.dumps(title, ensure_ascii=False)} }} }}\n"


def section(number: int, page: Page) -> str:
    """A page of the book, which starts on a new sheet."""
    body = "".join(lxml.html.tostring(child, encoding="unicode") for child in page.body)
    return f'<section class="page" id="{page.name}" style="page: page-{number}">{body}</section>\n'


def line(page: Page) -> str:
    """A page in the table of contents, with an empty element for its number.

    The number is close to the title: in place of a wide gap, programs that extract the text
    of a PDF insert no space.
    """
    number = '<span class="number"></span>'
    return f'<li><a href="#{page.name}">{escape(page.title)} {number}</a></li>'
