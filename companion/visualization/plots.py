"""Attention weights as heat maps, and measurements as curves."""

import re
from collections.abc import Mapping, Sequence
from itertools import cycle, pairwise
from typing import Any

import numpy as np
from jaxtyping import Float
from torch import Tensor

from companion._checks import check_positive, needs_extra
from companion.visualization.alignments import (
    Alignment,
    to_array,
    visible,
    weight_matrices,
    weight_matrix,
    width,
    wrapped,
)
from companion.visualization.style import (
    MODELS,
    OTHERS,
    STYLE,
    style_of_the_book,
    write_literally,
)

with needs_extra("book"):
    import matplotlib.pyplot as plt
    from matplotlib.axes import Axes
    from matplotlib.colors import to_rgb
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

_NAME_WIDTH = 16  # columns of a curve's name in one line
_FULL_WIDTH = STYLE["figure.figsize"][0]  # inches
_SMALLEST_CELL = 0.18  # inches: a row as high as its token


@style_of_the_book()
def heatmap(
    weights: Float[Tensor, "q k"] | Float[np.ndarray, "q k"],
    queries: Sequence[str],
    keys: Sequence[str],
    ax: Axes | None = None,
    title: str | None = None,
) -> Axes:
    """Attention weights as an image: a row for each query token, a column for each key token.

    White is 0 and dark blue is 1 in every image, so that images can be compared. A colour
    bar is ``ax.figure.colorbar(ax.images[0])``.

    Args:
        weights: the attention weights, ``(q, k)``.
        queries, keys: the tokens of the rows and of the columns.
        ax: where to plot; by default a new figure.
        title: the title of the image.
    """
    values = weight_matrix(weights, queries, keys)
    if ax is None:
        _, ax = plt.subplots(figsize=_size(queries, keys), layout="constrained")
    _draw(values, queries, keys, ax)
    if title:
        write_literally(ax.set_title(title))
    return ax


@style_of_the_book()
def heatmaps(maps: Mapping[str, Alignment], columns: int = 2) -> Figure:
    """Several images as by :func:`heatmap`, with one colour bar.

    Args:
        maps: ``{title: (weights, queries, keys)}``.
        columns: the most images side by side.
    """
    check_positive(columns=columns)
    values = weight_matrices(maps)
    columns = min(columns, len(maps))
    rows = -(-len(maps) // columns)
    room = (_FULL_WIDTH - 0.6) / columns
    sizes = [_size(queries, keys, room) for _, queries, keys in maps.values()]
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
        write_literally(ax.set_title(title))
    for ax in grid.flat[len(maps) :]:
        ax.remove()
    figure.colorbar(
        grid[0, 0].images[0],
        ax=list(grid.flat[: len(maps)]),
        label="weight",
        shrink=0.8,
    )
    return figure


def _size(
    queries: Sequence[str], keys: Sequence[str], room: float = _FULL_WIDTH
) -> tuple[float, float]:
    """Width and height in inches, with cells that let the image fit into the room, if they can."""
    beside = 0.09 * max(map(width, queries)) + 0.5
    fitting = max((room - beside) / len(keys), _SMALLEST_CELL)
    cell = min(0.34, 6 / max(len(queries), len(keys)), fitting)
    height = cell * len(queries) + 0.07 * max(map(width, keys)) + 0.4
    return max(cell * len(keys) + beside, 1.6), max(height, 1.2)


def _draw(
    values: np.ndarray, queries: Sequence[str], keys: Sequence[str], ax: Axes
) -> None:
    ax.imshow(values, cmap="Blues", vmin=0, vmax=1)
    ax.set_xticks(range(len(keys)), [visible(key) for key in keys], parse_math=False)
    ax.set_yticks(
        range(len(queries)), [visible(query) for query in queries], parse_math=False
    )
    ax.tick_params(length=0, top=False, labeltop=True, bottom=False, labelbottom=False)
    if max(map(width, keys)) > 2:
        plt.setp(
            ax.get_xticklabels(),
            rotation=45,
            ha="left",
            va="bottom",
            rotation_mode="anchor",
        )
    ax.spines[:].set(visible=True, color="0.7")


@style_of_the_book()
def curves(
    x: Sequence[Any],
    models: Mapping[str, Tensor | np.ndarray | Sequence[Any]],
    xlabel: str,
    ylabel: str,
    ax: Axes | None = None,
    ylim: tuple[float, float] | None = None,
) -> Axes:
    """One curve per model, distinguished by colour, marker and line style, with its name beside it.

    The models that occur in several chapters
    (:data:`~companion.visualization.style.MODELS`) look the same in all figures.

    Args:
        x: the positions on the x axis.
        models: ``{name: values}``, one value for each ``x``, or one row of values per
            seed: then the line is their mean, and the band extends from the minimum to
            the maximum.
        xlabel, ylabel: the labels of the axes.
        ax: where to plot; by default a new figure.
        ylim: the limits of the y axis.
    """
    runs = {name: _runs(name, values, len(x)) for name, values in models.items()}
    if not runs:
        raise ValueError(
            "there is no curve to plot: give at least one model, as {name: values}"
        )
    if ax is None:
        _, ax = plt.subplots(layout="constrained")
    lines = {name: (x, values) for name, values in runs.items()}
    return _lines(ax, lines, xlabel=xlabel, ylabel=ylabel, ylim=ylim)


@style_of_the_book()
def learning_curves(
    histories: Mapping[str, Sequence[Any]], ylabel: str = "validation loss per token"
) -> Axes:
    """The validation loss of each model during training, on a logarithmic scale.

    Args:
        histories: ``{name: history}``; a history is the list of records that training
            returns. A model that was trained with several seeds has a list of histories,
            which are shown as by :func:`curves`.
        ylabel: the label of the y axis.
    """
    runs = {
        name: [h] if h and isinstance(h[0], Mapping) else h
        for name, h in histories.items()
    }
    empty = [name for name, seeds in runs.items() if not seeds or not all(seeds)]
    if empty or not runs:
        raise ValueError(
            f"there is no learning curve to plot: of {len(runs)} models {empty} have no record"
        )
    lines = {}
    for name, seeds in runs.items():
        steps = _steps(name, seeds)
        losses = [[record["held_out_loss"] for record in seed] for seed in seeds]
        lines[name] = (steps, _runs(name, losses, len(steps)))
    _, ax = plt.subplots(layout="constrained")
    return _lines(ax, lines, xlabel="training steps", ylabel=ylabel, yscale="log")


def _steps(name: str, seeds: Sequence[Any]) -> list[int]:
    """The steps at which every seed of a model was recorded."""
    first, *others = ([record["step"] for record in seed] for seed in seeds)
    for other in others:
        if other != first:
            raise ValueError(
                f"the seeds of model {name!r} were recorded at different steps: {first} and {other}"
            )
    return first


def _lines(
    ax: Axes, values: Mapping[str, tuple[Sequence[Any], np.ndarray]], **settings: Any
) -> Axes:
    """Each model's line, in its own style or one that no model has, with its name."""
    others = cycle(OTHERS)
    lines = {
        name: _line(ax, x, y, MODELS.get(name) or next(others))
        for name, (x, y) in values.items()
    }
    ax.set(**settings)
    _label_lines(ax, lines)
    return ax


def _line(
    ax: Axes, x: Sequence[Any], values: np.ndarray, style: dict[str, Any]
) -> Line2D:
    (line,) = ax.plot(x, values.mean(0), markevery=-(-len(x) // 12), **style)
    if len(values) > 1:
        ax.fill_between(
            x,
            values.min(0),
            values.max(0),
            color=style["color"],
            alpha=0.2,
            linewidth=0,
        )
    return line


def _label_lines(ax: Axes, lines: Mapping[str, Line2D]) -> None:
    """The name of each curve at its end, in its colour, with space between the names."""
    write_literally(ax.xaxis.label, ax.yaxis.label)
    scale = ax.yaxis.get_transform()
    bottom, top = scale.transform(np.array(ax.get_ylim()))
    last = np.array([np.asarray(line.get_ydata())[-1] for line in lines.values()])
    heights = np.nan_to_num((scale.transform(last) - bottom) / (top - bottom)).tolist()
    names = list(map(_in_lines, lines))
    points = ax.get_window_extent().height * 72 / ax.figure.dpi
    sizes = [
        1.3 * STYLE["font.size"] * (1 + name.count("\n")) / points for name in names
    ]
    for line, name, height in zip(
        lines.values(), names, _spread(heights, sizes), strict=True
    ):
        note = ax.annotate(
            name,
            (1, height),
            xytext=(4, 0),
            xycoords="axes fraction",
            textcoords="offset points",
            va="center",
            color=0.75 * np.array(to_rgb(line.get_color())),  # darker than the line
        )
        write_literally(note)


def _in_lines(name: Any) -> str:
    """A name, with a line break before each word that does not fit into a line."""
    words = re.split("[ \t\n]", str(name))
    starts = wrapped(words, _NAME_WIDTH)
    return "".join(
        (" " if column else "\n") + word
        for word, (_, column) in zip(words, starts, strict=True)
    )[1:]


def _spread(heights: Sequence[float], sizes: Sequence[float]) -> list[float]:
    """Heights between 0 and 1 close to the given ones, at which texts of these sizes do not touch."""
    spread, order = list(heights), np.argsort(heights, kind="stable")
    for below, above in pairwise(order):
        spread[above] = max(
            spread[above], spread[below] + (sizes[below] + sizes[above]) / 2
        )
    spread[order[-1]] = min(spread[order[-1]], 1)
    for above, below in pairwise(order[::-1]):
        spread[below] = min(
            spread[below], spread[above] - (sizes[below] + sizes[above]) / 2
        )
    return spread


def _runs(
    name: str, values: Tensor | np.ndarray | Sequence[Any], length: int
) -> np.ndarray:
    runs = np.atleast_2d(to_array(values, f"the values of model {name!r}"))
    if runs.ndim != 2 or runs.shape[1] != length or not runs.size:
        raise ValueError(
            f"model {name!r} has values of shape {runs.shape} for {length} points on the x axis"
        )
    return runs
