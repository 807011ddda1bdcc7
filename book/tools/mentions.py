r"""Sphinx extension: equations and figures have addresses, and what a text says of them is a link.

The equation with ``\tag{6.1}`` is at ``#eq-6-1``. A figure has the address of the first words of its caption,
``#fig-sinusoids-as-clock-hands``, which stays when another figure is inserted before it, or that of its own
``name``; ``#fig-6-6`` leads to whatever has this number. Sections have theirs from Sphinx, by title.

"(6.1)", "Figure 6.6" and "section 5", also "section 8 of chapter 1", become links, in any text that is no
heading, link or code. A section of a paper is left as it is: it has a dot in its number, or stands behind a
year ("2016, section 7"), "its" or "the paper’s", or before "of the paper". `mentions.js` shows previews.
"""

import re
from collections.abc import Iterator

from docutils import nodes
from reference import Target, is_free
from sphinx.application import Sphinx
from sphinx.util.nodes import make_refnode

TAG = re.compile(r"\\tag\{([\d.]+)\}")
CAPTION = re.compile(r"Figure ([\d.]+)\. (.+?)(?:\. |$)", re.DOTALL)
OWN_NUMBER = re.compile(r"Figure [\d.]+\.")  # of a caption
WORDS = 8  # of a caption, in an address
SECTION = re.compile(r"(\d+) ")
CHAPTER = re.compile(r"book/(\d\d)_")
MENTION = re.compile(
    r"\((?P<equation>\d+\.\d+)\)|\bFigure (?P<figure>\d+\.\d+)"
    r"|(?:\b[Ss]ections? |(?<=ections \d and ))(?P<section>\d+)(?!\.?\d)"
)
BEFORE_A_PAPERS = re.compile(r"(?:\d{4}, |\bits |\bpaper’s )$")
AFTER_A_PAPERS = re.compile(r" of the paper\b")
ELSEWHERE = re.compile(r" of chapter (\d+)\b")


def give_addresses(app: Sphinx, doctree: nodes.document) -> None:
    """Give a page's equations and figures their addresses, and note all by what texts call them."""
    page = app.env.docname
    numbered = app.env.metadata[page]["numbered"] = {}
    for formula in doctree.findall(nodes.math_block):
        if tag := TAG.search(formula.astext()):
            formula["ids"].append(nodes.make_id(f"eq {tag[1]}"))
            numbered[f"equation {tag[1]}"] = formula["ids"][-1]
    for caption in doctree.findall(nodes.caption):
        if found := CAPTION.match(caption.astext()):
            figure, words = caption.parent, " ".join(found[2].split()[:WORDS])
            own = figure["ids"][0] if figure["names"] else nodes.make_id(f"fig {words}")
            figure["ids"] = [own, nodes.make_id(f"fig {found[1]}")]
            numbered[f"figure {found[1]}"] = own
    for section in doctree[0].findall(nodes.section):
        number, chapter = SECTION.match(section.astext()), CHAPTER.match(page)
        if number and chapter and section.parent is doctree[0]:
            numbered[f"section {int(chapter[1])}.{number[1]}"] = section["ids"][0]


def link_mentions(app: Sphinx, doctree: nodes.document, page: str) -> None:
    """Make links of what a page says of equations, figures and sections."""
    targets = {
        name: (target, anchor)
        for target, noted in app.env.metadata.items()
        for name, anchor in noted.get("numbered", {}).items()
    }
    for text in list(doctree.findall(nodes.Text)):
        if is_free(text) and not OWN_NUMBER.fullmatch(text):
            text.parent.replace(text, list(linked(app, page, text, targets)))


def linked(
    app: Sphinx, page: str, text: nodes.Text, targets: dict[str, Target]
) -> Iterator[nodes.Node]:
    """A text in pieces, those that mention a target as links."""
    done = 0
    for mention in MENTION.finditer(text):
        if target := targets.get(meant(page, text, mention)):
            yield nodes.Text(text[done : mention.start()])
            link = make_refnode(app.builder, page, *target, nodes.Text(mention[0]))
            link["classes"].append("mention")
            yield link
            done = mention.end()
    yield nodes.Text(text[done:])


def meant(page: str, text: nodes.Text, mention: re.Match[str]) -> str:
    """What a text calls an equation or a figure, or a section with its chapter; empty if a paper's."""
    kind, number = next((kind, n) for kind, n in mention.groupdict().items() if n)
    if kind != "section":
        return f"{kind} {number}"
    place = text.parent.index(text)
    siblings = [sibling.astext() for sibling in text.parent]
    before = "".join([*siblings[:place], text[: mention.start()]])
    after = "".join([text[mention.end() :], *siblings[place + 1 :]])
    if BEFORE_A_PAPERS.search(before) or AFTER_A_PAPERS.match(after):
        return ""
    chapter = ELSEWHERE.match(after) or CHAPTER.match(page)
    return f"section {int(chapter[1])}.{number}" if chapter else ""


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect the functions above to the build."""
    app.connect("doctree-read", give_addresses)
    app.connect("doctree-resolved", link_mentions)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
