"""Make the written pages smaller and faster: few colours, inline icons, deferred scripts, one style sheet.

`book_pages` calls `lighten` when the HTML has been written.
"""

import io
import re
from pathlib import Path

import numpy as np
from drawings import inline
from light_styles import Style
from PIL import Image
from sphinx.application import Sphinx

LAZY = 'loading="lazy" decoding="async"'
PALETTES = 32, 64, 128, 256  # numbers of colours
UNSEEN = 16  # of 255: a change of a colour by up to this much is invisible in a figure
ICON = re.compile(r'<i class="([^"]*\bfa-[^"]*)"([^>]*)></i>')
ICON_SCRIPT = re.compile(r'\s*<script defer src="[^"]*fontawesome\.js[^"]*"></script>')
ICON_DATA = r'[{,]"?%s"?:\[(\d+),(\d+),\[[^\]]*\],"[0-9a-f]+","([^"]+)"\]'
OPTIONS = re.compile(r'<script src="[^"]*documentation_options\.js[^"]*"></script>')
BLOCKING = re.compile(r"<script (?=[^>]*src=)(?![^>]*(?:\bdefer|\basync))")
PRELOAD = re.compile(r'\s*<link rel="preload" as="script"[^>]*>')
SIZE_OF_SVG = re.compile(
    r'<svg\b[^>]*? width="(\d+)(?:\.\d+)?(?:px)?"[^>]*? height="(\d+)(?:\.\d+)?(?:px)?"'
)
MEASURING = re.compile(
    r',"complete"===document\.readyState\?(\w+)\(\):window\.addEventListener\("load",\1\)'
)
MENU = re.compile(
    r'(>([^<]+)</a><details[^>]*><summary)(?=><span class="toctree-toggle")'
)
STYLED = re.compile(r'(<img [^>]*?) style="width: (\d+)px; height: (\d+)px;"')
PICTURE = re.compile(r'<img (?![^>]*\bwidth[=:])(?=[^>]*\bsrc="(?!data:)([^"]+)")')


def lighten(app: Sphinx, exception: Exception | None) -> None:
    """Make the HTML that has just been written smaller; other formats stay as they are."""
    if exception is None and app.builder.name == "html":
        lighten_site(Path(app.outdir))


def lighten_site(folder: Path) -> None:
    """Rewrite the figures, the pages and the theme's script; delete the script that inserted the icons."""
    for figure in folder.glob("_images/*.png"):
        take_fewer_colours(figure)
    static = folder / "_static"
    icons = (static / "scripts" / "fontawesome.js").read_text("utf-8")
    options = (static / "documentation_options.js").read_text("utf-8")
    pages = {}
    for page in folder.rglob("*.html"):
        text = inline(page.read_text("utf-8"), page.parent)
        text = lighter(text, icons, page.parent)
        if page.name != "search.html":  # its scripts call each other while it loads
            text = without_waiting(text, options)
        pages[page] = text
    theme = static / "scripts" / "pydata-sphinx-theme.js"
    theme.write_text(without_measuring(theme.read_text("utf-8")), "utf-8")
    for path in static.glob("scripts/fontawesome.js*"):
        path.unlink()
    style = Style(static, pages, folder / "search.html")
    for page, text in pages.items():
        page.write_text(style.linked(text, page.parent), "utf-8")


def without_waiting(text: str, options: str) -> str:
    """A page that no script blocks: Sphinx's options are inline, the other scripts deferred."""
    text = OPTIONS.sub(lambda _: f"<script>{options}</script>", text)
    return BLOCKING.sub("<script defer ", PRELOAD.sub("", text))


def without_measuring(theme: str) -> str:
    """The theme's script without its search for what can be scrolled, for which the whole page is laid out.

    `layout.js` does the same, part by part.

    Raises:
        ValueError: the script does not have one such search.
    """
    text, found = MEASURING.subn("", theme)
    if found != 1:
        raise ValueError(f"the theme's script has {found} searches instead of 1")
    return text


def take_fewer_colours(path: Path) -> None:
    """Give a PNG the smallest palette with which it looks the same, if the file is then smaller."""
    with Image.open(path) as image:
        colours, density = image.convert("RGB"), image.info.get("dpi", (96, 96))
    for count in PALETTES:
        few = colours.quantize(
            count, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE
        )
        moved = np.asarray(few.convert("RGB"), int) - np.asarray(colours, int)
        written = io.BytesIO()
        few.save(written, "PNG", optimize=True, dpi=density)
        if np.abs(moved).max() <= UNSEEN and written.tell() < path.stat().st_size:
            path.write_bytes(written.getvalue())
            return


def lighter(text: str, icons: str, folder: Path) -> str:
    """A page with inline icons, and with the size of each picture, so that nothing moves when it is loaded.

    The button that shows a menu below an entry gets a name, as its icon has none.
    """
    text = MENU.sub(r'\1 aria-label="Pages of \2"', text)
    text = ICON.sub(
        lambda found: icon(found[1], found[2], icons), ICON_SCRIPT.sub("", text)
    )
    text = STYLED.sub(rf'\1 width="\2" height="\3" {LAZY}', text)
    return PICTURE.sub(lambda found: found[0] + room(folder / found[1]), text)


def icon(classes: str, attributes: str, icons: str) -> str:
    """An icon as an SVG element, with the classes and the data to which the theme's style sheet refers.

    Raises:
        ValueError: the theme's script has no such icon.
    """
    names = re.findall(r"\bfa-([\w-]+)", classes)
    found = next(
        filter(None, (re.search(ICON_DATA % name, icons) for name in names)), None
    )
    if found is None:
        raise ValueError(f"no icon is known for {classes!r}")
    width, height, path = found.groups()
    kept = " ".join(name for name in classes.split() if name not in ("fas", "fa-solid"))
    data = "".join(re.findall(r' data-mode="[^"]*"', attributes))
    return (
        f'<svg class="svg-inline--fa {kept}"{data} aria-hidden="true" focusable="false"'
        f' viewBox="0 0 {width} {height}"><path fill="currentColor" d="{path}"/></svg>'
    )


def room(path: Path) -> str:
    """The attributes that reserve the space of a picture, and load it only when it is near the screen."""
    size = size_of(path)
    if size is None:
        return ""
    width, height = size
    return f'width="{width}" height="{height}" {LAZY} '


def size_of(path: Path) -> tuple[int, int] | None:
    """The width and height of a PNG or SVG in pixels of the page, or None if the file does not have them.

    A figure of 240 dots an inch, as `set_style` makes them in notebooks, has two dots for each pixel.
    """
    if path.suffix == ".svg":
        found = SIZE_OF_SVG.search(path.read_text("utf-8"))
        return found and (int(found[1]), int(found[2]))
    if path.suffix == ".png":
        with Image.open(path) as image:
            density = max(1, round(image.info.get("dpi", (96, 96))[0] / 120))
            width, height = image.size
            return width // density, height // density
    return None
