"""The bar chart on the page of results: BLEU as published, and ours by greedy and by beam search.

It is an SVG element in the page. Lengths are percentages of its width and text has a fixed size, so that
it can be read on a phone too. ``book.css`` colours the classes ``published``, ``greedy`` and ``beam``; the
PDF and the ePub, which do not have that file, use the colours in the attributes. No attribute has a capital
letter, as ``viewBox`` has, because the HTML parser of ``pages`` changes the names to lower case.
"""

import statistics
from collections.abc import Sequence
from html import escape
from typing import Any, NamedTuple

from runs import listed, mean_and_spread, measured, plural

COLOURS = {"published": "#8a94a3", "greedy": "#176de8", "beam": "#8ab6f5"}
WIDEST = 74.0  # percent of the width; the rest is for the number beside the longest bar
NAME, BAR, PITCH, GAP = 20, 12, 15, 10  # pixels: a name, a bar, from bar to bar, below
LEGEND, KEYS = 30, (0, 86, 188)  # pixels: the height of the legend, where its keys are


class Scores(NamedTuple):
    """The BLEU of a model: published, if it is, and ours, one for each random seed."""

    name: str
    published: float | None
    greedy: Sequence[float]
    beam: Sequence[float]

    @property
    def bars(self) -> dict[str, Sequence[float]]:
        """The scores of each bar."""
        published = {} if self.published is None else {"published": [self.published]}
        return published | {"greedy": self.greedy, "beam": self.beam}


def bleu_chart(models: Sequence[Scores], beam: str) -> str:
    """The chart as a figure in HTML, on one line.

    Args:
        models: from top to bottom.
        beam: the name of the beam search in the legend.
    """
    longest = max(
        sum(mean_and_spread(scores))
        for model in models
        for scores in model.bars.values()
    )
    names = {
        "published": "published",
        "greedy": "ours, greedy",
        "beam": f"ours, {beam}",
    }
    scale = WIDEST / (longest or 1)
    parts, top = legend(names), LEGEND
    for model in models:
        parts.append(element("text", escape(model.name), y=top + 13, font_weight=600))
        top += NAME
        for kind, scores in model.bars.items():
            parts += bar(kind, scores, top, scale)
            top += PITCH
        top += GAP
    drawing = element(
        "svg",
        "".join(parts),
        xmlns="http://www.w3.org/2000/svg",
        role="img",
        aria_label=described(models, beam),
        width="100%",
        height=top - GAP,
        fill="currentColor",
        font_size="12",
        overflow="visible",
    )
    return element(
        "figure",
        drawing + element("figcaption", element("p", escape(caption(models)))),
        class_="bleu-chart",
    )


def legend(names: dict[str, str]) -> list[str]:
    """A coloured square and a name for each kind of bar."""
    parts = []
    for left, (kind, name) in zip(KEYS, names.items(), strict=True):
        parts += [
            box(kind, x=left, y=0, width=BAR),
            element("text", escape(name), x=left + BAR + 6, y=10),
        ]
    return parts


def bar(kind: str, scores: Sequence[float], top: int, scale: float) -> list[str]:
    """A bar, a thin line from one standard deviation below its end to one above, and its number."""
    mean, spread = mean_and_spread(scores)
    left, end, right = (
        f"{bleu * scale:.2f}%" for bleu in (mean - spread, mean, mean + spread)
    )
    parts = [box(kind, x=0, y=top, width=end)]
    if spread:
        middle = top + BAR // 2
        ends: dict[str, Any] = {"x1": left, "x2": right, "y1": middle, "y2": middle}
        parts.append(element("line", stroke="currentColor", **ends))
    number = element("text", measured(scores, 1), x=right, dx=6, y=top + BAR - 2)
    return [*parts, number]


def box(kind: str, **attributes: Any) -> str:
    """A rectangle in the colour of a kind of bar."""
    return element("rect", class_=kind, fill=COLOURS[kind], height=BAR, **attributes)


def caption(models: Sequence[Scores]) -> str:
    """What the chart shows, and what follows from it."""
    seeds = any(len(model.greedy) > 1 for model in models)
    lines = (
        " A thin line is one standard deviation over random seeds to each side."
        if seeds
        else ""
    )
    return f"BLEU on the test set, higher is better. {finding(models)}{lines}"


def finding(models: Sequence[Scores]) -> str:
    """How many models of ours are above what is published, by greedy search on both sides."""
    above = {
        model.name: statistics.mean(model.greedy) > model.published
        for model in models
        if model.published is not None
    }
    if not above:
        return "Nothing is published to compare ours with."
    below = [name for name in above if not above[name]]
    exceptions = f" (not for {listed(below)})" if below else ""
    return (
        f"By greedy search, ours is above the published figure for {sum(above.values())} of"
        f" {len(above)} {plural('model', list(above))}{exceptions}."
    )


def described(models: Sequence[Scores], beam: str) -> str:
    """The chart in words and numbers."""
    numbers = (
        f"{model.name}: "
        + ("" if model.published is None else f"published {model.published:.1f}, ")
        + f"ours {measured(model.greedy, 1)} greedy and {measured(model.beam, 1)} with {beam}."
        for model in models
    )
    return f"Bar chart of BLEU. {finding(models)} {' '.join(numbers)}"


def element(tag: str, content: str = "", **attributes: Any) -> str:
    """An element; in the names of attributes, ``_`` stands for ``-``, and at the end for nothing."""
    written = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escape(str(value))}"'
        for name, value in attributes.items()
    )
    return f"<{tag}{written}>{content}</{tag}>"
