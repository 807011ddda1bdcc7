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
from importlib.util import find_spec
from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.domains.python import PythonDomain
from sphinx.environment import BuildEnvironment
from sphinx.util.nodes import make_refnode
from stamp import ROOT

CHAPTER = re.compile(r"book/\d\d_\w+")
ARGUMENTS = re.compile(r"\(.*\)$", re.DOTALL)
# `sample` or `mean` may mean anything; `Additive` does not.
TELLING = re.compile(r"[A-Z_.]")
DEFINED = re.compile(r"^(?:class +|def +|)(\w+)(?= *=|\(|:)", re.MULTILINE)
#: The page and the anchor of an entry.
Target = tuple[str, str]
#: The modules that each chapter explains, by the chapter's page.
EXPLAINED: defaultdict[str, list[str]] = defaultdict(list)


def prepare(app: Sphinx) -> None:
    """Start the build with no module that a chapter explains."""
    EXPLAINED.clear()


def link_to_chapter(app: Sphinx, doctree: nodes.document) -> None:
    """Add a link to the chapter to each entry under a heading that links to it."""
    for section in doctree.findall(nodes.section):
        chapter = linked_chapter(section.next_node(nodes.title))
        if chapter:
            EXPLAINED[chapter] += [
                name.removeprefix("module-")
                for element in section.findall(nodes.Element)
                for name in element["ids"]
                if name.startswith("module-")
            ]
            for signature in section.findall(addnodes.desc_signature):
                if not signature["class"]:
                    signature += chapter_link(chapter)


def linked_chapter(title: nodes.Element) -> str | None:
    """The chapter that a heading links to, if it does."""
    for link in title.findall(addnodes.pending_xref):
        if CHAPTER.fullmatch(link["reftarget"]):
            return str(link["reftarget"])
    return None


def chapter_link(chapter: str) -> addnodes.pending_xref:
    """A link with the chapter's number, to be shown beside the link to the source."""
    number = int(chapter.removeprefix("book/")[:2])
    text = nodes.inline("", f"[chapter {number}]")
    target = {"refdomain": "std", "reftype": "doc", "reftarget": f"/{chapter}"}
    return addnodes.pending_xref("", text, refexplicit=True, refwarn=True, **target)


def link_to_reference(app: Sphinx, doctree: nodes.document, page: str) -> None:
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
    if page in EXPLAINED:
        doctree[0] += modules_of_chapter(app, page)


def find_entries(env: BuildEnvironment) -> dict[str, Target]:
    """The page and the anchor of each entry, by all the names that a text may use for it.

    A name that fits two entries is left out.
    """
    python = python_domain(env)
    found: defaultdict[str, set[Target]] = defaultdict(set)
    for name, entry in python.objects.items():
        for short in short_names(name, python.modules):
            found[short].add((entry.docname, entry.node_id))
    return {
        name: targets.pop()
        for name, targets in found.items()
        if len(targets) == 1 and TELLING.search(name)
    }


def python_domain(env: BuildEnvironment) -> PythonDomain:
    """What Sphinx knows of the modules and entries of the package."""
    domain = env.get_domain("py")
    assert isinstance(domain, PythonDomain)
    return domain


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
    yield from suffixes(path, inside)
    package = path[:-1]
    if inside[0] in getattr(import_module(".".join(package)), "__all__", ()):
        yield from suffixes(package, inside)
        yield ".".join(inside)


def suffixes(path: list[str], inside: list[str]) -> Iterator[str]:
    """The ends of a module's path, each followed by the name inside the module."""
    return (".".join(path[start:] + inside) for start in range(len(path)))


def is_free(literal: nodes.Node) -> bool:
    """Whether a piece of code is outside links, headings and entries of the reference."""
    around = literal.parent
    while around and not isinstance(
        around, nodes.reference | nodes.title | addnodes.desc
    ):
        around = around.parent
    return around is None


def modules_of_chapter(app: Sphinx, page: str) -> nodes.container:
    """The last lines of a chapter: where its code is in the reference."""
    modules = python_domain(app.env).modules
    box = nodes.container(classes=["in-the-package"])
    text = nodes.paragraph("", "", nodes.strong("", "In the package:"))
    for name in EXPLAINED[page]:
        target = modules[name].docname, modules[name].node_id
        text += [nodes.Text(" "), reference(app, page, target, nodes.literal("", name))]
    box += text
    return box


def reference(
    app: Sphinx, page: str, target: Target, shown: nodes.Node
) -> nodes.reference:
    """A link from a page to an entry."""
    return make_refnode(app.builder, page, *target, shown)


def link_to_source(app: Sphinx, config: Config) -> None:
    """Let each entry link to its file in the repository, if the book has the repository's address."""
    repository = config.html_theme_options.get("repository_url")

    def file(domain: str, info: dict[str, str]) -> str | None:
        spec = find_spec(info["module"]) if repository else None
        if spec is None or spec.origin is None:
            return None
        path = Path(spec.origin).relative_to(ROOT)
        return f"{repository}/blob/main/{path.as_posix()}"

    config.linkcode_resolve = file


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect the functions above to the build."""
    app.setup_extension("sphinx.ext.linkcode")
    app.connect("config-inited", link_to_source)
    app.connect("builder-inited", prepare)
    app.connect("doctree-read", link_to_chapter)
    app.connect("doctree-resolved", link_to_reference)
    return {"parallel_read_safe": False, "parallel_write_safe": True}
