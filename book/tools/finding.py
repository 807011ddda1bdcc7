"""Sphinx extension: the main ideas of chapters in the menu, and the texts for `search.js`.

`_config.yml` names the ideas. One leads to the section with it in its heading, or that mentions it most.
"""

import json
import re
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

CHAPTER = re.compile(
    r'<a [^>]*href="(?:(?P<folder>(?:book/)?)(?P<name>\w+)\.html|#)"[^>]*>\d+ [^<]*</a>'
)
ASIDE = re.compile(r"^\d+ (Exercises|Common mistakes|Summary|Further|What the pap)")
NAMED = '<summary aria-label="Pages of the package">'
#: The anchor of a section, its heading, and its text without that of sections inside it.
Section = tuple[str, str, str]


def read(app: Sphinx, doctree: nodes.document) -> None:
    """Note the sections of a page."""
    found = dict.fromkeys(doctree.findall(nodes.section), "")
    for paragraph in doctree.findall(nodes.paragraph):
        around = paragraph.parent
        while around not in found:
            around = around.parent
        for part in paragraph.findall(nodes.Text):
            is_formula = isinstance(part.parent, nodes.math)
            found[around] += "…" if is_formula else part.astext()
        found[around] += " "
    app.env.metadata[app.env.docname]["sections"] = [
        (s["ids"][0], s[0].astext(), " ".join(text.split()))
        for s, text in found.items()
    ]


def place(idea: str, texts: list[Section]) -> str:
    """The anchor of the section about an idea, or nothing if no section mentions it."""

    def rank(section: Section) -> tuple[float, int]:
        _, heading, text = (part.lower() for part in section)
        return heading.count(idea.lower()) / len(heading), text.count(idea.lower())

    best = max((s for s in texts[1:] if not ASIDE.search(s[1])), key=rank)
    return best[0] if any(rank(best)) else ""


def show_ideas(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object
) -> None:
    """Add to each chapter in the menu a list of its ideas."""
    menu = context["generate_toctree_html"]

    def with_ideas(chapter: re.Match[str]) -> str:
        folder, name = chapter["folder"] or "", chapter["name"] or Path(page).name
        noted = app.env.metadata[f"book/{name}"]["sections"]
        items = (
            f'<li><a href="{folder}{name}.html#{anchor}">{idea}</a></li>'
            for idea in app.config.ideas[name]
            if (anchor := place(idea, noted))
        )
        return f'{chapter[0]}<ul class="ideas">{"".join(items)}</ul>'

    context["generate_toctree_html"] = lambda **options: CHAPTER.sub(
        with_ideas, str(menu(**options)).replace("<summary>", NAMED)
    )


def write(app: Sphinx, failure: Exception | None) -> None:
    """Write the texts as a script, since a page on a disk may load nothing else."""
    if not failure and app.builder.format == "html":
        noted, pages = app.env.metadata, sorted(app.env.found_docs)
        texts = [(page, noted[page]["sections"]) for page in pages]
        script = f"const TEXTS = {json.dumps(texts, ensure_ascii=False)};\n"
        Path(app.outdir, "_static", "texts.js").write_text(script, "utf-8")


def setup(app: Sphinx) -> dict[str, int]:
    """Connect the functions above to the build."""
    app.add_config_value("ideas", {}, "html")
    app.connect("doctree-read", read)
    app.connect("html-page-context", show_ideas, priority=900)
    app.connect("build-finished", write)
    return {"env_version": 1, "parallel_read_safe": True, "parallel_write_safe": True}
