"""Chromium for the other tools: start it, or open the whole book in it as one document without a network.

Also a command, which finds or installs one for the tests. It prints one line, and never fails: they say so.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from playwright.sync_api import Browser, Page, sync_playwright

if TYPE_CHECKING:
    from pages import Book

NAMES = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    r"C:\Program Files\Google\Chrome\Application\chrome.exe",
)
PLAYWRIGHT = [sys.executable, "-m", "playwright", "install", "chromium"]
DEBIAN = ["apt-get", "-qq", "install", "--yes", "chromium"]
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


def chromium() -> str:
    """The path of a Chromium: the system's, or else the one that Playwright has downloaded.

    Raises:
        FileNotFoundError: there is none.
    """
    for name in NAMES:
        if path := shutil.which(name):
            return path
    with sync_playwright() as playwright:
        if Path(path := playwright.chromium.executable_path).is_file():
            return path
    raise FileNotFoundError(
        "no Chromium was found: `python book/tools/browser.py` tries to get one;"
        " on Debian, apt-get install chromium"
    )


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


def get(find: Callable[[], str], *commands: list[str]) -> None:
    """Print where something is; if it is missing, try the commands one after another to install it."""
    for command in (*commands, None):
        try:
            print(f"found {find()}")
            return
        except FileNotFoundError as error:
            missing = error
        if command and shutil.which(command[0]):
            subprocess.run(command)
    print(missing)


if __name__ == "__main__":
    debian = [] if os.name == "nt" or os.geteuid() else [DEBIAN]
    get(chromium, PLAYWRIGHT, *debian)
