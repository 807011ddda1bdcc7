"""The partial hypotheses of a search, as a tree."""

from collections.abc import Collection, Mapping
from typing import SupportsFloat

import numpy as np

from companion._checks import needs_extra
from companion.visualization.alignments import to_array, visible
from companion.visualization.style import BLUE, style_of_the_book

with needs_extra("book"):
    import matplotlib.pyplot as plt
    from matplotlib.axes import Axes


@style_of_the_book()
def tree(
    probabilities: Mapping[tuple[str, ...], SupportsFloat],
    kept: Collection[tuple[str, ...]],
) -> Axes:
    """A search tree: the prefixes that were tried, with their probabilities.

    A prefix is a tuple of tokens, the child of the prefix without its last token. The
    root has one token, such as ``("<bos>",)``.

    Args:
        probabilities: the probability of each prefix.
        kept: the prefixes that the search kept; they are blue.
    """
    values = to_array(list(probabilities.values()), "the probabilities of a tree")
    _check_tree(probabilities, kept)
    positions = _positions(list(probabilities))
    _, ax = plt.subplots(layout="constrained")
    for (node, position), value in zip(positions.items(), values, strict=True):
        parent = positions.get(node[:-1], position)
        _draw_node(ax, node, value, position, parent, kept=node in kept)
    ax.axis("off")
    return ax


def _check_tree(
    nodes: Collection[tuple[str, ...]], kept: Collection[tuple[str, ...]]
) -> None:
    orphans = [node for node in nodes if not node or node[:-1] not in {(), *nodes}]
    orphans += [node for node in kept if node not in nodes]
    roots = [node for node in nodes if len(node) == 1]
    if orphans or len(roots) != 1:
        raise ValueError(
            f"a tree has one root, not {roots}, and every other node has a parent, unlike {orphans}"
        )


def _draw_node(
    ax: Axes,
    node: tuple[str, ...],
    value: float,
    position: tuple[float, float],
    parent: tuple[float, float],
    kept: bool,
) -> None:
    text, face, edge, line = (
        ("white", BLUE, BLUE, "-") if kept else ("0.3", "white", "0.5", ":")
    )
    xs, ys = zip(parent, position, strict=True)
    ax.plot(xs, ys, color=edge, linestyle=line, linewidth=2, zorder=1)
    ax.text(
        *position,
        f"{visible(node[-1])}\n{value:.3g}",
        color=text,
        ha="center",
        va="center",
        bbox={"boxstyle": "round", "facecolor": face, "edgecolor": edge},
        parse_math=False,
    )


def _positions(
    nodes: list[tuple[str, ...]],
) -> dict[tuple[str, ...], tuple[float, float]]:
    """Depth to the right; leaves from top to bottom, others halfway between their children."""
    order = {node: number for number, node in enumerate(nodes)}
    leaves = [node for node in nodes if node not in {child[:-1] for child in nodes}]
    leaves.sort(
        key=lambda node: [order[node[:length]] for length in range(1, len(node) + 1)]
    )
    rows = {leaf: -float(number) for number, leaf in enumerate(leaves)}
    for node in sorted(nodes, key=len, reverse=True):
        children = [rows[child] for child in nodes if child[:-1] == node]
        rows.setdefault(node, float(np.mean(children or 0)))
    return {node: (len(node) - 1.0, rows[node]) for node in nodes}
