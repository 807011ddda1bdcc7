"""Sphinx extension: each row of the errata links to the passage of its chapter that shows the error.

The last cell of a row is the title of that passage: a section's, or the bold words with which a paragraph
starts.
"""

import re

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.nodes import make_refnode

PAGE = "book/errata"
CHAPTER = re.compile(r"Chapter (\d+)\b")
NUMBER = re.compile(r"^\d+ ")  # of a section
MARKS = ' .,:?"“”'


def find_passages(app: Sphinx, doctree: nodes.document) -> None:
    """Note the anchors of a page's titled passages, and add one to those that have none."""
    passages: dict[str, str] = {}
    app.env.metadata[app.env.docname]["passages"] = passages
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


def link_rows(app: Sphinx, doctree: nodes.document, page: str) -> None:
    """Link the last cell of each row to the passage with that title."""
    if page != PAGE:
        return
    for section in list(doctree[0].findall(nodes.section))[1:]:
        title = section.next_node(nodes.title).astext()
        name = CHAPTER.match(title)
        assert name, f"a section of the errata begins with no chapter: {title}"
        start = f"book/{int(name[1]):02d}_"
        chapter = next(one for one in app.env.found_docs if one.startswith(start))
        for row in section.next_node(nodes.tbody):
            text = row[-1][0]
            if anchor := app.env.metadata[chapter]["passages"].get(plain(text)):
                words = nodes.inline("", "", *text.children)
                target = (PAGE, chapter, anchor, words, name[0])
                text[:] = [make_refnode(app.builder, *target)]


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect the functions above to the build."""
    app.connect("doctree-read", find_passages)
    app.connect("doctree-resolved", link_rows)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
