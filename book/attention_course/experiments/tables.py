"""Tables of recorded runs in Markdown and their chart, published figures beside ours; how to repeat each run.

The page *Results* has them. The first row of a table is its head.
"""

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from html import escape
from typing import Any, NamedTuple

from attention_course.diagrams.bleu import bleu_chart

#: The number of training examples of each experiment.
EXAMPLES = {"multi30k": 29_000, "imdb": 22_500}
SEARCHES = ("greedy", "beam")
NONE = "–"  # in place of a published figure

Run = dict[str, Any]
Cells = Iterable[str]


class Row(NamedTuple):
    """A model, what is published of it, and our runs, one for each random seed."""

    name: str
    published: tuple[str, ...]
    runs: tuple[Run, ...]

    @property
    def title(self) -> str:
        """The name, with the number of seeds if there are several."""
        seeds = len(self.runs)
        return f"{self.name} ({seeds}\u00a0seeds)" if seeds > 1 else self.name

    def bleu(self, search: str) -> list[float]:
        """The BLEU of each seed by a search."""
        return [run["test"][search]["bleu"] for run in self.runs]


def results(rows: Sequence[Row]) -> Iterator[Cells]:
    """BLEU, size and cost of translation models."""
    yield (
        *("model", "BLEU, published", "ours, greedy", f"ours, {beam(rows)}"),
        *("parameters, millions", "epochs", "training, CPU minutes", "perplexity"),
    )
    for row in rows:
        first = row.runs[0]
        yield (
            row.title,
            row.published[0],
            *(measured(row.bleu(search), 1) for search in SEARCHES),
            f"{first['parameters'] / 1e6:.1f}",
            epochs_of(first, first["arguments"]["steps"]),
            measured([run["seconds"]["cpu"] / 60 for run in row.runs], 0),
            measured([run["test"]["perplexity"] for run in row.runs], 2),
        )


def perplexities(rows: Sequence[Row]) -> Iterator[Cells]:
    """The perplexities of translation models, free-running and with teacher forcing."""
    kinds = ("free-running", "teacher forcing")
    yield (
        "model",
        *(cell for kind in kinds for cell in (f"{kind}, published", "ours")),
    )
    for row in rows:
        tests = [run["test"] for run in row.runs]
        free, forced = [test["free_running"] for test in tests], tests
        ours = (
            measured([test["perplexity"] for test in kind], digits)
            for kind, digits in ((free, 1), (forced, 2))
        )
        pairs = zip(row.published, ours, strict=True)
        yield (row.name, *(cell for pair in pairs for cell in pair))


def trials(rows: Sequence[Row]) -> Iterator[Cells]:
    """The validation loss after each epoch, the lowest in bold, and BLEU."""
    losses = [[one["held_out_loss"] for one in row.runs[0]["history"]] for row in rows]
    lowest = min(map(min, losses))
    first = rows[0].runs[0]
    steps = [f"epoch {epochs_of(first, one['step'])}" for one in first["history"]]
    yield ("options", *steps, "BLEU, greedy", f"BLEU, {beam(rows)}")
    for row, own in zip(rows, losses, strict=True):
        yield (
            row.name,
            *in_bold([f"{loss:.3f}" for loss in own], [loss == lowest for loss in own]),
            *(measured(row.bleu(search), 1) for search in SEARCHES),
        )


def epochs(rows: Sequence[Row]) -> Iterator[Cells]:
    """A row an epoch, and for each classifier two columns, published and measured; the test is last."""
    columns = []
    for row in rows:
        published = row.published[0].split()
        best = [cell == max(published) for cell in published]
        columns += [
            [f"{row.name}, published", *in_bold(published, best), NONE],
            ["ours, validation", *accuracies(row.runs[0])],
        ]
    numbers = map(str, range(1, len(columns[0]) - 1))
    yield from zip(["epoch", *numbers, "ours, test"], *columns, strict=True)


def classifiers(rows: Sequence[Row]) -> Iterator[Cells]:
    """A row a classifier, with a column for each epoch."""
    length = len(rows[0].runs[0]["history"])
    numbers = (f"epoch {number}, validation" for number in range(1, length + 1))
    yield ("model", *numbers, "test", "parameters")
    for row in rows:
        yield (row.name, *accuracies(row.runs[0]), f"{row.runs[0]['parameters']:,}")


#: The tables by their names.
TABLES: dict[str, Callable[[Sequence[Row]], Iterator[Cells]]] = {
    table.__name__: table
    for table in (results, perplexities, trials, epochs, classifiers)
}


def chart(rows: Sequence[Row]) -> str:
    """The BLEU of each row as a figure in HTML."""
    models = {
        row.name: {
            "published": published(row),
            "ours, greedy": row.bleu("greedy"),
            f"ours, {beam(rows)}": row.bleu("beam"),
        }
        for row in rows
    }
    said = f"A chart of BLEU. {finding(rows)} The table has the figures."
    caption = (
        f"BLEU on the test set, higher is better. {finding(rows)} A line through a dot is one"
        " standard deviation over random seeds to each side."
    )
    return (
        f"<figure>{bleu_chart(models, said).svg()}"
        f"<figcaption><p>{escape(caption)}</p></figcaption></figure>"
    )


def finding(rows: Sequence[Row]) -> str:
    """How many models of ours are above what is published, by greedy search on both sides."""
    above = {
        row.name: statistics.mean(row.bleu("greedy")) > score
        for row in rows
        for score in published(row)
    }
    below = [name for name in above if not above[name]]
    exceptions = f" (not for {listed(below)})" if below else ""
    return (
        f"By greedy search, ours is above the published figure for {sum(above.values())} of"
        f" {len(above)} models{exceptions}."
    )


def published(row: Row) -> list[float]:
    """The published BLEU, if there is one."""
    return [float(cell) for cell in row.published if cell != NONE]


def beam(rows: Sequence[Row]) -> str:
    """The beam search of the runs, with its width."""
    widths = {run["arguments"]["beam"] for row in rows for run in row.runs}
    return f"beam {' or '.join(map(str, sorted(widths)))}"


def accuracies(run: Run) -> list[str]:
    """Our accuracy after each epoch, with the selected ones in bold, and on the test set."""
    shown = [f"{record['accuracy']:.4f}" for record in run["history"]]
    chosen = [record["step"] in run["selected"]["steps"] for record in run["history"]]
    return [*in_bold(shown, chosen), f"{run['test']['accuracy']:.4f}"]


def in_bold(cells: Cells, chosen: Iterable[bool]) -> list[str]:
    """The cells, those that are chosen in bold."""
    pairs = zip(cells, chosen, strict=True)
    return [f"**{cell}**" if bold else cell for cell, bold in pairs]


def measured(figures: Sequence[float | None], digits: int) -> str:
    """A figure of one run, or the mean of several with their sample standard deviation.

    A figure that is missing was infinite.
    """
    finite = [figure for figure in figures if figure is not None]
    if len(finite) < len(figures):
        return "∞"
    mean = f"{statistics.mean(finite):.{digits}f}"
    if len(finite) == 1:
        return mean
    return f"{mean}\u00a0±\u00a0{statistics.stdev(finite):.{digits}f}"


def epochs_of(run: Run, step: int) -> str:
    """The number of epochs that a run had trained for after a step."""
    batches = math.ceil(EXAMPLES[run["experiment"]] / run["arguments"]["batch_size"])
    return f"{step / batches:.1f}".removesuffix(".0")


def provenance(row: Row) -> list[str]:
    """The folded lines that say how to repeat the runs of a row, and on what hardware they were made."""

    def each(name: str, say: Callable[[Run], str]) -> str:
        return f"- {name}: {' / '.join(dict.fromkeys(map(say, row.runs)))}."

    def selected(run: Run) -> str:
        numbers = [epochs_of(run, step) for step in run["selected"]["steps"]]
        mean = ", their mean" if len(numbers) > 1 else ""
        loss = run["selected"]["held_out_loss"]
        return f"epoch {listed(numbers)}{mean} (loss {loss:.3f})"

    def hardware(run: Run) -> str:
        found = run["hardware"]
        processor = found["gpu"] or f"{found['machine']} processor"
        return (
            f"{processor}; threads: {found['threads']}; processes: {found['processes']}"
        )

    def listing(part: str, form: str) -> Callable[[Run], str]:
        return lambda run: ", ".join(
            form.format(*one) for one in run[part].items() if one[1] is not None
        )

    lines = [
        each("Arguments, with the defaults", listing("arguments", "{} {}")),
        each("Selected by the loss on the validation set", selected),
        each("Minutes on the clock", lambda run: f"{run['seconds']['wall'] / 60:.0f}"),
        each("Hardware", hardware),
        each("Versions", listing("versions", "{} {}")),
        each("Data, by the first digits of SHA-256", listing("data", "`{}` {:.8}")),
    ]
    if "greedy" in row.runs[0]["test"]:
        lines.append(
            each("BLEU by", lambda run: f"`{run['test']['greedy']['signature']}`")
        )
    commands = [run["command"] for run in row.runs]
    summary = f"<details><summary>{escape(row.title)}</summary>"
    return [summary, "", "```bash", *commands, "```", "", *lines, "", "</details>", ""]


def listed(words: Sequence[str]) -> str:
    """Words with commas, and "and" before the last."""
    first, last = words[:-1], words[-1]
    return f"{', '.join(first)} and {last}" if first else last
