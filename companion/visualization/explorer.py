"""Attention to explore in a web page: plain HTML and CSS, no script, and nothing to load."""

import hashlib
from collections.abc import Mapping, Sequence
from html import escape

import numpy as np
from jaxtyping import Float
from torch import Tensor

from companion.visualization.alignments import Alignment, tables, visible

#: What the cells of an explorer hold.
PERCENT = "Weights in percent; an empty cell is under one half."
# The shade is see-through and the text takes the page's own colour. With this blue at three quarters, text
# keeps a contrast of at least 4.5 on a white page and on a dark one, and no page's mode has to be known.
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
_HINT = f"Choose a row to see it over the columns. {PERCENT}"


class Explorer:
    """One or several alignments that a notebook shows as a page; made by :func:`explore`."""

    def __init__(self, maps: Mapping[str, Alignment], title: str):
        self.title = title
        self.maps = dict(maps)
        self._percent = {
            name: np.rint(100 * values).astype(int)
            for name, values in tables(maps).items()
        }

    def __repr__(self) -> str:
        sizes = [
            f"{name} ({len(queries)} × {len(keys)})"
            for name, (_, queries, keys) in self.maps.items()
        ]
        return f"{self.title}, to explore in a notebook; queries × keys: {', '.join(sizes)}"

    def _repr_html_(self) -> str:
        css, panels = _CSS, ""
        for number, (name, (_, queries, keys)) in enumerate(self.maps.items()):
            css += _rules(number, self._percent[name])
            panels += _panel(
                number, name, _rows(number, self._percent[name], queries, keys), keys
            )
        body = _switch(self.title, list(self.maps)) + panels + f"<p>{_HINT}</p>"
        scope = "explore-" + hashlib.sha256((css + body).encode()).hexdigest()[:8]
        # A form keeps the radio buttons of two pictures apart, even of equal ones; this method sends nothing.
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
    """An alignment to explore: point at, tap or select a query, and see its weights over the keys.

    Raises:
        TypeError: a token is not a string, or the weights are not numbers.
        ValueError: the weights are not one row a query and one column a key, or lie outside 0 to 1.
    """
    return Explorer({title: (weights, queries, keys)}, title)


def explore_many(
    maps: Mapping[str, Alignment], title: str = "Attention weights"
) -> Explorer:
    """Several alignments, ``{name: (weights, queries, keys)}``, and buttons that choose which one to see.

    Heads, layers, examples or steps of decoding, say; each may have its own tokens.

    Raises:
        TypeError, ValueError: there is no map, or one is wrong; the message gives its name.
    """
    return Explorer(maps, title)


def _switch(title: str, names: list[str]) -> str:
    """The title, with the buttons that choose a map if there is anything to choose."""
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
    """Show a map only where it is chosen, and over its columns the weights of the row pointed at, or chosen.

    A browser that does not know ``:has`` shows all maps.
    """
    rules = f".X:has(.s{number}:not(:checked)) .m{number}{{display:none}}\n"
    for row, weights in enumerate(percent):
        shades = ";".join(f"--k{column}:{w}" for column, w in enumerate(weights) if w)
        rules += f".X .m{number}:has(.r{row}:hover,tbody:not(:hover)>.r{row} :checked){{{shades}}}\n"
    return rules


def _checked(number: int) -> str:
    return "" if number else " checked"
