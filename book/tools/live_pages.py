"""Sphinx extension: scripts and styles of what is live in some pages, only where they are used."""

import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

#: How scripts are loaded. Browsers do not execute this type; `late.js` loads what has the attribute.
LATE: dict[str, Any] = {"type": "text/plain", "data-late": ""}
DEFERRED: dict[str, Any] = {"loading_method": "defer"}
#: The files that a class of a picture or place needs, in the order of loading: their folder and names.
LIVE = {
    "live-translation": (
        "live",
        "live.css weights.js numbers.js training_numbers.js model.js stage.js translate.js",
    ),
    "bench-figure": (
        "bench",
        "picture.css bench.css attention.js state.js drawing.js plane.js bars.js controls.js bench.js",
    ),
    "page-filter": ("filter", "filter.js"),
}
#: A class attribute with this name; the cell of a notebook has it as a tag.
HAS_CLASS = r'class="([^"]* )?(tag_)?{}[ "]'


def add_files(
    app: Sphinx,
    page: str,
    template: str,
    context: dict[str, Any],
    doctree: nodes.document | None,
) -> None:
    """Add the files that the classes on this page need."""
    for name, (folder, files) in LIVE.items():
        if re.search(HAS_CLASS.format(name), context.get("body", "")):
            if late := folder == "live":
                app.add_js_file("late.js", **DEFERRED)
            for path in (f"{folder}/{file}" for file in files.split()):
                if path.endswith(".css"):
                    app.add_css_file(path)
                else:
                    app.add_js_file(path, **(LATE if late else DEFERRED))


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect to the writing of pages."""
    app.connect("html-page-context", add_files)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
