"""Sphinx extension: each row of the errata links to the passage of its chapter that shows the error.

The last cell of a row is the title of that passage: a section's, or the bold words with which a paragraph
starts. The page also gets the script that filters the rows.
"""

import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.nodes import make_refnode

PAGE, SCRIPT = "book/errata", "errata.js"
CHAPTER = re.compile(r"Chapter (\d+)\b")
NUMBER = re.compile(r"^\d+ ")  # of a section
MARKS = ' .,:?"“”'
#: The anchors of the titled passages of each page, by their titles.
PASSAGES: dict[str, dict[str, str]] = {}


def prepare(app: Sphinx) -> None:
    """Start the build with no passages."""
    PASSAGES.clear()


def find_passages(app: Sphinx, doctree: nodes.document) -> None:
    """Note the titled passages of a page, and add an anchor to those that have none."""
    passages = PASSAGES[app.env.docname] = {}
    for title in doctree.findall(nodes.title):
        passages.setdefault(plain(title), title.parent["ids"][0])
    for paragraph in doctree.findall(nodes.paragraph):
        first = next((part for part in paragraph if part.astext()), None)
        if isinstance(first, nodes.strong) and plain(first) not in passages:
            passages[plain(first)] = nodes.make_id(f"at {plain(first)}")
            paragraph["ids"].append(passages[plain(first)])


def plain(title: nodes.Node) -> str:
    """The words of a title without the section's number and the marks around them."""
    return NUMBER.sub("", " ".join(title.astext().split())).strip(MARKS)


def finish(app: Sphinx, doctree: nodes.document, page: str) -> None:
    """Link the last cell of each row to the passage with that title, and add an element for the filter.

    Raises:
        ValueError: the title of a section does not begin with a chapter.
    """
    if page != PAGE:
        return
    chapters = list(doctree[0].findall(nodes.section))[1:]
    for section in chapters:
        title = section.next_node(nodes.title).astext()
        name = CHAPTER.match(title)
        if name is None:
            raise ValueError(f"a section of the errata begins with no chapter: {title}")
        chapter = chapter_page(app.env, int(name[1]))
        for body in section.findall(nodes.tbody):
            for row in body:
                link(app, row[-1], chapter, name[0])
    form = nodes.container(classes=["errata-filter"])
    doctree[0].insert(doctree[0].index(chapters[0]), form)


def chapter_page(env: BuildEnvironment, number: int) -> str:
    """The page of a chapter."""
    return next(
        page
        for page in sorted(env.found_docs)
        if page.startswith(f"book/{number:02d}_")
    )


def link(app: Sphinx, cell: nodes.Element, chapter: str, name: str) -> None:
    """Turn the text of a cell into a link if it is the title of a passage in the chapter."""
    anchor = PASSAGES[chapter].get(plain(cell))
    if anchor:
        text = cell[0]
        words = nodes.inline("", "", *text.children)
        text[:] = [make_refnode(app.builder, PAGE, chapter, anchor, words, name)]


def add_script(
    app: Sphinx,
    page: str,
    template: str,
    context: dict[str, Any],
    doctree: nodes.document | None,
) -> None:
    """Add the script that filters the rows."""
    if page == PAGE:
        app.add_js_file(SCRIPT, loading_method="defer")


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect the functions above to the build."""
    app.connect("builder-inited", prepare)
    app.connect("doctree-read", find_passages)
    app.connect("doctree-resolved", finish)
    app.connect("html-page-context", add_script)
    return {"parallel_read_safe": False, "parallel_write_safe": True}
