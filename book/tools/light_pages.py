"""Finishing touches to the built pages: fewer colours in figures, icons and drawings in place, late scripts.

`book_pages` calls `lighten` when the HTML has been written.
"""

import io
import re
from pathlib import Path

import numpy as np
from drawings import draw_in_place
from PIL import Image

LATE = 'loading="lazy" decoding="async"'
PALETTES = 32, 64, 128, 256  # numbers of colours
UNSEEN = 16  # of 255: a change of a colour by up to this much is invisible in a figure
ICON = re.compile(r'<i class="([^"]*\bfa-[^"]*)"([^>]*)></i>')
ICON_SCRIPT = re.compile(r'\s*<script defer src="[^"]*fontawesome\.js[^"]*"></script>')
DRAWING = r'[{,]"?%s"?:\[(\d+),(\d+),\[[^\]]*\],"[0-9a-f]+","([^"]+)"\]'
WAITING = re.compile(
    r"<script (?=[^>]*src=)(?![^>]*(?:\bdefer|\basync|documentation_options))"
)
SIZE_OF_DRAWING = re.compile(
    r'<svg\b[^>]*? width="(\d+)(?:\.\d+)?(?:px)?"[^>]*? height="(\d+)(?:\.\d+)?(?:px)?"'
)
MENU = re.compile(
    r'(>([^<]+)</a><details[^>]*><summary)(?=><span class="toctree-toggle")'
)
STYLED = re.compile(r'(<img [^>]*?) style="width: (\d+)px; height: (\d+)px;"')
PICTURE = re.compile(r'<img (?![^>]*\bwidth[=:])(?=[^>]*\bsrc="(?!data:)([^"]+)")')


def lighten(app, exception):
    """Make the site that has just been written lighter; other formats keep what they have."""
    if exception is None and app.builder.name == "html":
        lighten_site(Path(app.outdir))


def lighten_site(folder):
    """Rewrite the figures and pages of a folder, and drop the script that drew the icons."""
    for figure in folder.glob("_images/*.png"):
        take_fewer_colours(figure)
    scripts = folder / "_static" / "scripts"
    icons = (scripts / "fontawesome.js").read_text("utf-8")
    for page in folder.rglob("*.html"):
        text = draw_in_place(page.read_text("utf-8"), page.parent)
        text = lighter(text, icons, page.parent)
        if (
            page.name != "search.html"
        ):  # whose own scripts call each other while it loads
            text = WAITING.sub("<script defer ", text)
        page.write_text(text, "utf-8")
    for path in scripts.glob("fontawesome.js*"):
        path.unlink()


def take_fewer_colours(path):
    """Give a PNG the smallest palette with which it looks the same, if it is then smaller."""
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


def lighter(text, icons, folder):
    """A page with its icons drawn in place and the room of each picture known before it comes.

    The button that shows a menu below an entry gets a name, as its icon has none.
    """
    text = MENU.sub(r'\1 aria-label="Pages of \2"', text)
    text = ICON.sub(
        lambda found: drawn(*found.groups(), icons), ICON_SCRIPT.sub("", text)
    )
    text = STYLED.sub(rf'\1 width="\2" height="\3" {LATE}', text)
    return PICTURE.sub(lambda found: found[0] + room(folder / found[1]), text)


def drawn(classes, attributes, icons):
    """An icon as an SVG of its own, with the classes and the data that the theme's style sheet knows."""
    names = re.findall(r"\bfa-([\w-]+)", classes)
    found = next(
        filter(None, (re.search(DRAWING % name, icons) for name in names)), None
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


def room(path):
    """Attributes that reserve a picture's room, and let it wait until it is near."""
    size = size_of(path)
    if size is None:
        return ""
    width, height = size
    return f'width="{width}" height="{height}" {LATE} '


def size_of(path):
    """The width and height of a PNG or SVG in pixels of the page, if it says so.

    A figure of 240 dots an inch, as `set_style` makes them in notebooks, has two for each pixel of the page.
    """
    if path.suffix == ".svg":
        found = SIZE_OF_DRAWING.search(path.read_text("utf-8"))
        return found and found.groups()
    if path.suffix == ".png":
        with Image.open(path) as image:
            density = max(1, round(image.info.get("dpi", (96, 96))[0] / 120))
            return tuple(size // density for size in image.size)
    return None
