"""A plot that Matplotlib has written as SVG, as a part of a page, with the page's face and colours."""

import base64
import io
import re
from colorsys import hls_to_rgb, rgb_to_hls
from html import escape
from zlib import crc32

import numpy as np
from matplotlib.colors import to_hex, to_rgb
from PIL import Image

PLOT = re.compile(r'<svg\b[^>]*? width="([\d.]+)pt" height="([\d.]+)pt"')
TAG = re.compile(r"<[^>]+>")
COLOUR = re.compile(r"(fill|stroke): (#[0-9a-f]{6})")
IN_BOTH = re.compile(r"; (?:fill|stroke): light-dark\([^;\"]*\)(?=[;\"])")
FACE = re.compile(r"font-family: 'DejaVu Sans( Mono)?'[^;\"]*(; )?")
DECIMALS = re.compile(r"(\.\d\d)\d+")
PICTURE = re.compile(r'<image(.*?)data:image/png;base64,([^"]*)', re.DOTALL)
REFERENCE = re.compile(r'(?:url\(|href=")#([\w-]+)')
PIXELS_A_POINT = 5 / 3  # of the page: a figure of five inches is 600 pixels wide
#: In the dark: paper and ink, and the colours of lines.
DARK = {
    "#ffffff": "var(--paper)",
    "#000000": "var(--ink)",
    "#0072b2": "#4fb0f0",
    "#d55e00": "#ff9147",
    "#009e73": "#3dcf9f",
    "#cc79a7": "#ec9fca",
    "#e69f00": "#f2b93c",
    "#56b4e9": "#a5dafa",
    "#767676": "#a8b1ba",
    "#882255": "#e2739f",
    "#999933": "#c6c562",
    "#332288": "#a393f2",
}


def in_page(plot: re.Match[str], alternative: str) -> str:
    """The plot for a page, on which only what it refers to keeps an identifier."""
    svg, name = plot.string, f"p{crc32(plot.string.encode()):x}-"
    width, height = (float(side) for side in plot.groups())
    used = set(REFERENCE.findall(svg))

    def restyled(tag: re.Match[str]) -> str:
        written = re.sub(
            r' id="([^"]*)"', lambda m: f' id="{name}{m[1]}"' * (m[1] in used), tag[0]
        )
        if written.startswith("<image"):
            return PICTURE.sub(coloured, written)
        written = re.sub(r'(url\(|href=")#', rf"\1#{name}", written)
        written = FACE.sub(
            lambda m: "font-family: var(--code-face); " * bool(m[1]), written
        )
        least = 0.7 if written.startswith(("<text", "<tspan")) else None
        return DECIMALS.sub(
            r"\1", COLOUR.sub(lambda declared: in_both(declared, least), written)
        )

    body = TAG.sub(restyled, svg[svg.index("<g ") :].replace("xlink:href", "href"))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="plot" role="img" aria-label="{escape(alternative)}"'
        f' width="{width * PIXELS_A_POINT:.0f}" height="{height * PIXELS_A_POINT:.0f}"'
        f' viewBox="0 0 {width:.2f} {height:.2f}" style="--least: {0.9 * width:.0f}px">{body}'
    )


def in_both(declared: re.Match[str], least: float | None) -> str:
    """The declaration of a colour, and one with its colour in the dark: of texts, at least so light."""
    name, colour = declared.groups()
    hue, light, saturation = rgb_to_hls(*to_rgb(colour))
    other = max(1 - light, least) if least else 0.1 + 0.6 * (1 - light)
    dark = DARK.get(colour, to_hex(hls_to_rgb(hue, other, 0.7 * saturation)))
    return f"{name}: {colour}; {name}: light-dark({colour}, {dark})"


def coloured(image: re.Match[str]) -> str:
    """A picture of cells coloured by a colour map, or a photograph, as a JPEG of a sixth of the size."""
    before, png = image.groups()
    picture = Image.open(io.BytesIO(base64.b64decode(png))).convert("RGB")
    dots = np.unique(np.asarray(picture).reshape(-1, 3), axis=0)
    if len(dots) <= 300 and np.ptp(dots, axis=1).any():
        return image[0].replace("<image", '<image class="cells"')
    picture.save(jpeg := io.BytesIO(), "JPEG", quality=85)
    written = base64.b64encode(jpeg.getvalue()).decode()
    return f'<image class="photograph"{before}data:image/jpeg;base64,{written}'
