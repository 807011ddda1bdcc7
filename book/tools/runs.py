"""The base class of the directives in ``results``: reads the files of runs, and says how to repeat them.

If a file is missing, damaged, a trial on less data, or of another model, the build fails and names it.
"""

import html
import math
import statistics
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective

from attention_course.experiments.record import read_result
from attention_course.training.checkpoint import first_difference

#: The number of training examples of each experiment, and the argument that limits it for a trial.
DATA = {"multi30k": (29_000, "sentences"), "imdb": (22_500, "reviews")}


class Row(NamedTuple):
    """A model, what is published of it, and what our runs wrote, one for each random seed."""

    name: str
    published: tuple[str, ...]
    results: tuple[dict[str, Any], ...]

    @property
    def title(self) -> str:
        """The name, with the number of seeds if there are several."""
        seeds = len(self.results)
        return f"{self.name} ({seeds}\u00a0seeds)" if seeds > 1 else self.name


class Runs(SphinxDirective):
    """A table of published and measured figures, and folded below it what is needed to repeat each run.

    Its argument is an experiment; each line of its content has the ``columns``, with ``|`` between them: the
    file's name without ``.json``, the model's name, and what is published. If ``several_seeds``, the first
    cell may name more files, with runs of the same model and arguments, but other seeds.
    """

    required_arguments = 1
    has_content = True
    columns: tuple[str, ...]
    several_seeds = False

    @abstractmethod
    def table(self, rows: list[Row]) -> list[tuple[str, ...]]:
        """The cells of the table, its head first."""

    def check(self, result: dict[str, Any]) -> None:
        """Refuse a result that lacks what this table needs.

        Raises:
            ValueError: with what it lacks.
        """

    def above(self, rows: list[Row]) -> list[str]:
        """The Markdown over the table."""
        return []

    def below(self, rows: list[Row]) -> list[str]:
        """The Markdown under the table, folded row by row."""
        runs = (line for row in rows for line in self.provenance(row))
        return ["How to repeat each run, and what it ran on:", "", *runs]

    def provenance(self, row: Row) -> list[str]:
        """What is needed to repeat the runs of a row."""
        return provenance(row)

    def run(self) -> list[nodes.Node]:
        """Write everything in Markdown, which the parser of the page reads."""
        try:
            rows = [self.read(line) for line in self.content if line.strip()]
            if not rows:
                raise ValueError("the table has no row")
            lines = self.lines(rows)
        except (OSError, ValueError) as error:
            raise self.error(str(error)) from error
        container = nodes.container(classes=["results"])
        self.state.nested_parse(
            StringList(lines, source=self.get_location()), 0, container
        )
        return [container]

    def read(self, line: str) -> Row:
        """One line of the directive, and the files that it names."""
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) != len(self.columns):
            raise ValueError(
                f"a row has {len(self.columns)} cells, {' | '.join(self.columns)}, not {line!r}"
            )
        files, name, published = cells[0].split(), cells[1], tuple(cells[2:])
        if len(files) != 1 and not (files and self.several_seeds):
            wanted = "one file or several" if self.several_seeds else "one file"
            raise ValueError(f"a row of {self.name} names {wanted}, not {cells[0]!r}")
        found = []
        for file in files:
            path = Path(self.config.results_folder, self.arguments[0], f"{file}.json")
            self.env.note_dependency(str(path))
            found.append((str(path), self.read_file(path, files[0], name, published)))
        check_seeds(found)
        return Row(name, published, tuple(result for _, result in found))

    def read_file(
        self, path: Path, model: str, name: str, published: tuple[str, ...]
    ) -> dict[str, Any]:
        """The run in a file, if a row can be made of it."""
        result = read_run(path, self.arguments[0], model)
        try:
            self.check(result)
        except ValueError as error:
            raise ValueError(f"{path} {error}") from error
        try:
            self.lines([Row(name, published, (result,))])
        except (LookupError, TypeError, AttributeError) as error:
            raise ValueError(
                f"{path} is damaged: {type(error).__name__} {error}"
            ) from error
        return result

    def lines(self, rows: list[Row]) -> list[str]:
        """The whole in Markdown."""
        head, *body = self.table(rows)
        cells = [head, ("---",) + ("---:",) * (len(head) - 1), *body]
        table = (f"| {' | '.join(row)} |" for row in cells)
        return [*self.above(rows), "", *table, "", *self.below(rows)]


def read_run(path: Path, experiment: str, model: str) -> dict[str, Any]:
    """The run in a file.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is damaged, of another version, a trial on less data, or the run of another
            experiment or model.
    """
    result = read_result(path)
    if (result["experiment"], result["model"]) != (experiment, model):
        raise ValueError(
            f"{path} holds a run of {result['experiment']}, {result['model']},"
            f" not of {experiment}, {model}"
        )
    _, limit = DATA[experiment]
    if (taken := result["arguments"].get(limit)) is not None:
        raise ValueError(f"{path} holds a trial, with --{limit} {taken}")
    return result


def check_seeds(found: Sequence[tuple[str, dict[str, Any]]]) -> None:
    """Refuse files whose runs differ in more than the seed, or have the same seed.

    Raises:
        ValueError: with the file and the argument.
    """
    (first, reference), *others = found
    arguments = reference["arguments"]
    seeds = {arguments.get("seed"): first}
    for path, result in others:
        seed = result["arguments"].get("seed")
        same = {**result["arguments"], "seed": arguments.get("seed")}
        if difference := first_difference(same, arguments):
            name, here, there = difference
            raise ValueError(
                f"{path} has {name} = {here}, but {first} has {name} = {there}:"
                " the runs of a row differ in their seeds only"
            )
        if seed in seeds:
            raise ValueError(f"{path} has seed = {seed}, as {seeds[seed]} has")
        seeds[seed] = path


def measured(figures: Sequence[float | None], digits: int) -> str:
    """A figure of one run, or the mean of several with their sample standard deviation.

    A figure that is missing was infinite.
    """
    finite = [figure for figure in figures if figure is not None]
    if len(finite) < len(figures):
        return "∞"
    mean, spread = mean_and_spread(finite)
    shown = f"{mean:.{digits}f}"
    return shown if len(finite) == 1 else f"{shown}\u00a0±\u00a0{spread:.{digits}f}"


def mean_and_spread(scores: Sequence[float]) -> tuple[float, float]:
    """The mean of scores, and their sample standard deviation: 0 of a single one."""
    spread = statistics.stdev(scores) if len(scores) > 1 else 0.0
    return statistics.mean(scores), spread


def epochs(result: dict[str, Any], step: int) -> str:
    """The number of epochs that a run had trained for after a step."""
    examples, _ = DATA[result["experiment"]]
    batches = math.ceil(examples / result["arguments"]["batch_size"])
    return f"{step / batches:.1f}".removesuffix(".0")


def selected(result: dict[str, Any]) -> str:
    """Which weights of a run were tested, and their loss on the validation set."""
    chosen = result["selected"]
    numbers = [epochs(result, step) for step in chosen["steps"]]
    weights = (
        f"epoch {numbers[0]}"
        if len(numbers) == 1
        else f"the mean of the weights after epochs {listed(numbers)}"
    )
    return f"{weights} (loss {chosen['held_out_loss']:.3f})"


def provenance(row: Row, remarks: Iterable[str] = ()) -> list[str]:
    """The folded lines that say how to repeat the runs of a row, and with which hardware they were made."""
    results = row.results
    seeds = [str(result["arguments"]["seed"]) for result in results]
    return [
        f"<details><summary>{html.escape(row.title)}</summary>",
        "",
        "```bash",
        *(result["command"] for result in results),
        "```",
        "",
        f"- {plural('Seed', seeds)} {listed(seeds)}.",
        f"- All other options, with the defaults: `{options(results[0])}`.",
        f"- Selected by the loss on the validation set: {'; '.join(map(selected, results))}.",
        f"- Training time in minutes: {minutes(results, 'wall')} on the clock,"
        f" {minutes(results, 'cpu')} of the CPU.",
        f"- Parameters: {results[0]['parameters']:,}.",
        f"- Hardware: {distinct(map(hardware, results))}.",
        f"- Versions: {distinct(map(versions, results))}.",
        *(f"- {remark}" for remark in remarks),
        f"- Data, by the first digits of each file's SHA-256: {distinct(map(checksums, results))}.",
        "",
        "</details>",
        "",
    ]


def options(result: dict[str, Any]) -> str:
    """The options of a run without its model and seed, as on a command line."""
    return " ".join(
        f"--{name.replace('_', '-')} {value}"
        for name, value in result["arguments"].items()
        if name not in ("model", "seed") and value is not None
    )


def minutes(results: Iterable[dict[str, Any]], clock: str) -> str:
    """The minutes that each training took by a clock."""
    return listed([f"{result['seconds'][clock] / 60:.0f}" for result in results])


def hardware(result: dict[str, Any]) -> str:
    """The hardware of a run."""
    found = result["hardware"]
    processor = found["gpu"] or f"{found['machine']} processor"
    return f"{processor}; threads: {found['threads']}; processes: {found['processes']}"


def versions(result: dict[str, Any]) -> str:
    """The packages of a run."""
    return ", ".join(f"{name} {number}" for name, number in result["versions"].items())


def checksums(result: dict[str, Any]) -> str:
    """The files of data and the first digits of their checksums."""
    return ", ".join(
        f"`{name}` {checksum[:8]}" for name, checksum in result["data"].items()
    )


def distinct(texts: Iterable[str]) -> str:
    """Each different text once."""
    return " / ".join(dict.fromkeys(texts))


def plural(word: str, things: Sequence[Any]) -> str:
    """The word, in the plural if there are several things."""
    return f"{word}s" if len(things) > 1 else word


def listed(words: Sequence[str]) -> str:
    """Words with commas, and "and" before the last."""
    first, last = words[:-1], words[-1]
    return f"{', '.join(first)} and {last}" if first else last
