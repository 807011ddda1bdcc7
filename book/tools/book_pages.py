"""Sphinx extension: what every page of the book has beyond Jupyter Book and its theme.

Drawings and plots stand in the page itself, in the colours of its theme; other pictures are loaded when they
are near the screen. Folded cells have the names that they have in Colab, from their `#@title`.
The quotation below a title gets a class. The Colab button and the pictures of link previews exist only where
the book has an address. The HTML passes an accessibility check.
"""

import html
import re
from pathlib import Path
from typing import Any

from docutils import nodes
from myst_nb.sphinx_ import HideCodeCellNode
from plots import PLOT, in_page
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.util.images import get_image_size
from sphinx.writers.html5 import HTML5Translator
from stamp import COLAB, site_url

TITLE = re.compile(r"#@title (.*)")
DRAWING = re.compile(r'<svg\b[^>]*\sclass="drawing"')
# One the theme has, too; the other is an address only where the site has one.
SUPERFLUOUS = re.compile(
    r'<meta (?:name="viewport"|property="og:url" content="(?!https?:))[^>]*>\n?'
)


class BookTranslator(HTML5Translator):
    """Pictures with their sizes, drawings and plots in place, and parameters of a function as no list."""

    def visit_image(self, node: nodes.Element) -> None:
        """Write a drawing or a plot itself, and of other pictures the size: nothing moves when they come."""
        path = Path(self.builder.srcdir, node["uri"])
        svg = path.read_text("utf-8") if path.suffix == ".svg" else ""
        if drawing := DRAWING.search(svg):
            self.body.append(svg[drawing.start() :].rstrip())
            return
        if plot := PLOT.search(svg):
            self.body.append(in_page(plot, node["alt"]))
            return
        super().visit_image(node)
        if size := get_image_size(str(path)):
            room = '<img width="{}" height="{}" loading="lazy" '.format(*size)
            self.body[-1] = self.body[-1].replace("<img ", room, 1)

    def visit_math_block(self, node: nodes.Element, math_env: str = "") -> None:
        """Write a formula, and after one that has an address a link to it, as after headings."""
        try:
            super().visit_math_block(node, math_env)
        finally:  # which raises that the node is written
            self.add_permalink_ref(node, "Link to this equation")

    def visit_desc_signature(self, node: nodes.Element) -> None:
        """Note where a signature begins."""
        super().visit_desc_signature(node)
        self.signature = len(self.body)

    def depart_desc_signature(self, node: nodes.Element) -> None:
        """Write the parameters, one a line, as no list inside the list that contains it."""
        written = "".join(self.body[self.signature :])
        for tag, name in (("dl", "sig-lines"), ("dd", "sig-line")):
            written = written.replace(f"<{tag}>", f'<span class="{name}">')
            written = written.replace(f"</{tag}>", "</span>")
        self.body[self.signature :] = [written]
        super().depart_desc_signature(node)


def visit_folded(translator: HTML5Translator, node: HideCodeCellNode) -> None:
    """Begin a folded cell with the title in its first line."""
    title = TITLE.match(node.next_node(nodes.literal_block).astext())
    assert title, f"a folded cell has no title: {node.astext()[:100]}"
    translator.body.append(
        f'<details class="admonition hide {" ".join(node["classes"])}">\n'
        f'<summary><p class="admonition-title">{html.escape(title[1])}</p></summary>\n'
    )


def depart_folded(translator: HTML5Translator, node: HideCodeCellNode) -> None:
    """End a folded cell."""
    translator.body.append("</details>\n")


def prepare(app: Sphinx, config: Config) -> None:
    """Add what needs an address if the book has one; load MathJax in parts, when `math.js` asks for it."""
    repository = config.html_theme_options.get("repository_url", "")
    if repository:
        config.html_theme_options["launch_buttons"] = {"colab_url": COLAB}
    config.ogp_site_name = config.html_title
    if site := site_url(repository):
        config.ogp_site_url = f"{site}/"
        config.ogp_social_cards["enable"] = True
    config.mathjax_path = "mathjax/startup.js"
    config.mathjax_options = {"type": "text/plain"}


def name_box(app: Sphinx | None, doctree: nodes.document) -> None:
    """Make a box of the quotation below a page's title, which summarises the page."""
    for quotation in doctree.findall(nodes.block_quote):
        section = quotation.parent
        if section.index(quotation) == 1 and section.parent is doctree:
            quotation["classes"].append("at-a-glance")


def correct(
    app: Sphinx,
    page: str,
    template: str,
    context: dict[str, Any],
    doctree: nodes.document | None,
) -> None:
    """Take back roles that ARIA has withdrawn, and lines of a page's head that are superfluous."""
    if "body" in context:
        body = context["body"].replace(' role="doc-biblioentry"', "")
        context["body"] = body.replace(
            '<div role="list" class="citation-list">', "<div>"
        )
    if doctree is not None:
        context["metatags"] = SUPERFLUOUS.sub("", context["metatags"])


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect all this to the build."""
    app.set_translator("html", BookTranslator)
    app.add_node(HideCodeCellNode, override=True, html=(visit_folded, depart_folded))
    app.connect("config-inited", prepare)
    app.connect("doctree-read", name_box)
    app.connect("html-page-context", correct, priority=900)  # last
    return {"parallel_read_safe": True, "parallel_write_safe": True}
