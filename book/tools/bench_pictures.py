"""The still pictures of the attention bench, drawn by its own scripts in Chromium.

    python book/tools/bench_pictures.py

draws them anew into ``book/_static/bench``, one for each example of the bench.
"""

import re
from pathlib import Path

from get_browser import chromium
from playwright.sync_api import Page, sync_playwright

STATIC = Path(__file__).resolve().parents[1] / "_static"
FOLDER = STATIC / "bench"
SCRIPTS = ("attention", "state", "drawing", "plane", "bars", "still")
DRAW = """() => Object.entries(benchState.EXAMPLES).map(([name, changes]) => [
    name, new XMLSerializer().serializeToString(benchStill(benchState.first(changes)))
])"""
COLOUR = re.compile(r"--([\w-]+): (#\w+);")
USE = re.compile(r"var\(--([\w-]+)\)")


def pictures(page: Page) -> dict[str, str]:
    """Each example of the bench as an SVG document, by its name, drawn on an empty page."""
    for script in SCRIPTS:
        page.add_script_tag(path=FOLDER / f"{script}.js")
    return {name: with_style(svg) for name, svg in page.evaluate(DRAW)}


def with_style(svg: str) -> str:
    """A drawing with its rules inside, in the colours of white paper.

    Not every reader of electronic books knows variables of CSS, so the colours are
    written out.
    """
    light = (STATIC / "book.css").read_text("utf-8").split("html[data-theme", 1)[0]
    colours = dict(COLOUR.findall(light))
    rules = (FOLDER / "picture.css").read_text("utf-8")
    rules = USE.sub(lambda use: colours[use[1]], rules)
    start = svg.index(">") + 1
    return f"{svg[:start]}\n<style>\n{rules}</style>\n{svg[start:]}\n"


def main() -> None:
    """Write all pictures."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium(), args=["--no-sandbox"]
        )
        for name, svg in pictures(browser.new_page(offline=True)).items():
            (FOLDER / f"{name}.svg").write_text(svg, "utf-8")
        browser.close()


if __name__ == "__main__":
    main()
