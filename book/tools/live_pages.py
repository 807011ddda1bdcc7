"""Sphinx extension: scripts and styles of the live translation and the bench, only where they are used."""

import re
from pathlib import PurePosixPath
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

#: How scripts are loaded. Browsers do not execute this type; `late.js` loads what has the attribute.
LOADED: dict[str, dict[str, Any]] = {
    "live-translation": {"type": "text/plain", "data-late": ""},
    "bench-figure": {"loading_method": "defer"},
}
#: The files that belong to the class of a still picture, in the order of loading.
LIVE = {
    "live-translation": (
        "live/live.css",
        "live/weights.js",
        "live/numbers.js",
        "live/training_numbers.js",
        "live/model.js",
        "live/stage.js",
        "live/translate.js",
    ),
    "bench-figure": (
        "bench/picture.css",
        "bench/bench.css",
        "bench/attention.js",
        "bench/state.js",
        "bench/drawing.js",
        "bench/plane.js",
        "bench/bars.js",
        "bench/controls.js",
        "bench/bench.js",
    ),
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
    for name, files in LIVE.items():
        if re.search(HAS_CLASS.format(name), context.get("body", "")):
            if "data-late" in LOADED[name]:
                app.add_js_file("late.js", loading_method="defer")
            for file in files:
                if PurePosixPath(file).suffix == ".css":
                    app.add_css_file(file)
                else:
                    app.add_js_file(file, **LOADED[name])


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect to the writing of pages."""
    app.connect("html-page-context", add_files)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
