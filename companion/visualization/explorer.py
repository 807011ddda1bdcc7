"""Interactive attention weights for a web page: HTML and CSS without scripts or downloads."""

import hashlib
from collections.abc import Mapping, Sequence
from html import escape

import numpy as np
from jaxtyping import Float
from torch import Tensor

from companion._checks import check_integers
from companion.visualization.alignments import (
    Alignment,
    printable,
    visible,
    weight_matrices,
)

#: What the cells of an explorer contain.
PERCENT = "Weights in percent; cells below 0.5 % are left blank."
_HINT = "Select a row to shade the columns by its weights."
# The shade is translucent and the text has the colour of the page. This blue at 75 % opacity
# keeps the contrast of text at 4.5 or more, on light and on dark pages alike.
_CSS = """\
.text_html:has(>.X){background:none!important;color:inherit!important}
.X{color:inherit;font:inherit;max-width:100%}
.X p{margin:.2em 0;color:inherit}
.X .box{overflow-x:auto;padding:3px}
.X table{display:table;table-layout:auto;border-collapse:collapse;width:auto;margin:0;\
color:inherit;font-size:.9em}
.X tbody tr:nth-child(n),.X tbody tr:hover{background:none}
.X th,.X td{color:inherit;border:1px solid rgb(128 128 128/.3);min-width:2.1em;height:1.9em;padding:0 .3em;\
text-align:center;vertical-align:middle;white-space:nowrap;font-weight:normal;\
background:rgb(60 110 190/calc(var(--w,0)*.75%))}
.X thead th{vertical-align:bottom}
.X td:empty{padding:0}
.X tbody th{text-align:right;padding:0}
.X tbody th label{display:block;position:relative;cursor:pointer;margin:0;padding:.25em .4em}
.X tbody input{position:absolute;opacity:0;margin:0}
.X tbody:hover tr:hover,.X tbody:not(:hover) tr:has(:checked){\
outline:2px solid currentColor;outline-offset:-1px}
.X tbody th:focus-within{text-decoration:underline}
@media(max-width:40em){.X thead th{writing-mode:vertical-rl;height:auto;padding:.3em 0}}
"""
# Several maps stand in exclusive details elements, laid out as tabs where that is possible. Where
# styles are lost, as on GitHub, one map is still open, as a table, and the others are folded.
_TABS = """\
.X details{border:0;margin:0;padding:0;background:none;box-shadow:none}
.X summary{padding:.25em .6em;color:inherit;cursor:pointer}
.X [open]>summary{font-weight:bold}
@supports selector(::details-content){.X{display:flex;flex-wrap:wrap;gap:0 .3em}
.X details{display:contents}
.X summary{list-style:none;border-bottom:3px solid transparent}
.X [open]>summary{border-color:currentColor;pointer-events:none}
.X p,.X ::details-content{flex:0 0 100%;min-width:0;order:1}
.X .top{order:0}}
"""


class Explorer:
    """Interactive alignments that a notebook shows as HTML.

    Args:
        maps, title, first, row, hint: as of :func:`explore_many`, which makes it.
    """

    def __init__(
        self,
        maps: Mapping[str, Alignment],
        title: str,
        first: str | None = None,
        row: int | None = None,
        hint: str = _HINT,
    ):
        self.title, self.hint = printable(title), printable(hint)
        self.maps = dict(maps)
        matrices = weight_matrices(maps)
        self._percent = {
            name: np.rint(100 * weights).astype(int)
            for name, weights in matrices.items()
        }
        self.first = next(iter(self.maps)) if first is None else first
        if self.first not in self.maps:
            raise ValueError(
                f"first is {first!r}, but the maps are {', '.join(map(repr, self.maps))}"
            )
        self._rows = {name: _most_spread(weights) for name, weights in matrices.items()}
        if row is not None:
            check_integers(row=row)
            count = len(self._percent[self.first])
            if not 0 <= row < count:
                raise ValueError(
                    f"row is {row}, but map {self.first!r} has the rows 0 to {count - 1}"
                )
            self._rows[self.first] = row

    def __repr__(self) -> str:
        sizes = [
            f"{printable(name)} ({len(queries)} × {len(keys)})"
            for name, (_, queries, keys) in self.maps.items()
        ]
        return f"{self.title}, interactive in a notebook; queries × keys: {', '.join(sizes)}"

    def _repr_html_(self) -> str:
        css, tables = _CSS + (_TABS if len(self.maps) > 1 else ""), {}
        for number, (name, (_, queries, keys)) in enumerate(self.maps.items()):
            percent = self._percent[name]
            css += _rules(number, percent)
            rows = _table_rows(number, percent, queries, keys, self._rows[name])
            tables[name] = _table(number, rows, keys)
        body = f"{self._top()}{self._panels(tables)}<p>{PERCENT}</p>"
        scope = "explore-" + hashlib.sha256((css + body).encode()).hexdigest()[:8]
        body = body.replace("<details", f'<details name="{scope}"')
        # A form separates the radio buttons of two explorers; this method submits nothing.
        return (
            f"<style>{css.replace('.X', '.' + scope)}</style>"
            f'<form class="{scope}" method="dialog" autocomplete="off">{body}</form>'
        )

    def _top(self) -> str:
        """The title, with the name of the only map if it is another, and what to try."""
        names = dict.fromkeys([self.title, *map(printable, self.maps)])
        title = ": ".join(names) if len(self.maps) == 1 else self.title
        stop = "" if title.endswith("?") else "."
        return f'<p class="top"><b>{escape(title)}{stop}</b> {escape(self.hint)}</p>'

    def _panels(self, tables: Mapping[str, str]) -> str:
        """The only table, or a tab for each of several."""
        if len(tables) == 1:
            return tables[self.first]
        return "".join(
            f"<details{' open' if name == self.first else ''}>"
            f"<summary>{escape(printable(name))}</summary>{table}</details>"
            for name, table in tables.items()
        )


def explore(
    weights: Float[Tensor, "q k"] | Float[np.ndarray, "q k"],
    queries: Sequence[str],
    keys: Sequence[str],
    title: str = "Attention weights",
    row: int | None = None,
    hint: str = _HINT,
) -> Explorer:
    """One alignment as an interactive table.

    Pointing at, tapping or selecting a query shades the keys by its weights.

    Args:
        weights, queries, keys: as of :func:`~companion.visualization.plots.heatmap`.
        title, row, hint: as of :func:`explore_many`.

    Example:
        >>> explore(torch.eye(2), ["deux", "un"], ["two", "one"])
        Attention weights, interactive in a notebook; queries × keys: Attention weights (2 × 2)
    """
    return explore_many({title: (weights, queries, keys)}, title, row=row, hint=hint)


def explore_many(
    maps: Mapping[str, Alignment],
    title: str = "Attention weights",
    first: str | None = None,
    row: int | None = None,
    hint: str = _HINT,
) -> Explorer:
    """Several alignments as interactive tables, of which one is shown at a time.

    They may be heads, layers, examples or decoding steps.

    Args:
        maps: ``{name: (weights, queries, keys)}``; each map has tokens of its own.
        title: the title above the names of the maps.
        first: the name of the map that is shown at first; by default the first one.
        row: the row that is selected in it at first; by default the one whose weights are
            spread most, as in all other maps.
        hint: one line that says what to try.
    """
    return Explorer(maps, title, first, row, hint)


def _most_spread(weights: np.ndarray) -> int:
    """The row with the largest entropy; the first of several that differ by rounding errors."""
    logs = np.log(weights, where=weights > 0, out=np.zeros_like(weights))
    return int((-weights * logs).sum(axis=1).round(4).argmax())


def _table(number: int, rows: str, keys: Sequence[str]) -> str:
    head = "".join(
        f'<th scope="col" style="--w:var(--k{column})">{escape(visible(key))}</th>'
        for column, key in enumerate(keys)
    )
    return (
        f'<div class="box m{number}"><table><thead><tr><td></td>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


def _table_rows(
    number: int,
    percent: np.ndarray,
    queries: Sequence[str],
    keys: Sequence[str],
    selected: int,
) -> str:
    rows = ""
    for row, query in enumerate(queries):
        checked = " checked" if row == selected else ""
        button = (
            f'<input type="radio" name="row{number}"{checked}>{escape(visible(query))}'
        )
        cells = "".join(
            f'<td style="--w:{w}" title="{escape(f"{visible(query)} → {visible(key)}: {w} %")}">{w}</td>'
            if w
            else "<td></td>"
            for w, key in zip(percent[row], keys, strict=True)
        )
        rows += f'<tr class="r{row}"><th scope="row"><label>{button}</label></th>{cells}</tr>'
    return rows


def _rules(number: int, percent: np.ndarray) -> str:
    """CSS that shades the columns of a map by the row under the pointer, or else the selected one."""
    rules = ""
    for row, weights in enumerate(percent):
        shades = ";".join(f"--k{column}:{w}" for column, w in enumerate(weights) if w)
        rules += f".X .m{number}:has(.r{row}:hover,tbody:not(:hover)>.r{row} :checked){{{shades}}}\n"
    return rules
