"""Drawings of architectures as SVG: boxes for layers, arrows for tensors, one colour for each role."""

import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from itertools import pairwise
from typing import Literal, NamedTuple, get_args

#: What a part of a drawing stands for, which decides its colour.
Role = Literal["ink", "muted", "layer", "query", "key", "value", "gradient"]
#: The coordinates of a point in a drawing, x to the right and y downwards.
Point = tuple[float, float]

#: The colours on white paper; a web page may replace them by style rules for the classes
#: ``fill-…`` and ``stroke-…``.
COLOURS = {
    "paper": "#ffffff",
    "ink": "#1d2329",
    "muted": "#55616b",
    "layer": "#55616b",
    "layer-tint": "#eef1f4",
    "query": "#b34700",
    "query-tint": "#fde3d0",
    "key": "#005f99",
    "key-tint": "#d6e9f8",
    "value": "#00704f",
    "value-tint": "#d3efe4",
    "gradient": "#9c1f6d",
}
#: The width of all drawings, and the size of all text. On a telephone, 360 pixels wide, the
#: text is 10 pixels high.
WIDTH, TEXT_SIZE = 480, 14
_MARKUP = re.compile(r"([_^])(?:\{([^}]*)\}|(.))|\*([^*]*)\*")
_SHIFTS = {"_": 0.28 * TEXT_SIZE, "^": -0.38 * TEXT_SIZE}
_HEAD = 7.0  # length of an arrow's head


class Rectangle(NamedTuple):
    """A rectangle of a drawing, given by its centre."""

    x: float
    y: float
    width: float
    height: float

    @property
    def left(self) -> Point:
        """The middle of the left side."""
        return self.x - self.width / 2, self.y

    @property
    def right(self) -> Point:
        """The middle of the right side."""
        return self.x + self.width / 2, self.y

    @property
    def top(self) -> Point:
        """The middle of the upper side."""
        return self.x, self.y - self.height / 2

    @property
    def bottom(self) -> Point:
        """The middle of the lower side."""
        return self.x, self.y + self.height / 2


class Drawing:
    """A drawing that a notebook shows as SVG, 480 units wide; y points down.

    Texts may contain subscripts and superscripts, ``h_1``, ``s_{i−1}``, ``W^Q``, and
    variables in italics, ``*x*``. Every part refuses an unknown role with a ValueError.

    Args:
        height: the height; a page shows up to 720 units without scrolling.
        description: what the drawing shows, for those who cannot see it.

    Example:
        >>> drawing = Drawing(60, "An encoder reads x and returns h.")
        >>> encoder = drawing.box(100, 30, 90, 30, "encoder")
        >>> drawing.arrow((20, 30), encoder.left)
        >>> drawing
        Drawing: An encoder reads x and returns h.
    """

    def __init__(self, height: float, description: str):
        self.height, self.description = height, description
        self._elements: list[str] = []

    def __repr__(self) -> str:
        return f"Drawing: {self.description}"

    def _repr_svg_(self) -> str:
        return self.svg()

    def svg(self) -> str:
        """The drawing as an SVG document, without scripts, identifiers or external references."""
        body = "\n".join(self._elements)
        return (
            '<svg xmlns="http://www.w3.org/2000/svg" class="drawing" role="img"'
            f' aria-label="{escape(self.description)}"'
            f' width="{WIDTH}" height="{_number(self.height)}"'
            f' viewBox="0 0 {WIDTH} {_number(self.height)}"'
            f' font-family="system-ui, sans-serif" font-size="{TEXT_SIZE}">\n'
            f'<rect width="100%" height="100%" rx="6" {_paint("paper")}/>\n{body}\n</svg>'
        )

    def box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        text: str = "",
        role: Role = "layer",
    ) -> Rectangle:
        """A rounded box around the centre ``(x, y)``, with its text, of one line or several."""
        box = Rectangle(x, y, width, height)
        self._rectangle(box, _paint(_tint(role), role), rx=5)
        self.text(x, y, text, _text_role(role))
        return box

    def frame(self, left: float, top: float, right: float, bottom: float) -> None:
        """A dashed frame around parts that belong together."""
        x, y = (left + right) / 2, (top + bottom) / 2
        box = Rectangle(x, y, right - left, bottom - top)
        self._rectangle(box, _paint("", "muted") + _dashes(True), rx=8)

    def outline(self, box: Rectangle, role: Role = "query") -> None:
        """A thick edge around what the reader is to follow, such as a row of a matrix."""
        self._rectangle(box, _paint("", role, 2))

    def circle(
        self, x: float, y: float, radius: float, text: str = "", role: Role = "layer"
    ) -> Rectangle:
        """A circle with its text, such as a neuron or an operation."""
        self._add("circle", _paint(_tint(role), role), cx=x, cy=y, r=radius)
        self.text(x, y, text, _text_role(role))
        return Rectangle(x, y, 2 * radius, 2 * radius)

    def dot(self, x: float, y: float, radius: float, role: Role = "ink") -> None:
        """A filled circle, such as a point in a plane."""
        self._add("circle", _paint(role), cx=x, cy=y, r=radius)

    def bar(
        self, x: float, y: float, width: float, height: float, role: Role = "key"
    ) -> None:
        """A filled rectangle around the centre ``(x, y)``, such as a bar of a chart."""
        self._rectangle(Rectangle(x, y, width, height), _paint(role))

    def text(
        self,
        x: float,
        y: float,
        text: str,
        role: Role = "ink",
        anchor: Literal["start", "middle", "end"] = "middle",
        bold: bool = False,
    ) -> None:
        """Text, of one line or several, whose middle is at the height ``y``."""
        lines = text.splitlines()
        step = 1.2 * TEXT_SIZE
        for number, line in enumerate(lines):
            baseline = y + (number - (len(lines) - 1) / 2) * step + 0.35 * TEXT_SIZE
            weight = ' font-weight="bold"' if bold else ""
            self._elements.append(
                f'<text x="{_number(x)}" y="{_number(baseline)}" text-anchor="{anchor}"'
                f"{weight} {_paint(role)}>{_spans(line)}</text>"
            )

    def line(
        self,
        *points: Point,
        role: Role = "ink",
        width: float = 1.5,
        dashed: bool = False,
    ) -> None:
        """A line through two points or more."""
        self._path(
            "M" + " L".join(f"{_number(x)} {_number(y)}" for x, y in points),
            role,
            width,
            dashed,
        )

    def arrow(
        self,
        *points: Point,
        role: Role = "ink",
        width: float = 1.5,
        dashed: bool = False,
    ) -> None:
        """A line through two points or more, with a head at the last."""
        if len(points) < 2 or points[-2] == points[-1]:
            raise ValueError(
                f"an arrow needs two points or more, the last two not the same: {points}"
            )
        (x0, y0), (x, y) = points[-2:]
        length = ((x - x0) ** 2 + (y - y0) ** 2) ** 0.5
        dx, dy = (x - x0) / length, (y - y0) / length
        neck = (x - _HEAD * dx, y - _HEAD * dy)
        self.line(*points[:-1], neck, role=role, width=width, dashed=dashed)
        half = _HEAD / 2 + width / 2
        corners = [
            (x, y),
            (neck[0] - half * dy, neck[1] + half * dx),
            (neck[0] + half * dy, neck[1] - half * dx),
        ]
        self.polygon(corners, role)

    def residual(self, *points: Point) -> None:
        """A residual connection past the layers, thinner than the arrows through them."""
        self.arrow(*points, role="muted", width=1, dashed=True)

    def cross(
        self,
        x: float,
        y: float,
        size: float = 12,
        role: Role = "gradient",
        width: float = 3,
    ) -> None:
        """Two diagonals around a point: no way through, or no connection."""
        half = size / 2
        for rise in (-half, half):
            self.line(
                (x - half, y - rise), (x + half, y + rise), role=role, width=width
            )

    def polygon(self, corners: Iterable[Point], role: Role) -> None:
        """A filled polygon."""
        path = " ".join(f"{_number(x)},{_number(y)}" for x, y in corners)
        self._elements.append(f'<polygon points="{path}" {_paint(role)}/>')

    def arc(
        self,
        start: Point,
        end: Point,
        height: float,
        role: Role = "ink",
        width: float = 1.5,
        dashed: bool = False,
    ) -> None:
        """A curve between two points that rises ``height`` above the middle of their line."""
        (x0, y0), (x1, y1) = start, end
        middle = f"{_number((x0 + x1) / 2)} {_number((y0 + y1) / 2 - 2 * height)}"
        self._path(
            f"M{_number(x0)} {_number(y0)} Q{middle} {_number(x1)} {_number(y1)}",
            role,
            width,
            dashed,
        )

    def flow(
        self,
        start: Point,
        end: Point,
        role: Role = "ink",
        width: float = 1.5,
        horizontal: bool = False,
    ) -> None:
        """A curve between two points, such as an attention weight.

        It leaves and arrives vertically or, where ``horizontal``, horizontally.
        """
        (x0, y0), (x1, y1) = start, end
        x, y = (x0 + x1) / 2, (y0 + y1) / 2
        bends = [(x, y0), (x, y1)] if horizontal else [(x0, y), (x1, y)]
        first, *others = (f"{_number(x)} {_number(y)}" for x, y in (start, *bends, end))
        self._path(f"M{first} C{' '.join(others)}", role, width, dashed=False)

    def curved_arrow(
        self, start: Point, end: Point, role: Role = "ink", width: float = 1.5
    ) -> None:
        """The curve of :meth:`flow` with a head at its end."""
        (x, y), down = end, end[1] > start[1]
        neck = (x, y - 2 * _HEAD if down else y + 2 * _HEAD)
        self.flow(start, neck, role, width)
        self.arrow(neck, end, role=role, width=width)

    def chain(
        self,
        places: Sequence[float],
        y: float,
        size: tuple[float, float],
        texts: Sequence[str],
        role: Role = "layer",
    ) -> list[Rectangle]:
        """Boxes at these ``x``, with an arrow from each to the next, such as hidden states."""
        boxes = [
            self.box(x, y, *size, text, role)
            for x, text in zip(places, texts, strict=True)
        ]
        for box, following in pairwise(boxes):
            if box.x < following.x:
                self.arrow(box.right, following.left)
            else:
                self.arrow(box.left, following.right)
        return boxes

    def compare(self, query: Rectangle, keys: Sequence[Rectangle]) -> None:
        """A line from a query to the right, with a dot above each key it is compared with."""
        self.line(query.right, (keys[-1].x, query.y), role="query")
        for key in keys:
            self.dot(key.x, query.y, 3.5, "query")

    def grid(
        self,
        x: float,
        y: float,
        shades: Sequence[Sequence[float | None]],
        role: Role = "key",
        side: float = 16,
    ) -> Rectangle:
        """A matrix of squares around the centre ``(x, y)``, a shade from 0 to 1 each.

        A square whose shade is ``None`` is crossed out: it is masked.
        """
        lengths = [len(row) for row in shades]
        if len(set(lengths)) != 1 or lengths[0] == 0:
            raise ValueError(
                f"a grid needs rows of one length above 0, not of the lengths {lengths}"
            )
        rows, columns = len(lengths), lengths[0]
        left, top = x - columns * side / 2, y - rows * side / 2
        for row, line in enumerate(shades):
            for column, shade in enumerate(line):
                place = left + column * side, top + row * side
                self._square(*place, side, shade, role)
        return Rectangle(x, y, columns * side, rows * side)

    def _square(
        self, left: float, top: float, side: float, shade: float | None, role: Role
    ) -> None:
        square = {"x": left, "y": top, "width": side, "height": side}
        self._add("rect", _paint("paper", "muted", 0.5), **square)
        if shade is None:
            self.line(
                (left + 3, top + side - 3),
                (left + side - 3, top + 3),
                role="muted",
                width=1,
            )
        elif shade:
            paint = f'{_paint(role)} fill-opacity="{_number(shade)}"'
            self._add("rect", paint, **square)

    def _path(self, path: str, role: Role, width: float, dashed: bool) -> None:
        self._elements.append(
            f'<path d="{path}" {_paint("", role, width)}{_dashes(dashed)}/>'
        )

    def _rectangle(self, box: Rectangle, paint: str, **numbers: float) -> None:
        (x, _), (_, y) = box.left, box.top
        size = {"width": box.width, "height": box.height}
        self._add("rect", paint, x=x, y=y, **size, **numbers)

    def _add(self, tag: str, paint: str, **numbers: float) -> None:
        places = " ".join(f'{name}="{_number(x)}"' for name, x in numbers.items())
        self._elements.append(f"<{tag} {places} {paint}/>")


def _number(value: float) -> str:
    """A number with at most two decimals, so that the same drawing is always the same text."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def masked(
    shades: Sequence[Sequence[float]], mask: Sequence[Sequence[bool]]
) -> list[list[float | None]]:
    """The shades of a grid where the mask allows attention; ``None`` elsewhere."""
    return [
        [shade if allowed else None for shade, allowed in zip(*rows, strict=True)]
        for rows in zip(shades, mask, strict=True)
    ]


def _text_role(role: Role) -> Role:
    """The role of the text in a shape: only what attention distinguishes has coloured text."""
    return "ink" if role in ("ink", "muted", "layer") else role


def _tint(role: Role) -> str:
    return f"{role}-tint" if f"{role}-tint" in COLOURS else "paper"


def _paint(fill: str = "", stroke: str = "", width: float = 1.5) -> str:
    """The attributes of a shape: its colours, and the classes by which a page changes them."""
    classes = " ".join(
        f"{kind}-{colour}"
        for kind, colour in (("fill", fill), ("stroke", stroke))
        if colour
    )
    attributes = f'class="{classes}" fill="{_colour(fill) if fill else "none"}"'
    if stroke:
        attributes += f' stroke="{_colour(stroke)}" stroke-width="{_number(width)}"'
    return attributes


def _colour(name: str) -> str:
    if name not in COLOURS:
        raise ValueError(f"role must be one of {get_args(Role)}, not {name!r}")
    return COLOURS[name]


def _dashes(dashed: bool) -> str:
    return ' stroke-dasharray="4 4"' if dashed else ""


def _spans(line: str) -> str:
    """A line of text with its subscripts, superscripts and italics as SVG."""
    spans, height = "", 0.0
    for text, shift, attributes in _runs(line):
        if shift != height:
            attributes += f' dy="{_number(shift - height)}"'
        spans += (
            f"<tspan{attributes}>{escape(text)}</tspan>" if attributes else escape(text)
        )
        height = shift
    return spans


def _runs(line: str) -> Iterator[tuple[str, float, str]]:
    """The runs of a line: each a text, its distance below the line, and its attributes."""
    end = 0
    for found in _MARKUP.finditer(line):
        if found.start() > end:
            yield line[end : found.start()], 0.0, ""
        sign, braced, single, italic = found.groups()
        if sign:
            yield (
                braced or single,
                _SHIFTS[sign],
                f' font-size="{_number(0.75 * TEXT_SIZE)}"',
            )
        else:
            yield italic, 0.0, ' font-style="italic"'
        end = found.end()
    if end < len(line):
        yield line[end:], 0.0, ""
