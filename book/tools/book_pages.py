"""A Sphinx extension: what Jupyter Book and its theme leave open on a page.

No Colab button without an address to point at; folded cells named as in Colab, by their `#@title`; and HTML
that a screen reader can make sense of.
"""

import re

from stamp import COLAB

FOLDED = re.compile(
    r'<summary aria-label="Toggle hidden content">\s*<p class="collapsed[^>]*>.*?</p>'
    r'\s*<p class="expanded[^>]*>.*?</p>\s*</summary>'
    r'(\s*<div class="cell_input[^>]*>\s*<div[^>]*><div[^>]*><pre><span></span>'
    r'<span class="c1">#@title (.*?)</span>)'
)
SIGNATURE = re.compile(r'<dt class="sig .*?</dt>', re.DOTALL)


def add_colab(app, config):
    """Draw the button only when it has somewhere to point: without an address the theme fails."""
    if config.html_theme_options.get("repository_url"):
        config.html_theme_options["launch_buttons"] = {"colab_url": COLAB}


def mend(app, page, template, context, doctree):
    """Name the folded cells, and mend what an accessibility check finds in the HTML."""
    if "body" in context:
        body = FOLDED.sub(r'<summary><p class="admonition-title">\2</p></summary>\1', context["body"])
        body = SIGNATURE.sub(lambda signature: plain_lines(signature[0]), body)
        context["body"] = plain_citations(body)


def plain_lines(signature):
    """The parameters of a long signature, one a line, with no list inside the list that holds it."""
    for tag, name in (("dl", "sig-lines"), ("dd", "sig-line")):
        signature = signature.replace(f"<{tag}>", f'<span class="{name}">').replace(f"</{tag}>", "</span>")
    return signature


def plain_citations(body):
    """The bibliography without roles that ARIA has withdrawn, or that its children do not fit."""
    return body.replace(' role="doc-biblioentry"', "").replace(
        '<div role="list" class="citation-list">', "<div>"
    )


def setup(app):
    """Connect the functions above to the build."""
    app.connect("config-inited", add_colab)
    app.connect("html-page-context", mend)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
