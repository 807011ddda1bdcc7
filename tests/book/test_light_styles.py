"""The one style sheet of all pages: it leaves out what no page uses, and nothing else."""

import pytest
from fontTools.ttLib import TTFont
from light_styles import applies, used

from tests.book.conftest import IMAGES_ARE_LOADED, MATH_IS_SET, TRAINING_IS_KNOWN

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
        (".kept:not(.left, .left:is(.left:nth-child(2)))", True),
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
    brands = {0xF09B, 0xF296}  # variables for GitHub and GitLab, used by no rule
    assert set(TTFont(font).getBestCmap()) == used_icons - brands


def looks(page):
    """How all elements look, once nothing changes any more."""
    before, now = None, page.evaluate(LOOKS)
    while before != now:
        page.wait_for_timeout(500)  # the theme measures 300 ms after a change
        before, now = now, page.evaluate(LOOKS)
    return now


@pytest.fixture
def look_at(browser, html):
    """How a page looks on a screen or on paper, with another style sheet in place of the one."""

    def visit(name, style=None, width=1280, scheme="light", medium="screen"):
        size = {"width": width, "height": 900}
        with browser.new_context(viewport=size, reduced_motion="reduce") as context:
            page = context.new_page()
            page.emulate_media(color_scheme=scheme, media=medium)
            if style:
                answer = {"body": style, "content_type": "text/css"}
                page.route("**/site.css*", lambda route: route.fulfill(**answer))
            page.goto((html / f"{name}.html").as_uri())
            page.wait_for_function(MATH_IS_SET)
            page.wait_for_function(TRAINING_IS_KNOWN)
            page.wait_for_function(IMAGES_ARE_LOADED)
            return looks(page)

    return visit


@pytest.mark.parametrize(
    "view",
    [(1280, "light", "screen"), (390, "dark", "screen"), (1280, "light", "print")],
)
@pytest.mark.parametrize(
    "name", ["search", "book/02_bahdanau", "book/api_attention", "book/bench"]
)
def test_a_page_looks_as_with_all_sheets(name, view, html, look_at):
    sheets = [path for sheet in SHEETS for path in (html / "_static").glob(sheet)]
    everything = "".join(f'@import "{path.as_uri()}";\n' for path in sheets)
    with_all, with_one = look_at(name, everything, *view), look_at(name, None, *view)
    pairs = zip(with_all, with_one, strict=True)
    different = [(all_sheets, one) for all_sheets, one in pairs if all_sheets != one]
    assert not different[:3]


def test_a_page_with_another_sheet_looks_different(look_at):
    assert look_at("search", "body { color: red }") != look_at("search")
