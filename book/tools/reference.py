"""Sphinx extension: links between the chapters and the reference of the package.

On a page of the reference, a heading that links to a chapter says that the chapter explains the
modules below it. From this alone, each class and function below the heading gets a link to the
chapter, and the chapter ends with links to the modules. A name of the package that is written as
code in a text becomes a link to its entry.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterator
from importlib import import_module
from inspect import getfile
from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.domains.python import PythonDomain
from sphinx.util.nodes import make_refnode
from stamp import ROOT

CHAPTER = re.compile(r"book/\d\d_\w+")
ARGUMENTS = re.compile(r"\(.*\)$", re.DOTALL)
# `sample` or `mean` may mean anything; `Additive` does not.
TELLING = re.compile(r"[A-Z_.]")
DEFINED = re.compile(r"^(?:class +|def +|)(\w+)(?= *=|\(|:)", re.MULTILINE)
FIXED = (
    nodes.reference
    | nodes.title
    | nodes.literal
    | nodes.math
    | nodes.FixedTextElement
    | addnodes.desc
)
#: The page and the anchor of an entry.
Target = tuple[str, str]


def link_to_chapter(app: Sphinx, doctree: nodes.document) -> None:
    """Add a link to the chapter to each entry under a heading that links to it, and note its modules."""
    explained: defaultdict[str, list[str]] = defaultdict(list)
    app.env.metadata[app.env.docname]["explained"] = explained
    for section in doctree.findall(nodes.section):
        for link in section.next_node(nodes.title).findall(addnodes.pending_xref):
            if CHAPTER.fullmatch(chapter := link["reftarget"]):
                explained[chapter] += [
                    name.removeprefix("module-")
                    for element in section.findall(nodes.Element)
                    for name in element["ids"]
                    if name.startswith("module-")
                ]
                for signature in section.findall(addnodes.desc_signature):
                    if not signature["class"]:
                        signature += chapter_link(chapter)


def chapter_link(chapter: str) -> addnodes.pending_xref:
    """A link with the chapter's number, to be shown beside the link to the source."""
    number = int(chapter.removeprefix("book/")[:2])
    text = nodes.inline("", f"[chapter {number}]")
    target = {"refdomain": "std", "reftype": "doc", "reftarget": f"/{chapter}"}
    return addnodes.pending_xref("", text, refexplicit=True, refwarn=True, **target)


def link_to_reference(app: Sphinx, doctree: nodes.document, page: str) -> None:
    """Link the names of the package in a text, and end a chapter with its modules."""
    python = app.env.get_domain("py")
    assert isinstance(python, PythonDomain)
    entries = find_entries(python)
    own = {
        name
        for code in doctree.findall(nodes.literal_block)
        for name in DEFINED.findall(code.astext())
    }
    for literal in list(doctree.findall(nodes.literal)):
        name = ARGUMENTS.sub("", literal.astext())
        if name in entries and name not in own and is_free(literal):
            shown = literal.deepcopy()
            literal.replace_self(make_refnode(app.builder, page, *entries[name], shown))
    modules = [
        name
        for noted in app.env.metadata.values()
        for name in noted.get("explained", {}).get(page, ())
    ]
    if modules:
        text = nodes.paragraph("", "", nodes.strong("", "In the package:"))
        for name in modules:
            target = python.modules[name].docname, python.modules[name].node_id
            link = make_refnode(app.builder, page, *target, nodes.literal("", name))
            text += [nodes.Text(" "), link]
        doctree[0] += nodes.container("", text, classes=["in-the-package"])


def find_entries(python: PythonDomain) -> dict[str, Target]:
    """The page and the anchor of each entry, by all the names that a text may use for it.

    A name that fits two entries is left out.
    """
    found: defaultdict[str, set[Target]] = defaultdict(set)
    for name, entry in python.objects.items():
        for short in short_names(name, python.modules):
            found[short].add((entry.docname, entry.node_id))
    return {
        name: targets.pop()
        for name, targets in found.items()
        if len(targets) == 1 and TELLING.search(name)
    }


def short_names(name: str, modules: Collection[str]) -> Iterator[str]:
    """``masks.causal``, for example, for ``companion.attention.masks.causal``.

    What a package exports from a module also has names without the module.
    """
    if name in modules:
        yield name
        return
    parts = name.split(".")
    length = max(n for n in range(len(parts)) if ".".join(parts[:n]) in modules)
    path, inside = parts[:length], parts[length:]
    yield from (".".join(path[start:] + inside) for start in range(length))
    package = path[:-1]
    if inside[0] in getattr(import_module(".".join(package)), "__all__", ()):
        yield from (".".join(package[start:] + inside) for start in range(length))


def is_free(node: nodes.Node) -> bool:
    """Whether code or text is outside links, headings, other code, formulas and entries of the reference."""
    around = node.parent
    while around and not isinstance(around, FIXED):
        around = around.parent
    return around is None


def link_to_source(app: Sphinx, config: Config) -> None:
    """Let each entry link to its file in the repository, if the book has the repository's address."""
    repository = config.html_theme_options.get("repository_url")

    def file(domain: str, info: dict[str, str]) -> str | None:
        if not repository:
            return None
        path = Path(getfile(import_module(info["module"]))).relative_to(ROOT)
        return f"{repository}/blob/main/{path.as_posix()}"

    config.linkcode_resolve = file


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect the functions above to the build."""
    app.setup_extension("sphinx.ext.linkcode")
    app.connect("config-inited", link_to_source)
    app.connect("doctree-read", link_to_chapter)
    app.connect("doctree-resolved", link_to_reference)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
