"""Drawings of chapter 13: a state that is a matrix, what is written into it, and selection."""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from attention_course.diagrams.drawing import Drawing, Role

_PEOPLE, _CITIES = "AB", "ROL"  # Anna, Ben; Rome, Oslo, Lima
#: Who, and where: the three statements of the opening.
_STATEMENTS = ((0, 0), (1, 1), (0, 2))
_DECAY = 0.5


def states(memory: str) -> list[Tensor]:
    """The matrix after each statement: a row for each person, a column for each city.

    Args:
        memory: what is done with the earlier matrix, "add", "forget" or "replace".

    Example:
        >>> states("replace")[-1].tolist()
        [[0.0, 0.0, 1.0], [0.0, 1.0, 0.0]]
    """
    S, found = torch.zeros(2, 3), []
    for person, city in _STATEMENTS:
        key, value = torch.eye(2)[person], torch.eye(3)[city]
        if memory == "forget":
            S = _DECAY * S
        if memory == "replace":
            value = value - key @ S
        S = S + key[:, None] * value
        found.append(S)
    return found


def overwriting() -> Drawing:
    """Three memories of two people's places, of which one is stated twice."""
    drawing = Drawing(
        352,
        "Three statements, Anna is in Rome, Ben is in Oslo, Anna moves to Lima, are"
        " written into three matrices with rows A and B and columns R, O and L. Where"
        " everything is added, row A ends with 1 for Rome and 1 for Lima. Where half is"
        " forgotten at each step, it ends with a quarter for Rome and 1 for Lima, and"
        " Ben's row with a half. Where the new value replaces the old one, it ends with"
        " Lima alone.",
    )
    places = (128, 236, 344)
    for x, line in zip(
        places,
        ("Anna is\nin Rome.", "Ben is\nin Oslo.", "Anna moves\nto Lima."),
        strict=True,
    ):
        drawing.text(x, 24, line)
    rows = (
        (100, "add", "Rome,\nLima"),
        (194, "forget\nhalf", "mainly\nLima"),
        (288, "replace", "Lima"),
    )
    for y, name, answer in rows:
        drawing.text(8, y, name, "value", anchor="start", bold=True)
        _states(drawing, places, y, states(name.split()[0]))
        drawing.text(436, y - 12, answer, "query", bold=True)
    drawing.text(436, 24, "Where is\nAnna?", "query")
    return drawing


def _states(
    drawing: Drawing, places: Sequence[float], y: float, found: Sequence[Tensor]
) -> None:
    """Matrices from left to right, with the names of their rows and columns."""
    side = 24
    grids = [
        drawing.grid(x, y, (0.75 * S).tolist(), "value", side)
        for x, S in zip(places, found, strict=True)
    ]
    for grid, S in zip(grids, found, strict=True):
        left, top = grid.x - grid.width / 2, grid.y - grid.height / 2
        for row, person in enumerate(_PEOPLE):
            drawing.text(left - 11, top + (row + 0.5) * side, person, "key")
        for column, city in enumerate(_CITIES):
            x = left + (column + 0.5) * side
            drawing.text(x, top - 11, city, "value")
            for row in range(len(_PEOPLE)):
                amount = S[row, column].item()
                if amount:
                    name = {0.25: "¼", 0.5: "½", 1.0: "1"}[amount]
                    drawing.text(x, top + (row + 0.5) * side, name)
    for grid, following in pairwise(grids):
        drawing.arrow(grid.right, (following.x - following.width / 2 - 20, y))
    last = grids[-1]
    drawing.arrow((last.right[0], y - side / 2), (402, y - side / 2), role="query")


def recurrence() -> Drawing:
    """Linear attention as a recurrent network whose state is a matrix.

    Source: Katharopoulos et al. 2020, section 3.4; equation (13.2) of the chapter.
    """
    drawing = Drawing(
        300,
        "A chain of matrices S from left to right. At each position the product of the"
        " key's features and the value is added to the matrix, and the query's features"
        " multiply it from the left to give the context. The size of the matrix does not"
        " change.",
    )
    shades = torch.rand(4, 4, 4, generator=torch.Generator().manual_seed(2))
    sums = shades.cumsum(0) / torch.arange(1, 5)[:, None, None]
    x = [62, 180, 298, 416]
    grids = [
        drawing.grid(place, 150, state.tolist(), "value", side=15)
        for place, state in zip(x, sums, strict=True)
    ]
    for grid, following in pairwise(grids):
        drawing.arrow(grid.right, following.left)
        drawing.text((grid.x + following.x) / 2, 138, "+", bold=True)
    for number, grid in enumerate(grids, start=1):
        drawing.text(grid.x, 104, f"*S*_{number}", "value")
        box = drawing.box(grid.x, 240, 86, 30, f"φ(*k*_{number}) *v*_{number}^⊤", "key")
        drawing.arrow(box.top, grid.bottom, role="key")
        context = drawing.box(grid.x, 36, 44, 28, f"*c*_{number}", "value")
        drawing.arrow((grid.x, 92), context.bottom, role="query")
        drawing.text(grid.x + 8, 71, f"φ(*q*_{number})", "query", anchor="start")
    drawing.text(240, 284, "one matrix, however long the text", "muted")
    return drawing


_BLOCK, _BLOCKS, _WINDOW, _CHOSEN = 4, 6, 5, (1, 3)


def selection() -> Drawing:
    """What one query of learned sparse attention reads: block means, two blocks, a window.

    Source: Yuan et al. 2025, figure 2.
    """
    drawing = Drawing(
        232,
        "24 positions in six blocks of four, the query at the last. In the first row each"
        " block is one square, its compressed key, and all six are compared with the"
        " query. In the second row the two blocks with the highest scores, the second and"
        " the fourth, are read token by token. In the third row the last five tokens are"
        " the window. In sum 6 compressed keys and 13 tokens are read, of 24.",
    )
    side, left = 14, 132
    n = _BLOCK * _BLOCKS
    amounts = (0.15, 0.7, 0.2, 0.85, 0.1, 0.3)
    for y, name in ((50, "compressed"), (110, "selected"), (170, "window")):
        drawing.text(8, y, name, "key", anchor="start", bold=True)
    for block, amount in enumerate(amounts):
        x = left + (block + 0.5) * _BLOCK * side
        drawing.bar(x, 68 - 20 * amount, 12, 40 * amount, "query")
        drawing.line(
            (x - 2 * side + 2, 70), (x + 2 * side - 2, 70), role="key", width=3
        )
    chosen = [float(i // _BLOCK in _CHOSEN) for i in range(n)]
    near = [float(i >= n - _WINDOW) for i in range(n)]
    for y, line in ((110, chosen), (170, near)):
        drawing.grid(
            left + n * side / 2, y, [[0.7 * shade for shade in line]], "key", side
        )
    for block in _CHOSEN:
        x = left + (block + 0.5) * _BLOCK * side
        drawing.arrow((x, 76), (x, 101), role="query")
    drawing.text(left + n * side / 2, 18, "score of each block's mean key", "query")
    drawing.text(
        240, 212, f"{_BLOCKS} compressed keys and 13 tokens are read, of {n}", "muted"
    )
    return drawing


#: The attention of the layers of some models, a pattern that repeats: "S" a state of fixed
#: size, "F" a cache that is read as a whole, "T" a cache of which some tokens are selected.
PATTERNS = {
    "MiniMax-Text-01": "SSSSSSSF",
    "Qwen3-Next": "SSSF",
    "Kimi Linear": "SSSF",
    "MiniMax-M2": "F",
    "DeepSeek-V3.2": "T",
}


def hybrids() -> Drawing:
    """The first eight layers of some models, by what they keep and read."""
    drawing = Drawing(
        218,
        "The first eight layers of five models, from left to right. MiniMax-Text-01 has"
        " seven with a state and then one with softmax over the whole cache. Qwen3-Next"
        " and Kimi Linear have three with a state and then one with softmax, twice."
        " MiniMax-M2 has softmax in all. DeepSeek-V3.2 selects in all.",
    )
    looks: dict[str, tuple[str, Role]] = {
        "S": ("S", "value"),
        "F": ("", "query"),
        "T": ("top", "key"),
    }
    for row, (name, pattern) in enumerate(PATTERNS.items()):
        y = 22 + 34 * row
        drawing.text(8, y, name, anchor="start")
        for layer in range(8):
            text, role = looks[pattern[layer % len(pattern)]]
            drawing.box(166 + 40 * layer, y, 34, 24, text or "all", role)
    y = 200
    for x, text, role in (
        (8, "S: state of fixed size", "value"),
        (196, "all: whole cache", "query"),
        (340, "top: chosen part", "key"),
    ):
        drawing.text(x, y, text, role, anchor="start")
    return drawing
