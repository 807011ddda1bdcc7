"""Drawings stand in the pages themselves, in the colours of the page."""

import re

import nbformat
import pytest

from tests.conftest import ROOT

FILLS = "svg => getComputedStyle(svg.querySelector('.fill-paper')).fill"


def drawings(notebook):
    """The drawings that a notebook holds."""
    cells = nbformat.read(notebook, 4).cells
    outputs = [one.get("data", {}) for cell in cells for one in cell.get("outputs", [])]
    pictures = [data["image/svg+xml"] for data in outputs if "image/svg+xml" in data]
    return [svg for svg in pictures if 'class="drawing"' in svg[:200]]


def test_every_drawing_of_a_notebook_stands_in_its_page_above_its_caption(html):
    count = 0
    for notebook in ROOT.glob("book/[0-9]*.ipynb"):
        text = (html / "book" / f"{notebook.stem}.html").read_text("utf-8")
        for svg in drawings(notebook):
            begin = text.index(re.search(r'aria-label="[^"]*"', svg)[0])
            rest = text[begin : text.index("</figure>", begin)]
            assert svg.rstrip().split("\n", 1)[1] in rest
            assert "<figcaption>" in rest
            count += 1
    assert count


def test_a_drawing_has_the_colours_of_its_page_and_fits_a_phone(html, browser):
    page = browser.new_page(viewport={"width": 390, "height": 844})
    name = next(
        path.name
        for path in sorted(html.glob("book/[0-9]*.html"))
        if 'class="drawing"' in path.read_text("utf-8")
    )
    found = set()
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        page.goto((html / "book" / name).as_uri())
        for drawing in page.locator("figure svg.drawing").all():
            found.add((scheme, drawing.evaluate(FILLS)))
            box = drawing.bounding_box()
            assert 0 <= box["x"] <= box["x"] + box["width"] <= 390
            viewed = drawing.evaluate(
                "svg => svg.viewBox.baseVal.width / svg.viewBox.baseVal.height"
            )
            assert box["width"] / box["height"] == pytest.approx(viewed, rel=0.01)
    page.close()
    assert found == {("light", "rgb(255, 255, 255)"), ("dark", "rgb(20, 24, 30)")}
