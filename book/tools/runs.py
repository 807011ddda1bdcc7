"""What the tables of results have in common: runs as experiments wrote them, and how to make them again.

The build fails, and names the file, if one is missing, damaged or another model's.
"""

from abc import abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective

from companion.experiments.record import read_result


class Row(NamedTuple):
    """A model, what is published of it, and what a run of ours wrote."""

    name: str
    published: tuple[str, ...]
    result: dict[str, Any]


class Runs(SphinxDirective):
    """A table, published against measured, and below it what each run needs to be made again.

    Its argument is an experiment; each line of its content has the ``columns``, with ``|`` between them: the
    file's name without ``.json``, the model's name, and what is published.
    """

    required_arguments = 1
    has_content = True
    columns: tuple[str, ...]

    @abstractmethod
    def table(self, rows: list[Row]) -> list[tuple[str, ...]]:
        """The cells of the table, its head first."""

    def remarks(self, row: Row) -> list[str]:
        """What else there is to say about how a run was made."""
        return []

    def run(self) -> list[nodes.Node]:
        """Write the table and the runs in Markdown, and let the page's own parser read them."""
        try:
            rows = [self.read(line) for line in self.content if line.strip()]
            lines = self.lines(rows)
        except (OSError, ValueError) as error:
            raise self.error(str(error)) from error
        container = nodes.container(classes=["results"])
        self.state.nested_parse(
            StringList(lines, source=self.get_location()), 0, container
        )
        return [container]

    def read(self, line: str) -> Row:
        """One line of the directive, and the file that it names."""
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) != len(self.columns):
            raise ValueError(
                f"a row has {len(self.columns)} cells, {' | '.join(self.columns)}, not {line!r}"
            )
        experiment, model = self.arguments[0], cells[0]
        _, path = self.env.relfn2path(f"results/{experiment}/{model}.json")
        self.env.note_dependency(path)
        row = Row(cells[1], tuple(cells[2:]), read_run(Path(path), experiment, model))
        try:
            self.lines([row])
        except (KeyError, TypeError) as error:
            raise ValueError(
                f"{path} is damaged: {type(error).__name__} {error}"
            ) from error
        return row

    def lines(self, rows: list[Row]) -> list[str]:
        """The whole in Markdown."""
        head, *body = self.table(rows)
        cells = [head, ("---",) + ("---:",) * (len(head) - 1), *body]
        below = (line for row in rows for line in provenance(row, self.remarks(row)))
        return [*(f"| {' | '.join(row)} |" for row in cells), *below]


def read_run(path: Path, experiment: str, model: str) -> dict[str, Any]:
    """The run that a file holds.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is damaged, of another version, or the run of another experiment or model.
    """
    result = read_result(path)
    if (result["experiment"], result["model"]) != (experiment, model):
        raise ValueError(
            f"{path} holds a run of {result['experiment']}, {result['model']}"
        )
    return result


def provenance(row: Row, remarks: Iterable[str]) -> list[str]:
    """The lines under the table that say how to make a run again, and on what it was made."""
    result, hardware = row.result, row.result["hardware"]
    options = {
        name: value for name, value in result["arguments"].items() if name != "model"
    }
    written = (
        f"--{name.replace('_', '-')} {value}"
        for name, value in options.items()
        if value is not None
    )
    processor = hardware["gpu"] or f"{hardware['machine']} processor"
    return [
        "",
        f"**{row.name}**",
        "",
        "```bash",
        result["command"],
        "```",
        "",
        f"- Seed {options['seed']}. With every default written out: `{' '.join(written)}`.",
        f"- Hardware: {processor}; threads: {hardware['threads']}; processes: {hardware['processes']}.",
        f"- Versions: {', '.join(f'{name} {version}' for name, version in result['versions'].items())}.",
        *(f"- {remark}" for remark in remarks),
        f"- Data, by the beginning of each file's SHA-256: {checksums(result['data'])}.",
        "",
    ]


def checksums(data: dict[str, str]) -> str:
    """The files and the first digits of their checksums."""
    return ", ".join(f"`{name}` {checksum[:8]}" for name, checksum in data.items())
