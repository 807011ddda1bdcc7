"""A Sphinx extension: a page with something live on it gets its scripts and styles, no other does."""

import re
from pathlib import PurePosixPath

#: Without one of the scripts the still picture stays, and no more room is kept than it needs.
ON_ERROR = "document.documentElement.classList.add('without-live')"
#: What a still picture's class in the HTML calls for, in the order of loading.
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


def add_files(app, page, template, context, doctree):
    """Add the files of what is live on this page."""
    for name, files in LIVE.items():
        if re.search(HAS_CLASS.format(name), context.get("body", "")):
            for file in files:
                if PurePosixPath(file).suffix == ".css":
                    app.add_css_file(file)
                else:
                    app.add_js_file(file, loading_method="defer", onerror=ON_ERROR)


def setup(app):
    """Connect to the writing of pages."""
    app.connect("html-page-context", add_files)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
