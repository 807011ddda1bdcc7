"""Sphinx extension: a directive for the tables of compatibility, made of the lists that the tests compare.

The argument names a table: ``columns``, ``mechanisms``, ``models`` or ``refusals``.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib import import_module
from string import ascii_lowercase
from types import ModuleType

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from torch import nn

from companion import attention, models

PUBLIC = {*attention.__all__, *models.__all__, "TorchMultiheadAttention"}
Rows = Iterator[Iterable[str]]


def columns(tests: ModuleType) -> Rows:
    """What each column says."""
    yield "column", "what works"
    for name, trial in tests.COLUMNS.items():
        yield f"**{name}**", " ".join(trial.__doc__.replace("``", "`").split())


def subjects(kind: str, tests: ModuleType) -> Rows:
    """Name and classes of each, and a check mark where something works, or the letter of its refusal."""
    yield "name", "classes", *tests.COLUMNS
    for name, subject in getattr(
        import_module("tests.contracts.subjects"), kind
    ).items():
        refused = (tests.refusal(column, name) for column in tests.COLUMNS)
        cells = (letter(tests.REFUSALS.index(x)) if x else "✓" for x in refused)
        title = name.removesuffix(" model").replace("_", " ")
        yield title, classes(subject.build()), *cells


def classes(module: nn.Module) -> str:
    """The public classes that a module is built of."""
    names = dict.fromkeys(type(part).__name__ for part in module.modules())
    return ", ".join(f"`{name}`" for name in names if name in PUBLIC)


def refusals(tests: ModuleType) -> Rows:
    """The words of each error, and what to do instead."""
    yield "mark", "columns", "error", "why, and what to do"
    for number, refusal in enumerate(tests.REFUSALS):
        names = "; ".join(refusal.columns)
        yield letter(number), names, f"*{refusal.error}*", refusal.reason


def letter(number: int) -> str:
    """The mark of a refusal, by its number."""
    return f"({ascii_lowercase[number]})"


TABLES: dict[str, Callable[[ModuleType], Rows]] = {
    "columns": columns,
    "mechanisms": partial(subjects, "ATTENTIONS"),
    "models": partial(subjects, "NETWORKS"),
    "refusals": refusals,
}


class Compatibility(SphinxDirective):
    """A table written in Markdown, which the parser of the page reads."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """The table that the argument names."""
        tests = import_module("tests.contracts.compatibility")
        self.env.note_dependency(str(tests.__file__))
        head, *body = (
            f"| {' | '.join(cells)} |" for cells in TABLES[self.arguments[0]](tests)
        )
        lines = [head, "|" + "---|" * (head.count("|") - 1), *body]
        container = nodes.container(classes=["compatibility", self.arguments[0]])
        text = StringList(lines, source=self.get_location())
        self.state.nested_parse(text, 0, container)
        return [container]


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the directive, and the tests to the path."""
    sys.path.insert(0, str(app.srcdir))
    app.add_directive("compatibility", Compatibility)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
