"""Interactive attention weights for a web page: HTML and CSS without scripts or downloads."""

import hashlib
from collections.abc import Mapping, Sequence
from html import escape

import numpy as np
from jaxtyping import Float
from torch import Tensor

from companion.visualization.alignments import (
    Alignment,
    printable,
    visible,
    weight_matrices,
)

#: What the cells of an explorer contain.
PERCENT = "Weights in percent; cells below 0.5 % are left blank."
# The shade is translucent and the text has the colour of the page. This blue at 75 % opacity
# keeps the contrast of text at 4.5 or more, on light and on dark pages alike.
_CSS = """\
.text_html:has(>.X){background:none!important;color:inherit!important}
.X{color:inherit;font:inherit;max-width:100%}
.X fieldset{border:0;margin:0;padding:0;min-inline-size:0}
.X legend{float:none;width:auto;border:0;margin:0;padding:.2em 0;font-size:1em;font-weight:bold;color:inherit}
.X p{margin:.2em 0;color:inherit}
.X .pick label{display:inline-block;padding:.25em .6em .25em 0;margin:0}
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
_HINT = f"Select a row to shade the columns by its weights. {PERCENT}"


class Explorer:
    """Interactive alignments that a notebook shows as HTML; made by :func:`explore`.

    Args:
        maps: ``{name: (weights, queries, keys)}``.
        title: the title of the whole.

    Raises:
        TypeError, ValueError: as :func:`explore_many`.
    """

    def __init__(self, maps: Mapping[str, Alignment], title: str):
        self.title = printable(title)
        self.maps = dict(maps)
        self._percent = {
            name: np.rint(100 * values).astype(int)
            for name, values in weight_matrices(maps).items()
        }

    def __repr__(self) -> str:
        sizes = [
            f"{printable(name)} ({len(queries)} × {len(keys)})"
            for name, (_, queries, keys) in self.maps.items()
        ]
        return f"{self.title}, interactive in a notebook; queries × keys: {', '.join(sizes)}"

    def _repr_html_(self) -> str:
        css, panels = _CSS, ""
        for number, (name, (_, queries, keys)) in enumerate(self.maps.items()):
            percent = self._percent[name]
            css += _rules(number, percent)
            rows = _rows(number, percent, queries, keys)
            panels += _panel(number, printable(name), rows, keys)
        names = [printable(name) for name in self.maps]
        body = _switch(self.title, names) + panels + f"<p>{_HINT}</p>"
        scope = "explore-" + hashlib.sha256((css + body).encode()).hexdigest()[:8]
        # A form separates the radio buttons of two explorers; this method submits nothing.
        return (
            f"<style>{css.replace('.X', '.' + scope)}</style>"
            f'<form class="{scope}" method="dialog" autocomplete="off">{body}</form>'
        )


def explore(
    weights: Float[Tensor, "q k"] | Float[np.ndarray, "q k"],
    queries: Sequence[str],
    keys: Sequence[str],
    title: str = "Attention weights",
) -> Explorer:
    """One alignment as an interactive table.

    Pointing at, tapping or selecting a query shades the keys by its weights.

    Args:
        weights: the attention weights, ``(q, k)``.
        queries, keys: the tokens of the rows and of the columns.
        title: the title of the table.

    Raises:
        TypeError: a token is not a string, or the weights are not numbers.
        ValueError: the weights do not have one row per query and one column per key, or
            lie outside 0 to 1.

    Example:
        >>> explore(torch.eye(2), ["deux", "un"], ["two", "one"])
        Attention weights, interactive in a notebook; queries × keys: Attention weights (2 × 2)
    """
    return Explorer({title: (weights, queries, keys)}, title)


def explore_many(
    maps: Mapping[str, Alignment], title: str = "Attention weights"
) -> Explorer:
    """Several alignments as interactive tables, with buttons that select one of them.

    They may be heads, layers, examples or decoding steps.

    Args:
        maps: ``{name: (weights, queries, keys)}``; each map has tokens of its own.
        title: the title above the buttons.

    Raises:
        TypeError, ValueError: there is no map, or one is invalid; the message gives its
            name.
    """
    return Explorer(maps, title)


def _switch(title: str, names: list[str]) -> str:
    """The title, with buttons that select a map if there are several."""
    if names == [title]:
        return ""
    if len(names) == 1:
        return f"<p><b>{escape(title)}</b></p>"
    buttons = "".join(
        f'<label><input type="radio" name="map" class="s{number}"{_checked(number)}> {escape(name)}</label>'
        for number, name in enumerate(names)
    )
    return (
        f'<fieldset class="pick"><legend>{escape(title)}</legend>{buttons}</fieldset>'
    )


def _panel(number: int, name: str, rows: str, keys: Sequence[str]) -> str:
    head = "".join(
        f'<th scope="col" style="--w:var(--k{column})">{escape(visible(key))}</th>'
        for column, key in enumerate(keys)
    )
    return (
        f'<fieldset class="m{number}"><legend>{escape(name)}</legend><div class="box"><table>'
        f"<thead><tr><td></td>{head}</tr></thead><tbody>{rows}</tbody></table></div></fieldset>"
    )


def _rows(
    number: int, percent: np.ndarray, queries: Sequence[str], keys: Sequence[str]
) -> str:
    rows = ""
    for row, query in enumerate(queries):
        button = f'<input type="radio" name="row{number}"{_checked(row)}>{escape(visible(query))}'
        cells = "".join(
            f'<td style="--w:{w}" title="{escape(f"{visible(query)} → {visible(key)}: {w} %")}">{w}</td>'
            if w
            else "<td></td>"
            for w, key in zip(percent[row], keys, strict=True)
        )
        rows += f'<tr class="r{row}"><th scope="row"><label>{button}</label></th>{cells}</tr>'
    return rows


def _rules(number: int, percent: np.ndarray) -> str:
    """CSS that shows a map only when selected, and shades its columns by the active row.

    The active row is the one under the pointer, or else the selected one. A browser
    without ``:has`` shows all maps.
    """
    rules = f".X:has(.s{number}:not(:checked)) .m{number}{{display:none}}\n"
    for row, weights in enumerate(percent):
        shades = ";".join(f"--k{column}:{w}" for column, w in enumerate(weights) if w)
        rules += f".X .m{number}:has(.r{row}:hover,tbody:not(:hover)>.r{row} :checked){{{shades}}}\n"
    return rules


def _checked(number: int) -> str:
    return "" if number else " checked"
