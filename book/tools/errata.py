"""A Sphinx extension: each row of the errata links to the passage of its chapter that shows it.

The last cell of a row is the title of that passage: a section's, or the bold words at the beginning of a
paragraph. On this page alone there is a script, which filters the rows.
"""

import re

from docutils import nodes
from sphinx.util.nodes import make_refnode

PAGE, SCRIPT = "book/errata", "errata.js"
CHAPTER = re.compile(r"Chapter (\d+)\b")
NUMBER = re.compile(r"^\d+ ")  # of a section
MARKS = ' .,:?"“”'


def prepare(app):
    """Begin with no passages."""
    app.env.shown_in = {}


def find_passages(app, doctree):
    """Note the titled passages of a chapter, and give those an anchor that have none."""
    passages = app.env.shown_in[app.env.docname] = {}
    for title in doctree.findall(nodes.title):
        passages.setdefault(plain(title), title.parent["ids"][0])
    for paragraph in doctree.findall(nodes.paragraph):
        first = next((part for part in paragraph if part.astext()), None)
        if isinstance(first, nodes.strong) and plain(first) not in passages:
            passages[plain(first)] = nodes.make_id(f"at {plain(first)}")
            paragraph["ids"].append(passages[plain(first)])


def plain(title):
    """The words of a title without the section's number and the marks around them."""
    return NUMBER.sub("", " ".join(title.astext().split())).strip(MARKS)


def finish(app, doctree, page):
    """Link the last cell of each row to the passage whose title it is; leave room for the filter."""
    if page != PAGE:
        return
    chapters = list(doctree[0].findall(nodes.section))[1:]
    for section in chapters:
        name = CHAPTER.match(section.next_node(nodes.title).astext())
        chapter = chapter_page(app.env, int(name[1]))
        for body in section.findall(nodes.tbody):
            for row in body:
                link(app, row[-1], chapter, name[0])
    room = nodes.container(classes=["errata-filter"])
    doctree[0].insert(doctree[0].index(chapters[0]), room)


def chapter_page(env, number):
    """The page of a chapter."""
    return next(
        page
        for page in sorted(env.found_docs)
        if page.startswith(f"book/{number:02d}_")
    )


def link(app, cell, chapter, name):
    """Turn the text of a cell into a link if it is the title of a passage in the chapter."""
    anchor = app.env.shown_in[chapter].get(plain(cell))
    if anchor:
        text = cell[0]
        words = nodes.inline("", "", *text.children)
        text[:] = [make_refnode(app.builder, PAGE, chapter, anchor, words, name)]


def add_script(app, page, template, context, doctree):
    """Let the rows be filtered."""
    if page == PAGE:
        app.add_js_file(SCRIPT, loading_method="defer")


def setup(app):
    """Connect the functions above to the build."""
    app.connect("builder-inited", prepare)
    app.connect("doctree-read", find_passages)
    app.connect("doctree-resolved", finish)
    app.connect("html-page-context", add_script)
    return {"parallel_read_safe": False, "parallel_write_safe": True}
