"""Sphinx extension: directives for the tables of results, published figures beside ours.

``results`` is for translation models. On a page, one line a model: the file of our run, its name, and the
published BLEU. A line may name several files, of runs that differ in their random seeds only::

    ```{results} multi30k
    gru | GRU | 20.61
    bahdanau bahdanau-1 bahdanau-2 | GRU, Bahdanau | 28.30
    ```

``perplexities`` has the perplexities of the same runs and the published ones: free-running, and with
teacher forcing::

    ```{perplexities} multi30k
    gru | GRU | 37.46 | –
    ```

``epochs`` is for classifiers: one line a model, with the published accuracy after each epoch::

    ```{epochs} imdb
    attention | self-attention | 0.8493 0.8404
    ```

``classifiers`` is for classifiers without published figures: one line a model::

    ```{classifiers} imdb
    bag | bag of words
    ```

``trials`` is for runs of one model, its second argument, that differ in options; one line a run::

    ```{trials} multi30k transformer
    transformer-trials/dropout-0.1 | dropout 0.1
    ```

All other figures are read, when the book is built, from the recorded runs of the package, such as
``multi30k/gru.json``: a ``result.json`` as its experiment wrote it. ``results_folder`` sets another folder.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bleu_chart import Scores, bleu_chart
from runs import Row, Runs, epochs, measured, provenance
from sphinx.application import Sphinx

from attention_course.experiments.recorded import FOLDER

SEARCHES = ("greedy", "beam")


class Translators(Runs):
    """Translation models, of one seed or several."""

    several_seeds = True

    def check(self, result: dict[str, Any]) -> None:
        """Refuse a run without test sentences, which the figures of the chapters need."""
        if not result["sentences"]:
            raise ValueError("has no test sentences: repeat the run to get them")


class Results(Translators):
    """BLEU, size and cost of translation models, with a chart."""

    columns = ("files", "model", "BLEU")

    def table(self, rows: list[Row]) -> list[tuple[str, ...]]:
        """A row a model, published and measured side by side."""
        return [header(rows), *map(translator, rows)]

    def above(self, rows: list[Row]) -> list[str]:
        """The chart."""
        return [bleu_chart([scores(row) for row in rows], beam_search(rows))]

    def below(self, rows: list[Row]) -> list[str]:
        """What ± means, if a row has it, and how to repeat the runs."""
        spread = (
            [
                "Figures of several seeds are their mean ± their sample standard deviation.",
                "",
            ]
            if any(len(row.results) > 1 for row in rows)
            else []
        )
        return [*spread, *super().below(rows)]

    def provenance(self, row: Row) -> list[str]:
        """With how BLEU was computed."""
        signatures = {
            f"`{result['test'][search]['signature']}`": None
            for result in row.results
            for search in SEARCHES
        }
        return provenance(row, [f"Signature of sacreBLEU: {', '.join(signatures)}."])


class Perplexities(Translators):
    """The perplexities of translation models, free-running and with teacher forcing."""

    columns = ("files", "model", "free-running", "teacher forcing")

    def table(self, rows: list[Row]) -> list[tuple[str, ...]]:
        """A row a model, published and measured side by side."""
        head = (
            "model",
            "free-running, published",
            "ours",
            "teacher forcing, published",
            "ours",
        )
        return [head, *map(perplexities, rows)]

    def below(self, rows: list[Row]) -> list[str]:
        """Nothing: the same runs are described below the table of results."""
        return []


class Trials(Runs):
    """One model with different options in each row: its validation loss after each epoch, and BLEU."""

    required_arguments = 2
    columns = ("file", "options")

    def read_file(
        self, path: Path, model: str, name: str, published: tuple[str, ...]
    ) -> dict[str, Any]:
        """The run of the directive's model, whose file has another name."""
        return super().read_file(path, self.arguments[1], name, published)

    def table(self, rows: list[Row]) -> list[tuple[str, ...]]:
        """A row a run, the lowest loss in bold."""
        histories = [row.results[0]["history"] for row in rows]
        steps = same_steps(histories)
        lowest = min(record["held_out_loss"] for one in histories for record in one)
        head = (
            "options",
            *(f"epoch {epochs(rows[0].results[0], step)}" for step in steps),
            "BLEU, greedy",
            f"BLEU, {beam_search(rows)}",
        )
        return [head, *(trial(row, lowest) for row in rows)]


class Epochs(Runs):
    """The accuracy of classifiers after each epoch, and of the selected one on the test set."""

    columns = ("file", "model", "accuracies")

    def table(self, rows: list[Row]) -> list[tuple[str, ...]]:
        """A row an epoch, and for each model two columns, published and measured."""
        columns = [column for row in rows for column in accuracies(row)]
        head = [
            "epoch",
            *(
                title
                for row in rows
                for title in (f"{row.name}, published", "ours, validation")
            ),
        ]
        numbers = [str(epoch) for epoch in range(1, len(columns[0]))]
        return [tuple(head), *zip([*numbers, "ours, test"], *columns, strict=True)]


class Classifiers(Runs):
    """The accuracy of classifiers without published figures, after each epoch and on the test set."""

    columns = ("file", "model")

    def table(self, rows: list[Row]) -> list[tuple[str, ...]]:
        """A row a model, with a column for each epoch."""
        lengths = [len(row.results[0]["history"]) for row in rows]
        if set(lengths) != {lengths[0]}:
            raise ValueError(f"the runs have not {lengths[0]} epochs each: {lengths}")
        head = (
            "model",
            *(f"epoch {n}, validation" for n in range(1, lengths[0] + 1)),
            "test",
            "parameters",
        )
        return [head, *map(classifier, rows)]


def header(rows: list[Row]) -> tuple[str, ...]:
    """The names of the columns, with the width of the beam."""
    return (
        "model",
        "BLEU, published",
        "ours, greedy",
        f"ours, {beam_search(rows)}",
        "parameters, millions",
        "epochs",
        "training, CPU minutes",
        "perplexity",
    )


def beam_search(rows: list[Row]) -> str:
    """The beam search of the runs, with its width."""
    widths = {result["arguments"]["beam"] for row in rows for result in row.results}
    return f"beam {' or '.join(map(str, sorted(widths)))}"


def translator(row: Row) -> tuple[str, ...]:
    """A model's line under the header."""
    first = row.results[0]
    return (
        row.title,
        row.published[0],
        *(measured(bleu(row, search), 1) for search in SEARCHES),
        f"{first['parameters'] / 1e6:.1f}",
        epochs(first, first["arguments"]["steps"]),
        measured([result["seconds"]["cpu"] / 60 for result in row.results], 0),
        measured([result["test"]["perplexity"] for result in row.results], 2),
    )


def bleu(row: Row, search: str) -> list[float]:
    """The BLEU of each seed by a search."""
    return [result["test"][search]["bleu"] for result in row.results]


def scores(row: Row) -> Scores:
    """What the chart shows of a model.

    Raises:
        ValueError: what is published is neither a number nor a dash.
    """
    (published,) = row.published
    try:
        number = None if published == "–" else float(published)
    except ValueError:
        raise ValueError(
            f"the published BLEU of {row.name} is a number or –, not {published!r}"
        ) from None
    return Scores(row.name, number, *(bleu(row, search) for search in SEARCHES))


def perplexities(row: Row) -> tuple[str, ...]:
    """A model's line in the table of perplexities."""
    free_running, teacher_forcing = row.published
    tests = [result["test"] for result in row.results]
    return (
        row.name,
        free_running,
        measured([test["free_running"]["perplexity"] for test in tests], 1),
        teacher_forcing,
        measured([test["perplexity"] for test in tests], 2),
    )


def same_steps(histories: Sequence[Sequence[dict[str, Any]]]) -> list[int]:
    """The steps after which all runs were evaluated.

    Raises:
        ValueError: they were evaluated after different steps.
    """
    first, *others = ([record["step"] for record in one] for one in histories)
    for steps in others:
        if steps != first:
            raise ValueError(f"trials of steps {first} and {steps} in one table")
    return first


def trial(row: Row, lowest: float) -> tuple[str, ...]:
    """The losses of a run, with the lowest of all in bold, and its BLEU by each search."""
    losses = [record["held_out_loss"] for record in row.results[0]["history"]]
    bold = [number for number, loss in enumerate(losses) if loss == lowest]
    return (
        row.name,
        *in_bold([f"{loss:.3f}" for loss in losses], bold),
        *(measured(bleu(row, search), 1) for search in SEARCHES),
    )


def accuracies(row: Row) -> tuple[list[str], list[str]]:
    """The published column of a model, its best in bold, and ours, with the test below.

    Raises:
        ValueError: the run has another number of epochs than are published.
    """
    published, (result,) = row.published[0].split(), row.results
    if len(published) != len(result["history"]):
        raise ValueError(
            f"of {row.name} {len(published)} epochs are published,"
            f" but ours has {len(result['history'])}"
        )
    best = published.index(max(published))
    return [*in_bold(published, [best]), "–"], [*validation(result), tested(result)]


def classifier(row: Row) -> tuple[str, ...]:
    """A model's line, from its first epoch to its size."""
    (result,) = row.results
    return (
        row.name,
        *validation(result),
        tested(result),
        f"{result['parameters']:,}",
    )


def validation(result: dict[str, Any]) -> list[str]:
    """Our accuracy on the validation set after each epoch, with the selected epochs in bold."""
    history = result["history"]
    numbers = {record["step"]: number for number, record in enumerate(history)}
    chosen = [numbers[step] for step in result["selected"]["steps"]]
    return in_bold([f"{record['accuracy']:.4f}" for record in history], chosen)


def tested(result: dict[str, Any]) -> str:
    """The accuracy on the test set."""
    return f"{result['test']['accuracy']:.4f}"


def in_bold(column: Sequence[str], numbers: Sequence[int]) -> list[str]:
    """A column with the cells of these numbers in bold."""
    return [
        f"**{cell}**" if number in numbers else cell
        for number, cell in enumerate(column)
    ]


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directives."""
    app.add_config_value("results_folder", str(FOLDER), "env")
    app.add_directive("results", Results)
    app.add_directive("perplexities", Perplexities)
    app.add_directive("trials", Trials)
    app.add_directive("epochs", Epochs)
    app.add_directive("classifiers", Classifiers)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
