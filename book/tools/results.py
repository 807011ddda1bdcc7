"""A Sphinx extension: the directive ``results``, a table of what is published beside what we measured.

On a page, one line a model, with the published perplexity, BLEU and number of parameters::

    ```{results} multi30k
    gru | GRU | 37.46 | 20.61 | 14,219,781
    ```

All other figures are read, when the book is built, from ``results/multi30k/gru.json`` beside the page, a
``result.json`` as its experiment wrote it. The build fails if it is missing, damaged or another model's.
"""

from pathlib import Path
from typing import Any, NamedTuple

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective

from companion.experiments.record import read_result


class Row(NamedTuple):
    """A model, what is published of it, and what a run of ours wrote."""

    name: str
    perplexity: str
    bleu: str
    parameters: str
    result: dict[str, Any]


class Results(SphinxDirective):
    """A table, published against measured, and below it what each run needs to be made again."""

    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        """Write the table and the runs in Markdown, and let the page's own parser read them."""
        try:
            rows = [self.read(line) for line in self.content if line.strip()]
            lines = [*table(rows), *(line for row in rows for line in provenance(row))]
        except (OSError, ValueError) as error:
            raise self.error(str(error)) from error
        container = nodes.container(classes=["results"])
        self.state.nested_parse(StringList(lines, source=self.get_location()), 0, container)
        return [container]

    def read(self, line: str) -> Row:
        """One line of the directive, and the file that it names."""
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) != 5:
            raise ValueError(
                f"a row has five cells, file | model | perplexity | BLEU | parameters, not {line!r}"
            )
        experiment, model = self.arguments[0], cells[0]
        _, path = self.env.relfn2path(f"results/{experiment}/{model}.json")
        self.env.note_dependency(path)
        return Row(*cells[1:], read_run(Path(path), experiment, model))


def read_run(path: Path, experiment: str, model: str) -> dict[str, Any]:
    """The run that a file holds.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is damaged, of another version, or the run of another experiment or model.
    """
    result = read_result(path)
    if (result["experiment"], result["model"]) != (experiment, model):
        raise ValueError(f"{path} holds a run of {result['experiment']}, {result['model']}")
    try:
        row = Row(model, "", "", "", result)
        table([row]), provenance(row)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is damaged: {type(error).__name__} {error}") from error
    return result


def table(rows: list[Row]) -> list[str]:
    """The lines of the table, published and measured side by side."""
    lines = [header(rows), ("---",) + ("---:",) * 8]
    for row in rows:
        free_running, perplexity, greedy, beam, parameters = measured(row.result)
        perplexities = row.perplexity, free_running, perplexity
        lines.append((row.name, row.bleu, greedy, beam, *perplexities, row.parameters, parameters))
    return [f"| {' | '.join(cells)} |" for cells in lines]


def header(rows: list[Row]) -> tuple[str, ...]:
    """The names of the columns, with the width of the beam."""
    widths = sorted({row.result["arguments"]["beam"] for row in rows})
    return (
        "model",
        "BLEU, published",
        "ours, greedy",
        f"ours, beam {' or '.join(map(str, widths))}",
        "perplexity, own words, published",
        "ours, own words",
        "ours, right words",
        "parameters, published",
        "ours",
    )


def measured(result: dict[str, Any]) -> tuple[str, str, str, str, str]:
    """Both perplexities, BLEU of greedy and of beam search, and the parameters, as the table prints them."""
    test = result["test"]
    perplexities = (test["free_running"]["perplexity"], test["perplexity"])
    free_running, forced = ("∞" if figure is None else f"{figure:.2f}" for figure in perplexities)
    greedy, beam = (f"{test[search]['bleu']:.2f}" for search in ("greedy", "beam"))
    return free_running, forced, greedy, beam, f"{result['parameters']:,}"


def provenance(row: Row) -> list[str]:
    """The lines under the table that say how to make a run again, and on what it was made."""
    result, hardware = row.result, row.result["hardware"]
    options = {name: value for name, value in result["arguments"].items() if name != "model"}
    written = (f"--{name.replace('_', '-')} {value}" for name, value in options.items() if value is not None)
    signatures = {result["test"][search]["signature"]: None for search in ("greedy", "beam")}
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
        f"- sacreBLEU's signature: {', '.join(f'`{signature}`' for signature in signatures)}.",
        f"- Data, by the beginning of each file's SHA-256: {checksums(result['data'])}.",
        "",
    ]


def checksums(data: dict[str, str]) -> str:
    """The files and the first digits of their checksums."""
    return ", ".join(f"`{name}` {checksum[:8]}" for name, checksum in data.items())


def setup(app: Any) -> dict[str, bool]:
    """Give the build the directive."""
    app.add_directive("results", Results)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
