"""Command: make the still pictures of the attention bench, for readers without scripts.

    python book/tools/bench_pictures.py

The scripts of the bench run in Chromium; each example becomes an SVG file in ``book/_static/bench``.
"""

import re
from pathlib import Path

from browser import launched
from playwright.sync_api import Page

STATIC = Path(__file__).resolve().parents[1] / "_static"
FOLDER = STATIC / "bench"
SCRIPTS = (
    "../play/elements",
    "../play/rules",
    "attention",
    "state",
    "drawing",
    "plane",
    "bars",
    "still",
)
TO_SVG = """() => Object.entries(benchState.EXAMPLES).map(([name, changes]) => [
    name, new XMLSerializer().serializeToString(benchStill(benchState.first(changes)))
])"""
COLOUR = re.compile(r"--([\w-]+): (#\w+);")
USE = re.compile(r"var\(--([\w-]+)\)")


def pictures(page: Page) -> dict[str, str]:
    """Each example of the bench as an SVG document, by its name; ``page`` is an empty page."""
    for script in SCRIPTS:
        page.add_script_tag(path=FOLDER / f"{script}.js")
    return {name: with_style(svg) for name, svg in page.evaluate(TO_SVG)}


def with_style(svg: str) -> str:
    """An SVG document with its style rules inside, in the light theme.

    Some readers of electronic books do not support CSS variables. Each variable is
    therefore replaced by its colour.
    """
    light = (STATIC / "book.css").read_text("utf-8").split("html[data-theme", 1)[0]
    colours = dict(COLOUR.findall(light))
    rules = (FOLDER / "picture.css").read_text("utf-8")
    rules = USE.sub(lambda use: colours[use[1]], rules)
    start = svg.index(">") + 1
    return f"{svg[:start]}\n<style>\n{rules}</style>\n{svg[start:]}\n"


def main() -> None:
    """Write all pictures."""
    with launched() as browser:
        for name, svg in pictures(browser.new_page(offline=True)).items():
            (FOLDER / f"{name}.svg").write_text(svg, "utf-8")


if __name__ == "__main__":
    main()
