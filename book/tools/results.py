"""Sphinx extension: directives for the tables of results, published figures beside ours.

The argument is an experiment. Each line of the content is a row: the file of our run, a name, and what is
published. A line may name several files, of runs that differ in their random seeds only::

    ```{results} multi30k
    gru | GRU | 20.61
    bahdanau bahdanau-1 bahdanau-2 | GRU, Bahdanau | 28.30
    ```

A directive has the name of its table in `attention_course.experiments.tables`, and ``results`` a chart.
What is not published is read from the recorded runs. ``results_folder`` sets another folder for them.
"""

from pathlib import Path

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from attention_course.experiments.record import read_result
from attention_course.experiments.recorded import FOLDER
from attention_course.experiments.tables import TABLES, Row, chart, provenance


class Table(SphinxDirective):
    """A table of published and measured figures, and folded below it what is needed to repeat each run."""

    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        """Write everything in Markdown, which the parser of the page reads.

        Raises:
            SphinxError: a file is missing or damaged, or has not what the table needs; with its row.
        """
        container = nodes.container(classes=["results"])
        try:
            rows = list(map(self.row, self.content))
            if self.name == "results":
                container += nodes.raw("", chart(rows), format="html")
            head, *body = (
                f"| {' | '.join(cells)} |" for cells in TABLES[self.name](rows)
            )
        except (OSError, LookupError, ValueError) as error:
            raise self.error(
                f"{self.block_text}: {type(error).__name__}: {error}"
            ) from error
        lines = [head, f"|---|{'---:|' * (head.count('|') - 2)}", *body, ""]
        if self.name == "results":
            lines += ["Figures of several seeds are their mean ± their sample"]
            lines[-1] += " standard deviation."
        if self.name != "perplexities":  # of the same runs as the results
            lines += ["", "How to repeat each run, and what it ran on:", ""]
            lines += [line for row in rows for line in provenance(row)]
        text = StringList(lines, source=self.get_location())
        self.state.nested_parse(text, 0, container)
        return [container]

    def row(self, line: str) -> Row:
        """One line of the directive, and the runs that it names."""
        files, name, *published = (cell.strip() for cell in line.split("|"))
        folder = Path(self.config.results_folder, self.arguments[0])
        paths = [folder / f"{file}.json" for file in files.split()]
        for path in paths:
            self.env.note_dependency(str(path))
        return Row(name, tuple(published), tuple(map(read_result, paths)))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directives."""
    app.add_config_value("results_folder", str(FOLDER), "env")
    for name in TABLES:
        app.add_directive(name, Table)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
