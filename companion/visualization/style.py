"""The style of the book's figures: black on white, with colours that all readers can tell apart.

Characters that its font lacks are written in the families that the reader has set, for example
by ``mpl.rcParams["font.family"] = ["Noto Sans CJK SC"]``.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from companion._checks import needs_extra
from companion.visualization.alignments import printable

with needs_extra("book"):
    import matplotlib as mpl
    from cycler import Cycler, cycler
    from matplotlib.text import Text

BLUE = "#0072B2"  #: the first colour of lines, and that of what a search kept
#: Line styles and the colours of Okabe and Ito, distinguishable with any colour vision;
#: without yellow, which is too pale.
LINES: Cycler[str, Any] = cycler(
    color=[BLUE, "#D55E00", "#009E73", "#CC79A7", "#000000", "#E69F00", "#56B4E9"],
    linestyle=["-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1))],
)
#: Markers of curves.
MARKERS: Cycler[str, Any] = cycler(marker=["o", "s", "^", "D", "v", "P", "X"])
_STYLES = LINES + MARKERS
_NAMED = ("Bahdanau", "Luong", "Transformer", "ConvS2S")
#: The curves of models that occur in several chapters, which look the same in all of them.
MODELS: dict[str, dict[str, Any]] = {
    "without attention": {"color": "#767676", "linestyle": "-", "marker": "*"},
    **dict(zip(_NAMED, _STYLES, strict=False)),
}
#: The curves of all other models, which never look like one of those.
OTHERS: Cycler[str, Any] = _STYLES[len(_NAMED) :].concat(
    cycler(color=["#882255", "#999933", "#332288", "#8C510A"])
    + cycler(linestyle=["-", "--", "-.", ":"])
    + cycler(marker=["<", ">", "h", "p"])
)
#: The settings of matplotlib for every figure. Five inches fill the 360 pixels of a
#: telephone's screen, where 10 points then appear as 10 pixels.
STYLE: dict[Any, Any] = {
    "figure.figsize": (5.0, 3.2),
    "figure.dpi": 120,
    "savefig.dpi": 120,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "axes.facecolor": "white",
    "axes.edgecolor": "black",
    "axes.labelcolor": "black",
    "text.color": "black",
    "xtick.color": "black",
    "ytick.color": "black",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.formatter.min_exponent": 4,  # 0.01 and 100 instead of powers of ten
    "axes.prop_cycle": LINES,
    "axes.titlesize": 10,
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "legend.frameon": False,
    "lines.markersize": 5,
    "image.cmap": "Blues",
    "image.interpolation": "none",  # each cell of a heat map is one dot of the picture
    "svg.fonttype": "none",
    "svg.hashsalt": "attention",  # the same figure is the same file
}
#: What a file would say about its making.
_UNSAID = dict.fromkeys(("Date", "Creator", "Format", "Type"))


def set_style() -> None:
    """Make the style of the book the default of matplotlib.

    The functions of this package always use it; this is for figures that are plotted with
    matplotlib directly. In a notebook, figures are SVG, whose texts are texts.
    """
    mpl.rcParams.update(_with_families(STYLE["font.family"]))
    if mpl.get_backend() in ("inline", "module://matplotlib_inline.backend_inline"):
        from matplotlib_inline.backend_inline import set_matplotlib_formats

        set_matplotlib_formats("svg", metadata=_UNSAID)


def write_literally(*texts: Text) -> None:
    """Have texts appear as they are: dollar signs do not begin a formula."""
    for text in texts:
        text.set(text=printable(text.get_text()), parse_math=False)


@contextmanager
def style_of_the_book(family: str = STYLE["font.family"]) -> Iterator[None]:
    """The style of the book while a figure is plotted, with this family first."""
    with mpl.rc_context(_with_families(family)):
        yield


def _with_families(family: str) -> dict[Any, Any]:
    """The style, where the reader's families write what the first one has no glyphs for."""
    families = dict.fromkeys([family, *mpl.rcParams["font.family"]])
    return STYLE | {"font.family": list(families)}
