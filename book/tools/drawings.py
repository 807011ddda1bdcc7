"""Put the SVG of each drawing into its page, where it follows the light or dark theme; and undo that.

`light_pages` calls `inline` for each page of the site; `pages`, which prepares the pages for PDF and
ePub, calls `restore`.
"""

import re
from html import unescape
from pathlib import Path

from lxml.html import HtmlElement
from lxml.html.builder import E

# A picture of a given width is in a link to its file.
PICTURE = re.compile(
    r'(<a [^>]*\bimage-reference\b[^>]*>)?<img [^>]*?\bsrc="([^":]+\.svg)"[^>]*>(?(1)\s*</a>)'
)
DRAWING = re.compile(r'<svg\b[^>]*\sclass="drawing"')
INLINE = ".//svg[@data-file]"


def inline(text: str, folder: Path) -> str:
    """The HTML of a page in ``folder``, with the drawings themselves instead of references to their files."""
    return PICTURE.sub(lambda picture: drawing(picture, folder), text)


def drawing(picture: re.Match[str], folder: Path) -> str:
    """The SVG of a picture if it is one of our drawings, or else the picture."""
    svg = (folder / unescape(picture[2])).read_text("utf-8")
    found = DRAWING.search(svg)
    if found is None:
        return picture[0]
    return f'<svg data-file="{picture[2]}"{svg[found.start() + 4 :].rstrip()}'


def restore(body: HtmlElement) -> None:
    """Replace the drawings of a page by references to their files."""
    for svg in body.xpath(INLINE):
        picture = E.img(src=svg.get("data-file"), alt=svg.get("aria-label"))
        picture.tail = svg.tail
        svg.getparent().replace(svg, picture)
