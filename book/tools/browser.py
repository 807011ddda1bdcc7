"""Chromium for the other tools: start it, or open the whole book in it as one document without a network."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from pathlib import Path

from get_browser import chromium
from pages import Book
from playwright.sync_api import Browser, Page, sync_playwright

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


@contextmanager
def launched() -> Iterator[Browser]:
    """A Chromium without a window, closed at the end.

    Raises:
        FileNotFoundError: there is none.
    """
    executable = chromium()  # before, as it may start Playwright, which does not nest
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=executable, args=["--no-sandbox"]
        )
        yield browser
        browser.close()


@contextmanager
def opened(book: Book, style: str, body: str) -> Iterator[Page]:
    """A page with this style sheet and body, its formulas set by the book's own MathJax."""
    mathjax = (book.html / "_static" / "mathjax" / "tex-chtml.js").resolve().as_uri()
    with tempfile.TemporaryDirectory() as folder, launched() as browser:
        path = Path(folder) / "document.html"
        fields = {
            "title": escape(book.title),
            "style": style,
            "body": body,
            "mathjax": mathjax,
        }
        path.write_text(DOCUMENT.format(**fields), "utf-8")
        page = browser.new_page(offline=True)
        page.set_default_timeout(300_000)
        page.goto(path.as_uri())
        page.evaluate("() => MathJax.startup.promise.then(() => true)")
        yield page
