"""A Sphinx extension: what Jupyter Book and its theme leave open on a page.

No Colab button without an address to point at; folded cells named as in Colab, by their `#@title`; boxes
for what notebooks have as quotations; a description of each page, also for those who share it; HTML that a
screen reader can make sense of; and pages that are light.
"""

import html
import re
import textwrap

from docutils import nodes
from light_pages import lighten
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
)  # in a signature no style sheet knows them
PLAIN_CODE = re.compile(
    r'<span class="(?:n|nn|p|w)">([^<]*)</span>'
)  # of the colour that code has anyway
FORMULA = re.compile(
    r'<div class="(math notranslate[^"]*)"([^>]*)>(.*?)</div>', re.DOTALL
)
LINE = re.compile(r"\\cr|\\\\(?![\[\]])")
CALLOUTS = ("Definition.", "Common mistake.")
TAG = re.compile(r"<[^>]*>")
PREVIEW = "alignment.png"  # the picture beside each page that is shared
DESCRIBED = 80, 155  # the letters that a description has at least, and at most


def add_colab(app, config):
    """Draw the button only when it has somewhere to point: without an address the theme fails."""
    if config.html_theme_options.get("repository_url"):
        config.html_theme_options["launch_buttons"] = {"colab_url": COLAB}


def split_mathjax(app, config):
    """Fetch MathJax in parts, of which none holds the page up; its extension names one file that has all."""
    config.mathjax_path = "mathjax/startup.js"


def name_boxes(app, doctree):
    """Give quotations that are boxes in the book the classes that the style sheets know.

    The one below a page's title sums the page up. One that begins with a bold
    "Definition." or "Common mistake." is a callout.
    """
    for quotation in doctree.findall(nodes.block_quote):
        section, bold = quotation.parent, quotation.next_node(nodes.strong)
        name = bold.astext() if bold else ""
        if name in CALLOUTS and quotation.astext().startswith(name):
            kind = name.removesuffix(".").lower().replace(" ", "-")
            quotation["classes"] += ["callout", kind]
        elif section.index(quotation) == 1 and section.parent is doctree:
            quotation["classes"].append("at-a-glance")


def mend(app, page, template, context, doctree):
    """Name the folded cells, describe the page, and mend what an accessibility check finds in the HTML."""
    if "body" in context:
        body = FOLDED.sub(
            r'<summary><p class="admonition-title">\2</p></summary>\1', context["body"]
        )
        body = SIGNATURE.sub(lambda signature: plain_lines(signature[0]), body)
        body = PLAIN_CODE.sub(r"\1", body)
        body = FORMULA.sub(roomy, body)
        context["body"] = plain_citations(body)
    if doctree is not None:
        description = describe(doctree)
        context["metatags"] += meta("name", "description", description)
        for name, content in preview(app.config, page, context, description):
            context["metatags"] += meta("property", f"og:{name}", content)


def meta(kind, name, content):
    """A line in the head of a page."""
    return f'\n    <meta {kind}="{name}" content="{html.escape(content)}" />'


def preview(config, page, context, description):
    """What is shown where a page is shared; its address and a picture once the book has an address."""
    yield "title", html.unescape(TAG.sub("", context["title"]))
    yield "description", description
    yield "type", "website" if page == config.root_doc else "article"
    yield "site_name", config.html_title
    if site := site_url(config.html_theme_options.get("repository_url", "")):
        yield "url", f"{site}/{page}.html"
        yield "image", f"{site}/_static/{PREVIEW}"


def describe(doctree):
    """The first sentences of a page, cut at a word, without the figures in the box below its title."""
    least, most = DESCRIBED
    text = ""
    for paragraph in doctree.findall(nodes.paragraph):
        boxed = "at-a-glance" in paragraph.parent.get("classes", ())
        if len(text) < least and not (boxed and paragraph.parent.index(paragraph)):
            text = f"{text} {paragraph.astext()}".strip()
    return textwrap.shorten(text, most, placeholder=" …")


def roomy(formula):
    """A formula with about the height that it will have, so that nothing jumps when it is set."""
    classes, attributes, tex = formula.groups()
    lines = LINE.split(tex)
    tall = sum(r"\frac" in line for line in lines)
    summed = sum(r"\sum" in line and r"\frac" not in line for line in lines)
    height = (
        4.5 + 1.7 * (len(lines) - 1) + 1.7 * tall + 1.4 * summed
    )  # of a letter; fitted to the book's own
    return f'<div class="{classes}"{attributes} style="--height: {height:.1f}em">{tex}</div>'


def plain_lines(signature):
    """The parameters of a long signature, one a line, with no list inside the list that holds it.

    Without the spans around every word, bracket and space either, which made the reference twice as heavy.
    """
    found = True
    while found:
        signature, found = PLAIN.subn(r"\1", signature)
    for tag, name in (("dl", "sig-lines"), ("dd", "sig-line")):
        signature = signature.replace(f"<{tag}>", f'<span class="{name}">').replace(
            f"</{tag}>", "</span>"
        )
    return signature


def plain_citations(body):
    """The bibliography without roles that ARIA has withdrawn, or that its children do not fit."""
    return body.replace(' role="doc-biblioentry"', "").replace(
        '<div role="list" class="citation-list">', "<div>"
    )


def setup(app):
    """Connect the functions above to the build."""
    app.connect("config-inited", add_colab)
    app.connect("config-inited", split_mathjax)
    app.connect("doctree-read", name_boxes)
    app.connect("html-page-context", mend)
    app.connect("build-finished", lighten)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
