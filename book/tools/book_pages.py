"""Sphinx extension: corrections to every page that Jupyter Book and its theme make.

The Colab button exists only where there is an address to link to. Folded cells have the names that they
have in Colab, from their `#@title`. Quotations that are boxes get a class. Each page has a description, also
for link previews. The HTML passes an accessibility check. When the site is written, `light_pages` makes it
smaller.
"""

import html
import re
import textwrap
from collections.abc import Iterator
from typing import Any

from docutils import nodes
from light_pages import lighten
from sphinx.application import Sphinx
from sphinx.config import Config
from stamp import COLAB, site_url

FOLDED = re.compile(
    r'<summary aria-label="Toggle hidden content">\s*<p class="collapsed[^>]*>.*?</p>'
    r'\s*<p class="expanded[^>]*>.*?</p>\s*</summary>'
    r'(\s*<div class="cell_input[^>]*>\s*<div[^>]*><div[^>]*><pre><span></span>'
    r'<span class="c1">#@title (.*?)</span>)'
)
SIGNATURE = re.compile(r'<dt class="sig .*?</dt>', re.DOTALL)
PLAIN = re.compile(
    r'<span class="(?:pre|[npsw])">([^<]*)</span>'
)  # classes of words in a signature, for which no style sheet has a rule
PLAIN_CODE = re.compile(
    r'<span class="(?:n|nn|o|p|w)">([^<]*)</span>'
)  # classes of words in code whose colour is that of all code, and of operators: they need no colour
FORMULA = re.compile(
    r'<div class="(math notranslate[^"]*)"([^>]*)>(.*?)</div>', re.DOTALL
)
LINE = re.compile(r"\\cr|\\\\(?![\[\]])")
DEFINITION = "Definition."
TAG = re.compile(r"<[^>]*>")
PREVIEW = "alignment.png"  # the picture of link previews
DESCRIBED = 80, 155  # the least and the largest number of letters in a description


def add_colab(app: Sphinx, config: Config) -> None:
    """Add the Colab button if the book has an address: without one the theme fails."""
    if config.html_theme_options.get("repository_url"):
        config.html_theme_options["launch_buttons"] = {"colab_url": COLAB}


def load_mathjax_late(app: Sphinx, config: Config) -> None:
    """Load MathJax in parts instead of as one large file, and not before `math.js` asks for it."""
    config.mathjax_path = "mathjax/startup.js"
    config.mathjax_options = {"type": "text/plain"}


def name_boxes(app: Sphinx | None, doctree: nodes.document) -> None:
    """Give quotations that are boxes in the book the classes of the style sheets.

    The one below a page's title summarises the page. One that begins with a bold
    "Definition." is a definition.
    """
    for quotation in doctree.findall(nodes.block_quote):
        section, bold = quotation.parent, quotation.next_node(nodes.strong)
        defines = bold is not None and bold.astext() == DEFINITION
        if defines and quotation.astext().startswith(DEFINITION):
            quotation["classes"].append("definition")
        elif section.index(quotation) == 1 and section.parent is doctree:
            quotation["classes"].append("at-a-glance")


def correct(
    app: Sphinx,
    page: str,
    template: str,
    context: dict[str, Any],
    doctree: nodes.document | None,
) -> None:
    """Name the folded cells, describe the page, and correct what an accessibility check finds in the HTML."""
    if "body" in context:
        body = FOLDED.sub(
            r'<summary><p class="admonition-title">\2</p></summary>\1', context["body"]
        )
        body = SIGNATURE.sub(lambda signature: plain_lines(signature[0]), body)
        body = PLAIN_CODE.sub(r"\1", body)
        body = FORMULA.sub(with_height, body)
        context["body"] = plain_citations(body)
    if doctree is not None:
        description = describe(doctree)
        context["metatags"] += meta("name", "description", description)
        for name, content in preview(app.config, page, context, description):
            context["metatags"] += meta("property", f"og:{name}", content)


def meta(kind: str, name: str, content: str) -> str:
    """A line in the head of a page."""
    return f'\n    <meta {kind}="{name}" content="{html.escape(content)}" />'


def preview(
    config: Config, page: str, context: dict[str, Any], description: str
) -> Iterator[tuple[str, str]]:
    """What a link preview shows: with the page's address and a picture once the book has an address."""
    yield "title", html.unescape(TAG.sub("", context["title"]))
    yield "description", description
    yield "type", "website" if page == config.root_doc else "article"
    yield "site_name", config.html_title
    if site := site_url(config.html_theme_options.get("repository_url", "")):
        yield "url", f"{site}/{page}.html"
        yield "image", f"{site}/_static/{PREVIEW}"


def describe(doctree: nodes.document) -> str:
    """The first sentences of a page, cut at a word, without the figures in the box below its title."""
    least, most = DESCRIBED
    text = ""
    for paragraph in doctree.findall(nodes.paragraph):
        boxed = "at-a-glance" in paragraph.parent.get("classes", ())
        if len(text) < least and not (boxed and paragraph.parent.index(paragraph)):
            text = f"{text} {paragraph.astext()}".strip()
    return textwrap.shorten(text, most, placeholder=" …")


def with_height(formula: re.Match[str]) -> str:
    """A formula with about the height that it will have, so that nothing moves when it is set."""
    classes, attributes, tex = formula.groups()
    lines = LINE.split(tex)
    tall = sum(r"\frac" in line for line in lines)
    summed = sum(r"\sum" in line and r"\frac" not in line for line in lines)
    height = (
        4.5 + 1.7 * (len(lines) - 1) + 1.7 * tall + 1.4 * summed
    )  # in heights of a letter, fitted to the formulas of the book
    return f'<div class="{classes}"{attributes} style="--height: {height:.1f}em">{tex}</div>'


def plain_lines(signature: str) -> str:
    """The parameters of a long signature, one a line, with no list inside the list that contains it.

    The spans around every word, bracket and space go too: they doubled the size of the reference.
    """
    found = 1
    while found:
        signature, found = PLAIN.subn(r"\1", signature)
    for tag, name in (("dl", "sig-lines"), ("dd", "sig-line")):
        signature = signature.replace(f"<{tag}>", f'<span class="{name}">').replace(
            f"</{tag}>", "</span>"
        )
    return signature


def plain_citations(body: str) -> str:
    """The bibliography without roles that ARIA has withdrawn, or that its children do not fit."""
    return body.replace(' role="doc-biblioentry"', "").replace(
        '<div role="list" class="citation-list">', "<div>"
    )


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect the functions above to the build."""
    app.connect("config-inited", add_colab)
    app.connect("config-inited", load_mathjax_late)
    app.connect("doctree-read", name_boxes)
    app.connect("html-page-context", correct)
    # When the theme, too, has written its style sheets.
    app.connect("build-finished", lighten, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
