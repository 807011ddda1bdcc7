"""The figures of the book, in one style: weights as a picture, scores as curves, and a search as a tree."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import cycle
from typing import Any, SupportsFloat

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from cycler import Cycler, cycler
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from companion.visualization.alignments import (
    Alignment,
    numbers,
    table,
    tables,
    visible,
)

_BLUE = "#0072B2"
# Okabe and Ito's colours, which remain apart with any colour vision; without yellow, too pale on white.
_LINES: Cycler[str, Any] = cycler(
    color=[_BLUE, "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000"],
    linestyle=["-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1))],
)
_MARKERS: Cycler[str, Any] = cycler(marker=["o", "s", "^", "D", "v", "P", "X"])
# Five inches fill a telephone's 360 pixels, where 10 points are then as large as 10 pixels.
_STYLE: dict[Any, Any] = {
    "figure.figsize": (5.0, 3.2),
    "figure.dpi": 120,
    "savefig.dpi": 120,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "axes.facecolor": "white",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.prop_cycle": _LINES,
    "axes.titlesize": 10,
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "legend.frameon": False,
    "lines.markersize": 5,
    "image.cmap": "Blues",
}


def style() -> None:
    """Draw every figure from now on in the style of the book: white, and readable on a telephone.

    The functions of this module always do; this is for figures drawn with matplotlib alone.
    """
    mpl.rcParams.update(_STYLE)


@mpl.rc_context(_STYLE)
def heatmap(
    weights: Float[Tensor, "q k"] | Float[np.ndarray, "q k"],
    queries: Sequence[str],
    keys: Sequence[str],
    ax: Axes | None = None,
    title: str | None = None,
) -> Axes:
    """Attention weights as a picture: a row for each query token, a column for each key token.

    White is 0 and dark blue is 1 in every picture, so that pictures can be compared. A colour bar is
    ``ax.figure.colorbar(ax.images[0])``.

    Raises:
        TypeError: a token is not a string, or the weights are not numbers.
        ValueError: the weights are not one row a query and one column a key, or lie outside 0 to 1.
    """
    values = table(weights, queries, keys)
    if ax is None:
        _, ax = plt.subplots(figsize=_size(queries, keys), layout="constrained")
    _draw(values, queries, keys, ax)
    if title:
        ax.set_title(title)
    return ax


@mpl.rc_context(_STYLE)
def heatmaps(maps: Mapping[str, Alignment], columns: int = 2) -> Figure:
    """Several :func:`heatmap` pictures and a colour bar, from ``{title: (weights, queries, keys)}``.

    Raises:
        TypeError: a token is not a string, or weights are not numbers.
        ValueError: there is no map, the number of columns is below 1, or a map is wrong.
    """
    if columns < 1:
        raise ValueError(f"pictures need at least one column, not {columns}")
    values = tables(maps)
    columns = min(columns, len(maps))
    rows = -(-len(maps) // columns)
    sizes = [_size(queries, keys) for _, queries, keys in maps.values()]
    width, height = np.max(sizes, axis=0)
    figure, grid = plt.subplots(
        rows,
        columns,
        figsize=(columns * width + 0.6, rows * (height + 0.2)),
        layout="constrained",
        squeeze=False,
    )
    for ax, (title, (_, queries, keys)) in zip(grid.flat, maps.items(), strict=False):
        _draw(values[title], queries, keys, ax)
        ax.set_title(title)
    for ax in grid.flat[len(maps) :]:
        ax.remove()
    figure.colorbar(
        grid[0, 0].images[0],
        ax=list(grid.flat[: len(maps)]),
        label="weight",
        shrink=0.8,
    )
    return figure


def _size(queries: Sequence[str], keys: Sequence[str]) -> tuple[float, float]:
    """Width and height in inches that give each cell a good square and each token its room."""
    cell = min(0.34, 6 / max(len(queries), len(keys)))
    width = cell * len(keys) + 0.09 * max(map(len, queries)) + 0.5
    height = cell * len(queries) + 0.07 * max(map(len, keys)) + 0.4
    return max(width, 1.6), max(height, 1.2)


def _draw(
    values: np.ndarray, queries: Sequence[str], keys: Sequence[str], ax: Axes
) -> None:
    ax.imshow(values, cmap="Blues", vmin=0, vmax=1, interpolation="nearest")
    ax.set_xticks(range(len(keys)), [visible(key) for key in keys], parse_math=False)
    ax.set_yticks(
        range(len(queries)), [visible(query) for query in queries], parse_math=False
    )
    ax.tick_params(length=0, top=False, labeltop=True, bottom=False, labelbottom=False)
    if max(map(len, keys)) > 2:
        plt.setp(
            ax.get_xticklabels(),
            rotation=45,
            ha="left",
            va="bottom",
            rotation_mode="anchor",
        )
    ax.spines[:].set(visible=True, color="0.7")


@mpl.rc_context(_STYLE)
def curves(
    x: Sequence,
    models: Mapping[str, Tensor | np.ndarray | Sequence],
    xlabel: str,
    ylabel: str,
    ax: Axes | None = None,
) -> Axes:
    """One curve a model, told apart by colour, marker and line, with a legend.

    A model gives one value for each ``x``, or a row of them for each seed: then the line is their mean
    and the band runs from the least to the greatest.

    Raises:
        TypeError: a model gives something else than numbers.
        ValueError: there is no model, or one has not as many values as there are ``x``.
    """
    runs = {name: _runs(name, values, len(x)) for name, values in models.items()}
    if not runs:
        raise ValueError("no curve to draw: give at least one model, as {name: values}")
    if ax is None:
        _, ax = plt.subplots(layout="constrained")
    for (name, values), look in zip(runs.items(), _looks(), strict=False):
        _line(ax, x, values, name, look)
    ax.set(xlabel=xlabel, ylabel=ylabel)
    ax.legend()
    return ax


@mpl.rc_context(_STYLE)
def learning_curves(
    histories: Mapping[str, Sequence], ylabel: str = "loss per word, held out"
) -> Axes:
    """How each model's held-out loss falls in training, on a logarithmic scale; see :func:`curves`.

    A history is what training returns; a model that was trained from several seeds has a list of them.

    Raises:
        TypeError: a loss is no number, or one seed has more records than another.
        ValueError: there is no model, or a history has no record.
    """
    runs = {
        name: [h] if h and isinstance(h[0], Mapping) else h
        for name, h in histories.items()
    }
    empty = [name for name, seeds in runs.items() if not seeds or not all(seeds)]
    if empty or not runs:
        raise ValueError(
            f"no learning curve to draw: of {len(runs)} models {empty} have no record"
        )
    steps = {
        name: [record["step"] for record in seeds[0]] for name, seeds in runs.items()
    }
    losses = {
        name: _runs(
            name,
            [[record["held_out_loss"] for record in seed] for seed in seeds],
            len(steps[name]),
        )
        for name, seeds in runs.items()
    }
    _, ax = plt.subplots(layout="constrained")
    for name, look in zip(runs, _looks(), strict=False):
        _line(ax, steps[name], losses[name], name, look)
    ax.set(xlabel="training steps", ylabel=ylabel, yscale="log")
    ax.legend()
    return ax


def _looks() -> Iterator[dict[str, Any]]:
    return cycle(_LINES + _MARKERS)


def _line(
    ax: Axes, x: Sequence, values: np.ndarray, name: str, look: dict[str, Any]
) -> None:
    ax.plot(x, values.mean(0), label=name, markevery=-(-len(x) // 12), **look)
    if len(values) > 1:
        ax.fill_between(
            x, values.min(0), values.max(0), color=look["color"], alpha=0.2, linewidth=0
        )


def _runs(name: str, values: Tensor | np.ndarray | Sequence, length: int) -> np.ndarray:
    runs = np.atleast_2d(numbers(values, f"the values of model {name!r}"))
    if runs.ndim != 2 or runs.shape[1] != length or not runs.size:
        raise ValueError(
            f"model {name!r} gives values of shape {runs.shape} for {length} points on the x axis"
        )
    return runs


@mpl.rc_context(_STYLE)
def tree(
    probabilities: Mapping[tuple[str, ...], SupportsFloat],
    kept: Collection[tuple[str, ...]],
) -> Axes:
    """A search tree: the beginnings that were tried, each with its probability; those kept are blue.

    A beginning is a tuple of tokens. It hangs from the one without its last token, up to the root, which has
    one token, such as ``("<bos>",)``.

    Raises:
        TypeError: a probability is not a number.
        ValueError: the beginnings do not form one tree, or one that was kept is not among them.
    """
    values = numbers(list(probabilities.values()), "the probabilities of a tree")
    strangers = [
        node
        for node in probabilities
        if not node or node[:-1] not in {(), *probabilities}
    ]
    strangers += [node for node in kept if node not in probabilities]
    roots = [node for node in probabilities if len(node) == 1]
    if strangers or len(roots) != 1:
        raise ValueError(
            f"a tree has one root, not {roots}, and all else hangs from it, unlike {strangers}"
        )
    places = _places(list(probabilities))
    _, ax = plt.subplots(layout="constrained")
    for (node, (x, y)), value in zip(places.items(), values, strict=True):
        text, face, edge, line = (
            ("white", _BLUE, _BLUE, "-")
            if node in kept
            else ("0.3", "white", "0.5", ":")
        )
        box = {"boxstyle": "round", "facecolor": face, "edgecolor": edge}
        start = places.get(node[:-1], (x, y))
        ax.plot(
            (start[0], x),
            (start[1], y),
            color=edge,
            linestyle=line,
            linewidth=2,
            zorder=1,
        )
        label = f"{visible(node[-1])}\n{value:.3g}"
        ax.text(
            x,
            y,
            label,
            color=text,
            ha="center",
            va="center",
            bbox=box,
            parse_math=False,
        )
    ax.axis("off")
    return ax


def _places(nodes: list[tuple[str, ...]]) -> dict[tuple[str, ...], tuple[float, float]]:
    """Depth to the right; the leaves one below the other, the others halfway between their children."""
    order = {node: number for number, node in enumerate(nodes)}
    leaves = [node for node in nodes if node not in {child[:-1] for child in nodes}]
    leaves.sort(
        key=lambda node: [order[node[:length]] for length in range(1, len(node) + 1)]
    )
    rows = {leaf: -float(number) for number, leaf in enumerate(leaves)}
    for node in sorted(nodes, key=len, reverse=True):
        rows.setdefault(
            node,
            float(np.mean([rows[child] for child in nodes if child[:-1] == node] or 0)),
        )
    return {node: (len(node) - 1.0, rows[node]) for node in nodes}
