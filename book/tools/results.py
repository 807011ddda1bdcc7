"""A Sphinx extension: directives for tables of what is published beside what we measured.

``results`` is for translations. On a page, one line a model, with what is published: the perplexity after the
model's own words or after the right ones, BLEU, and the millions of parameters::

    ```{results} multi30k
    gru | GRU | 37.46 | – | 20.61 | 14.22
    ```

``epochs`` is for classifiers: one line a model, with the accuracy after each epoch::

    ```{epochs} imdb
    attention | self-attention | 0.8493 0.8404
    ```

``classifiers`` is for those of which nothing is published: one line a model::

    ```{classifiers} imdb
    bag | bag of words
    ```

All other figures are read, when the book is built, from ``results/multi30k/gru.json`` beside the page, a
``result.json`` as its experiment wrote it.
"""

from typing import Any

from runs import Row, Runs


class Results(Runs):
    """Perplexities, BLEU and parameters of translators."""

    columns = (
        "file",
        "model",
        "own words",
        "right words",
        "BLEU",
        "million parameters",
    )

    def table(self, rows: list[Row]) -> list[tuple[str, ...]]:
        """A row a model, published and measured side by side."""
        return [header(rows), *map(translator, rows)]

    def remarks(self, row: Row) -> list[str]:
        """How BLEU was computed."""
        signatures = {
            row.result["test"][search]["signature"]: None
            for search in ("greedy", "beam")
        }
        return [
            f"sacreBLEU's signature: {', '.join(f'`{signature}`' for signature in signatures)}."
        ]


class Epochs(Runs):
    """The accuracy of classifiers after each epoch."""

    columns = ("file", "model", "accuracies")

    def table(self, rows: list[Row]) -> list[tuple[str, ...]]:
        """A row an epoch, and for each model two columns, published and measured."""
        columns = [column for row in rows for column in accuracies(row)]
        head = [
            "epoch",
            *(title for row in rows for title in (f"{row.name}, published", "ours")),
        ]
        numbers = [str(epoch) for epoch in range(1, len(columns[0]))]
        return [tuple(head), *zip([*numbers, "parameters"], *columns, strict=True)]


class Classifiers(Runs):
    """The accuracy after each epoch of classifiers to which nothing published can be compared."""

    columns = ("file", "model")

    def table(self, rows: list[Row]) -> list[tuple[str, ...]]:
        """A row a model, with a column for each epoch."""
        epochs = [len(row.result["history"]) for row in rows]
        if set(epochs) != {epochs[0]}:
            raise ValueError(f"the runs have not {epochs[0]} epochs each: {epochs}")
        head = ("model", *(f"epoch {n}" for n in range(1, epochs[0] + 1)), "parameters")
        body = [
            (row.name, *in_bold(measured(row)), f"{row.result['parameters']:,}")
            for row in rows
        ]
        return [head, *body]


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
        "perplexity, right words, published",
        "ours, right words",
        "size, millions, published",
        "ours",
    )


def translator(row: Row) -> tuple[str, ...]:
    """A model's line under the header."""
    own, right, bleu, parameters = row.published
    test = row.result["test"]
    perplexities = (test["free_running"]["perplexity"], test["perplexity"])
    our_own, our_right = (
        "∞" if figure is None else f"{figure:.2f}" for figure in perplexities
    )
    our_bleu = (f"{test[search]['bleu']:.2f}" for search in ("greedy", "beam"))
    our_parameters = f"{row.result['parameters'] / 1e6:.2f}"
    return (
        row.name,
        bleu,
        *our_bleu,
        own,
        our_own,
        right,
        our_right,
        parameters,
        our_parameters,
    )


def accuracies(row: Row) -> tuple[list[str], list[str]]:
    """The published column of a model and ours, the best of each in bold, and the parameters below.

    Raises:
        ValueError: the run has another number of epochs than are published.
    """
    published, ours = row.published[0].split(), measured(row)
    if len(published) != len(ours):
        raise ValueError(
            f"of {row.name} {len(published)} epochs are published, but ours has {len(ours)}"
        )
    return [*in_bold(published), "–"], [*in_bold(ours), f"{row.result['parameters']:,}"]


def measured(row: Row) -> list[str]:
    """Our accuracy after each epoch."""
    return [f"{record['accuracy']:.4f}" for record in row.result["history"]]


def in_bold(column: list[str]) -> list[str]:
    """The same with the best in bold."""
    return [f"**{cell}**" if cell == max(column) else cell for cell in column]


def setup(app: Any) -> dict[str, bool]:
    """Give the build the directives."""
    app.add_directive("results", Results)
    app.add_directive("epochs", Epochs)
    app.add_directive("classifiers", Classifiers)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
