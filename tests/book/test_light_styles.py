"""The one style sheet of all pages: it leaves out what no page uses, and nothing else."""

import pytest
from fontTools.ttLib import TTFont
from light_styles import applies, used

from tests.book.conftest import MATH_IS_SET

pytestmark = pytest.mark.book

SHEETS = [
    "styles/theme.css",
    "styles/pydata-sphinx-theme.css",
    "pygments.css",
    "styles/sphinx-book-theme.css",
    "togglebutton.css",
    "copybutton.css",
    "mystnb.*.css",
    "sphinx-design.min.css",
    "book.css",
]
LOOKS = """() => [...document.querySelectorAll('body *:not(mjx-container *)')].map(element => {
    const box = element.getBoundingClientRect();
    const [own, before, after] =
        [null, '::before', '::after'].map(pseudo => getComputedStyle(element, pseudo));
    return [
        element.tagName, element.getAttribute('class'),
        ...[box.x, box.y, box.width, box.height].map(Math.round),
        own.color, own.backgroundColor, own.font, own.display, own.opacity, own.cursor, own.border,
        before.content, before.font, before.color, after.content, after.font, after.color,
    ].join(' ');
})"""


@pytest.mark.parametrize(
    ("selectors", "they_apply"),
    [
        ("a", True),
        (".kept", True),
        ("#kept > p", True),
        (".kept.left", False),
        (".left, .kept", True),
        (".left a, .left b", False),
        (".kept:not(.left, .left:is(.left))", True),
        ('a[href$=".png"]', True),
    ],
)
def test_a_rule_applies_where_all_classes_of_a_selector_exist(selectors, they_apply):
    assert applies(selectors, {"kept"}) == they_apply


def test_rules_inside_conditions_are_chosen_too():
    style = """@media (max-width: 10px) { .kept { color: red } .left { color: blue } }
    @media print { .left { color: blue } }
    @keyframes turn { to { rotate: 1turn } } :root { --a: "{" } /* .kept {} */"""
    rules = "".join(used(style, {"kept"}))
    assert "red" in rules
    assert "blue" not in rules
    assert "print" not in rules
    assert "@keyframes turn { to { rotate: 1turn } }" in rules
    assert ':root{--a: "{"}' in rules
    assert "/*" not in rules


def test_every_page_links_to_the_sheet_and_to_none_that_it_replaces(html):
    pages = (
        html / "search.html",
        *html.glob("book/*.html"),
        *html.rglob("_modules/**/*.html"),
    )
    for page in pages:
        text = page.read_text("utf-8")
        assert text.count("_static/site.css?v=") == 1, page
        assert "pydata-sphinx-theme.css" not in text, page


def test_the_sheet_is_a_fraction_of_what_it_replaces(html):
    static = html / "_static"
    replaced = [path for sheet in SHEETS for path in static.glob(sheet)]
    assert len(replaced) == len(SHEETS)
    everything = sum(path.stat().st_size for path in replaced)
    assert (static / "site.css").stat().st_size < everything / 3


def test_the_font_has_the_icons_of_the_sheet_and_no_other(html):
    (font,) = html.glob("_static/vendor/fontawesome/webfonts/*-part.woff")
    assert font.stat().st_size < 10_000
    style = (html / "_static" / "site.css").read_text("utf-8")
    used_icons = {ord(letter) for letter in style if "\uf000" <= letter <= "\uf8ff"}
    characters = set(TTFont(font).getBestCmap())
    assert characters
    assert characters <= used_icons


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(
    "name", ["search", "book/02_bahdanau", "book/api_attention", "book/bench"]
)
def test_a_page_looks_as_with_all_sheets(name, scheme, html, browser):
    static = html / "_static"
    imports = [
        f'@import "{path.as_uri()}";\n'
        for sheet in SHEETS
        for path in static.glob(sheet)
    ]

    def looks(body):
        with browser.new_context(
            color_scheme=scheme, reduced_motion="reduce"
        ) as context:
            page = context.new_page()
            if body:
                page.route(
                    "**/site.css*",
                    lambda route: route.fulfill(body=body, content_type="text/css"),
                )
            page.goto((html / f"{name}.html").as_uri())
            page.wait_for_function(MATH_IS_SET)
            page.wait_for_timeout(
                400
            )  # the theme measures what can be scrolled 300 ms after a change
            return page.evaluate(LOOKS)

    assert looks("".join(imports)) == looks(None)
    assert looks("body { color: red }") != looks(None)
