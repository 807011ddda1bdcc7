"""A Sphinx extension: links between the chapters and the reference of the package.

On a page of the reference, a heading that links to a chapter says which chapter explains what is
below it. That is the only place where modules and chapters are brought together: each class and
function there links to the chapter, and the chapter ends with links to these modules. A name of
the package that stands as code in a text links to its entry.
"""

import re
from collections import defaultdict
from importlib import import_module

from docutils import nodes
from sphinx import addnodes
from sphinx.util.nodes import make_refnode

CHAPTER = re.compile(r"book/(\d\d)_\w+")
ARGUMENTS = re.compile(r"\(.*\)$", re.DOTALL)
# `sample` or `mean` may mean anything; `Additive` does not.
TELLING = re.compile(r"[A-Z_.]")
DEFINED = re.compile(r"^(?:class +|def +|)(\w+)(?= *=|\(|:)", re.MULTILINE)


def prepare(app):
    """Begin with no module that a chapter explains."""
    app.env.explained = defaultdict(list)


def link_to_chapter(app, doctree):
    """Let the entries under a heading that links to a chapter link to it, too."""
    for section in doctree.findall(nodes.section):
        chapter = linked_chapter(section.next_node(nodes.title))
        if chapter:
            app.env.explained[chapter] += [
                name.removeprefix("module-")
                for element in section.findall(nodes.Element)
                for name in element["ids"]
                if name.startswith("module-")
            ]
            for signature in section.findall(addnodes.desc_signature):
                if not signature["class"]:
                    signature += chapter_link(chapter)


def linked_chapter(title):
    """The chapter that a heading links to, if it does."""
    for link in title.findall(addnodes.pending_xref):
        if CHAPTER.fullmatch(link["reftarget"]):
            return link["reftarget"]
    return None


def chapter_link(chapter):
    """A link with the chapter's number, to stand beside the one to the source."""
    text = nodes.inline("", f"[chapter {int(CHAPTER.fullmatch(chapter)[1])}]")
    target = {"refdomain": "std", "reftype": "doc", "reftarget": f"/{chapter}"}
    return addnodes.pending_xref("", text, refexplicit=True, refwarn=True, **target)


def link_to_reference(app, doctree, page):
    """Link the names of the package in a text, and end a chapter with its modules."""
    entries = find_entries(app.env)
    own = {
        name
        for code in doctree.findall(nodes.literal_block)
        for name in DEFINED.findall(code.astext())
    }
    for literal in list(doctree.findall(nodes.literal)):
        name = ARGUMENTS.sub("", literal.astext())
        if name in entries and name not in own and is_free(literal):
            literal.replace_self(
                reference(app, page, entries[name], literal.deepcopy())
            )
    if page in app.env.explained:
        doctree[0] += modules_of_chapter(app, page)


def find_entries(env):
    """The page and the anchor of each entry, by all the names that a text may use for it.

    A name of two entries is the name of none.
    """
    python = env.get_domain("py")
    found = defaultdict(set)
    for name, entry in python.objects.items():
        for short in short_names(name, python.modules):
            found[short].add((entry.docname, entry.node_id))
    return {
        name: places.pop()
        for name, places in found.items()
        if len(places) == 1 and TELLING.search(name)
    }


def short_names(name, modules):
    """``masks.causal``, for example, for ``companion.attention.masks.causal``.

    What the package of a module exports has also names without the module.
    """
    if name in modules:
        yield name
        return
    parts = name.split(".")
    length = max(n for n in range(len(parts)) if ".".join(parts[:n]) in modules)
    path, inside = parts[:length], parts[length:]
    yield from suffixes(path, inside)
    package = path[:-1]
    if inside[0] in getattr(import_module(".".join(package)), "__all__", ()):
        yield from suffixes(package, inside)
        yield ".".join(inside)


def suffixes(path, inside):
    """The ends of a path, each with what is inside its module."""
    return (".".join(path[start:] + inside) for start in range(len(path)))


def is_free(literal):
    """Whether what stands as code is not part of a link, a heading or an entry of the reference."""
    around = literal.parent
    while around and not isinstance(
        around, nodes.reference | nodes.title | addnodes.desc
    ):
        around = around.parent
    return around is None


def modules_of_chapter(app, page):
    """The last lines of a chapter: where its code is in the reference."""
    places = app.env.get_domain("py").modules
    box = nodes.container(classes=["in-the-package"])
    text = nodes.paragraph("", "", nodes.strong("", "In the package:"))
    for name in app.env.explained[page]:
        target = places[name].docname, places[name].node_id
        text += [nodes.Text(" "), reference(app, page, target, nodes.literal("", name))]
    box += text
    return box


def reference(app, page, place, shown):
    """A link from a page to an entry."""
    return make_refnode(app.builder, page, *place, shown)


def setup(app):
    """Connect the functions above to the build."""
    app.connect("builder-inited", prepare)
    app.connect("doctree-read", link_to_chapter)
    app.connect("doctree-resolved", link_to_reference)
    return {"parallel_read_safe": False, "parallel_write_safe": True}
