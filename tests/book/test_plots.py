"""Plots stand in the pages themselves, in the colours of the page, and elsewhere on white paper."""

import io
import re

import lxml.etree
import matplotlib as mpl
import numpy as np
import pytest
from plots import IN_BOTH, PLOT, REFERENCE
from plots import in_page as written_in_page

from companion.visualization import curves, heatmap, set_style, text_heatmap

SVG = "{http://www.w3.org/2000/svg}"
COLOURS = re.compile(
    r"(?:fill|stroke): (#[0-9a-f]{6}); \w+: light-dark\(\1, ([^)]*\)?)\)"
)


def svg(figure):
    file = io.StringIO()
    with mpl.rc_context({"backend": "agg"}):
        set_style()
        figure.savefig(file, format="svg", metadata={"Date": None})
    return file.getvalue()


def in_page(svg, alternative):
    return written_in_page(PLOT.search(svg), alternative)


@pytest.fixture
def plot():
    return svg(curves([1, 2], {"Luong": [[1, 2], [2, 3]]}, "x < 2", "$y_i$").figure)


def test_a_plot_is_an_image_with_a_description_whose_texts_are_texts(plot):
    page = lxml.etree.fromstring(in_page(plot, 'an "alternative"'))
    assert page.tag == f"{SVG}svg"
    assert page.get("role") == "img"
    assert page.get("aria-label") == 'an "alternative"'
    assert {"Luong", "x < 2"} <= {text.text for text in page.iter(f"{SVG}text")}


def test_a_plot_is_as_large_as_its_text(plot):
    written = in_page(plot, "a plot")
    wide = float(PLOT.search(plot)[1])
    assert f'width="{wide / 72 * 120:.0f}"' in written
    assert f'viewBox="0 0 {wide:.2f}' in written


def test_all_that_a_plot_refers_to_is_its_own(plot):
    one, other = in_page(plot, "a"), in_page(plot.replace("Luong", "Bahdanau"), "b")
    for written in (one, other):
        names = re.findall(r' id="([^"]*)"', written)
        assert names
        assert {*REFERENCE.findall(written)} == {*names}
        assert len(names) == len({*names})
    assert not {*re.findall(r' id="([^"]*)"', one)} & {
        *re.findall(r' id="([^"]*)"', other)
    }


def test_each_colour_has_one_for_the_dark(plot):
    found = dict(COLOURS.findall(in_page(plot, "a plot")))
    assert found["#ffffff"] == "var(--paper)"
    assert found["#000000"] == "var(--ink)"
    assert found["#d55e00"] == "#ff9147"
    assert len(found) == len(set(re.findall("#[0-9a-f]{6}", plot)))


def test_without_its_colours_for_the_dark_a_plot_has_those_of_matplotlib(plot):
    tags = re.findall(r'style="([^"]*)"', in_page(plot, "a plot"))
    assert any("light-dark" in style for style in tags)
    plain = [IN_BOTH.sub("", f"{style};") for style in tags]
    assert not any("light-dark" in style for style in plain)
    assert set(re.findall("#[0-9a-f]{6}", "".join(plain))) == set(
        re.findall("#[0-9a-f]{6}", plot)
    )


def test_numbers_that_a_reader_sees_keep_their_decimals():
    ax = curves([1, 2], {"0.12345": [1, 2]}, "x", "y")
    assert ">0.12345<" in in_page(svg(ax.figure), "a plot")


def test_cells_of_a_colour_map_are_told_from_a_photograph():
    ax = heatmap(np.eye(2), ["a", "b"], ["c", "d"])
    assert '<image class="cells"' in in_page(svg(ax.figure), "cells")
    ax.images[0].set_data(np.random.default_rng(0).random((40, 40, 3)))
    assert '<image class="photograph"' in in_page(svg(ax.figure), "a photograph")
    ax.images[0].set_data(np.linspace(0, 1, 16).reshape(4, 4, 1).repeat(3, 2))
    assert '<image class="photograph"' in in_page(svg(ax.figure), "a digit")


def test_a_heat_map_holds_one_dot_a_cell():
    ax = heatmap(np.eye(30), ["a"] * 30, ["b"] * 30)
    assert 'width="30" height="30"' in svg(ax.figure)


def test_text_in_columns_keeps_its_columns():
    ax = text_heatmap([["a"]], np.ones((1, 1)), np.ones(1))
    assert "font-family: var(--code-face)" in in_page(svg(ax.figure), "a text")


def test_text_is_legible_in_the_dark():
    ax = text_heatmap([["a"] * 11], np.linspace(0, 1, 11)[None], np.ones(1))
    found = dict(COLOURS.findall(in_page(svg(ax.figure), "a text")))
    assert len(found) > 10
    assert all(contrast("#e6e9ec", c) >= 4.5 for c in found.values() if c[0] == "#")


def contrast(one, other):
    """The contrast of two colours as the guidelines for accessible pages define it."""
    bright, dim = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


def luminance(colour):
    rgb = np.array(mpl.colors.to_rgb(colour))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


TEXTS = """texts => texts.map(text => [getComputedStyle(text).fill, getComputedStyle(text).fontFamily])"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_texts_of_plots_are_legible_on_their_page(scheme, html, browser):
    page = browser.new_page(color_scheme=scheme)
    paper = {"light": "#ffffff", "dark": "#14181e"}[scheme]
    chapters = [
        p
        for p in html.glob("book/[0-9]*.html")
        if 'class="plot"' in p.read_text("utf-8")
    ]
    assert chapters
    for path in chapters:
        page.goto(path.as_uri())
        found = page.locator("svg.plot text:not(:has(tspan))").evaluate_all(TEXTS)
        assert found
        for fill, face in found:
            colour = mpl.colors.to_hex(
                [int(n) / 255 for n in re.findall(r"\d+", fill)[:3]]
            )
            on_cells = (
                colour == paper
            )  # white on what is dark, and turned around in the dark
            assert on_cells or contrast(colour, paper) >= 3, (path.name, fill)
            assert face.startswith(('"Book Sans"', '"Book Code"'))
    page.close()
