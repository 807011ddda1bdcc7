"""Sphinx extension: scripts and styles of what is live in some pages, only where they are used."""

import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

_PLAY = "play/play.css play/elements.js"
_MODEL = f"{_PLAY} play/tensors.js"
_BENCH = (
    f"{_PLAY} play/rules.js bench/picture.css bench/bench.css bench/attention.js"
    " bench/state.js bench/drawing.js bench/plane.js bench/bars.js bench/controls.js"
    " bench/widget.js"
)
#: The files that a class of a picture or place needs, in the order of loading.
LIVE = {
    "bench-figure": f"{_BENCH} bench/bench.js",
    "live-bench": f"{_BENCH} bench/chapter.js",
    "page-filter": "filter/filter.js",
    "live-translation": (
        f"{_MODEL} live/live.css live/weights.js live/numbers.js"
        " live/training_numbers.js live/model.js live/stage.js live/translate.js"
    ),
    "live-memory": f"{_MODEL} memory/memory.css memory/model.js memory/memory.js",
    "live-beam": (
        f"{_MODEL} beam/beam.css live/weights.js live/numbers.js live/model.js"
        " beam/search.js beam/tree.js"
    ),
    "live-heads": (
        f"{_MODEL} play/transformer.js heads/heads.css live/numbers.js heads/weights.js"
        " heads/model.js heads/surgery.js"
    ),
    "live-sentences": (
        f"{_MODEL} sentences/sentences.css sentences/weights.js sentences/model.js"
        " sentences/removal.js"
    ),
    "live-hops": f"{_MODEL} hops/hops.css hops/weights.js hops/model.js hops/hops.js",
    "live-question": (
        f"{_MODEL} question/question.css question/weights.js question/model.js"
        " question/question.js"
    ),
    "live-patterns": (
        f"{_PLAY} play/rules.js patterns/patterns.css patterns/model.js"
        " patterns/editor.js"
    ),
    "live-shuffle": (
        f"{_MODEL} play/transformer.js shuffle/shuffle.css shuffle/weights.js"
        " shuffle/model.js shuffle/shuffle.js"
    ),
    "live-distances": f"{_PLAY} modern/modern.css modern/model.js modern/distances.js",
    "live-cache": f"{_PLAY} modern/modern.css modern/model.js modern/cache.js",
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
    """Add the files that the classes on this page need, each once.

    What computes is loaded late: browsers do not execute the type of these scripts, and
    ``late.js`` loads them when their place comes near the window.
    """
    names: dict[str, list[str]] = {}  # of those that need a file
    for name, files in LIVE.items():
        if re.search(HAS_CLASS.format(name), context.get("body", "")):
            for path in files.split():
                names.setdefault(path, []).append(name)
    if any(one.startswith("live-") for need in names.values() for one in need):
        app.add_js_file("late.js", loading_method="defer")
    for path, need in names.items():
        if path.endswith(".css"):
            app.add_css_file(path)
        elif all(one.startswith("live-") for one in need):
            late: dict[str, Any] = {"type": "text/plain", "data-late": " ".join(need)}
            app.add_js_file(path, **late)
        else:
            app.add_js_file(path, loading_method="defer")


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect to the writing of pages."""
    app.connect("html-page-context", add_files)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
