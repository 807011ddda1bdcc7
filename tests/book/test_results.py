"""The page of results: every measured figure comes from a file, and a bad file stops the build."""

import html
import json
import re
import shutil
import subprocess
import sys
from pathlib import PurePath

import pytest
import torch
from results import header, in_bold
from runs import Row, provenance, read_run

from companion.attention import Additive
from companion.experiments.record import RESULT, VERSION, read_result, surroundings
from companion.layers import BahdanauEncoder
from companion.models import (
    BahdanauDecoder,
    ChoDecoder,
    ChoEncoder,
    SutskeverDecoder,
    SutskeverEncoder,
)
from tests.conftest import ROOT

PAGE = (ROOT / "book" / "results.md").read_text("utf-8")
BLOCKS = dict(re.findall(r"```\{(\w+)\} \w+\n(.*?)```", PAGE, re.DOTALL))
MODELS, REVIEWERS, READERS = (
    re.findall(r"^([\w-]+) \|", BLOCKS[name], re.MULTILINE)
    for name in ("results", "epochs", "classifiers")
)
COMMITTED = sorted((ROOT / "book" / "results").glob("*/*.json"))
CONF = """
import sys
sys.path.insert(0, {tools!r})
extensions = ["myst_parser", "sphinxcontrib.bibtex", "results"]
myst_enable_extensions = ["colon_fence", "dollarmath"]
bibtex_bibfiles = ["references.bib"]
bibtex_reference_style = "author_year"
"""


def made_up(model, number=1):
    """A result as an experiment writes it, with figures that no other page has."""
    return (
        {"version": VERSION}
        | {name: kind() for name, kind in RESULT.items()}
        | {
            "experiment": "multi30k",
            "model": model,
            "test": {
                "held_out_loss": 2.0,
                "perplexity": 7.001 + number,
                "free_running": {"held_out_loss": 3.0, "perplexity": 21.551 + number},
                "greedy": {"bleu": 31.114 + number, "signature": "some:signature"},
                "beam": {"bleu": 33.336 + number, "signature": "some:signature"},
            },
            "parameters": 1_234_567 + 1_000_000 * number,
            "arguments": {
                "model": model,
                "seed": 40 + number,
                "beam": 5,
                "length_penalty": 1.0,
                "sentences": None,
            },
            "command": f"python -m companion.experiments.multi30k {model} --steps {number}",
            "data": {"train.de.gz": "0123456789abcdef"},
        }
        | surroundings(processes=2)
    )


def made_up_reviewer(model, number=1):
    """The same of a classifier, which was best in its fourth epoch."""
    history = [
        {
            "step": 782 * epoch,
            "loss": 0.5,
            "held_out_loss": 0.5,
            "accuracy": accuracy + number / 1000,
        }
        for epoch, accuracy in enumerate(
            [0.71, 0.72, 0.73, 0.77, 0.76, 0.75, 0.74, 0.74, 0.74, 0.74], start=1
        )
    ]
    changes = {
        "experiment": "imdb",
        "test": {"held_out_loss": 0.5, "accuracy": 0.74},
        "history": history,
        "command": f"python -m companion.experiments.imdb {model}",
        "data": {"aclImdb.tar.xz": "fedcba9876543210"},
    }
    return made_up(model, number) | changes


def write(folder, name, result):
    (folder / f"{name}.json").write_text(
        result if isinstance(result, str) else json.dumps(result), "utf-8"
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The sources of a small book that has the page of results, but no result."""
    source = tmp_path_factory.mktemp("site")
    for experiment in ("multi30k", "imdb"):
        (source / "results" / experiment).mkdir(parents=True)
    for name in ("bibliography.md", "references.bib"):
        shutil.copyfile(ROOT / "book" / name, source / name)
    without_chapters = re.sub(r"\(\d\d_\w+\.ipynb\)", "(index.md)", PAGE)
    (source / "results.md").write_text(without_chapters, "utf-8")
    (source / "conf.py").write_text(
        CONF.format(tools=str(ROOT / "book" / "tools")), "utf-8"
    )
    (source / "index.md").write_text(
        "# Home\n\n```{toctree}\nresults\nbibliography\n```\n", "utf-8"
    )
    return source


def build(source):
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-q",
        "-W",
        "--keep-going",
        "-E",
        str(source),
        str(source / "html"),
    ]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.fixture(scope="module")
def built(site):
    """The page, built from results that were made up: its text, and the tables made from files."""
    for number, model in enumerate(MODELS):
        write(site / "results" / "multi30k", model, made_up(model, number))
    for number, model in enumerate([*REVIEWERS, *READERS]):
        write(site / "results" / "imdb", model, made_up_reviewer(model, number))
    run = build(site)
    assert run.returncode == 0, run.stderr
    text = (site / "html" / "results.html").read_text("utf-8")
    parts = re.findall(r'<div class="results.*?<table.*?</table>', text, re.DOTALL)
    tables = [
        [cells_of(row) for row in re.findall(r"<tr.*?</tr>", part, re.DOTALL)]
        for part in parts
    ]
    return plain(text), tables


def test_the_table_is_made_from_the_files(built):
    assert MODELS
    text, (rows, _, _) = built
    assert rows[0] == list(header([Row("", (), made_up(model)) for model in MODELS]))
    assert rows[0][3].endswith("beam 5")
    for number, (model, row) in enumerate(zip(MODELS, rows[1:], strict=True)):
        name, *published = (
            cell.strip()
            for cell in re.search(rf"^{model} \|(.*)$", PAGE, re.MULTILINE)[1].split(
                "|"
            )
        )
        assert [row[0], row[4], row[6], row[1], row[8]] == [name, *published]
        measured = [
            f"{21 + number}.55",
            f"{7 + number}.00",
            f"{31 + number}.11",
            f"{33 + number}.34",
            f"{1 + number}.23",
        ]
        assert [row[5], row[7], row[2], row[3], row[9]] == measured
        assert f"multi30k {model} --steps {number}" in text
        assert f"Seed {40 + number}." in text


def test_the_epochs_are_those_of_the_files(built):
    text, (_, rows, _) = built
    assert [row[0] for row in rows] == ["epoch", *map(str, range(1, 11)), "parameters"]
    for number, (model, line) in enumerate(
        zip(REVIEWERS, BLOCKS["epochs"].strip().splitlines(), strict=True)
    ):
        _, name, published = (cell.strip() for cell in line.split("|"))
        title, *cells, none = (row[1 + 2 * number] for row in rows)
        assert (title, cells, none) == (f"{name}, published", published.split(), "–")
        assert [row[2 + 2 * number] for row in rows[1:]] == [
            *(
                f"0.{accuracy}{number}0"
                for accuracy in (71, 72, 73, 77, 76, 75, 74, 74, 74, 74)
            ),
            f"{1_234_567 + 1_000_000 * number:,}",
        ]
        assert f"companion.experiments.imdb {model}" in text


def test_classifiers_without_a_published_figure_have_a_row_each(built):
    text, (_, _, rows) = built
    assert rows[0] == [
        "model",
        *(f"epoch {epoch}" for epoch in range(1, 11)),
        "parameters",
    ]
    for number, (model, line) in enumerate(
        zip(READERS, BLOCKS["classifiers"].strip().splitlines(), strict=True),
        start=len(REVIEWERS),
    ):
        name, *cells, parameters = rows[1 + number - len(REVIEWERS)]
        assert name == line.split("|")[1].strip()
        assert cells == [
            f"0.{accuracy}{number}0"
            for accuracy in (71, 72, 73, 77, 76, 75, 74, 74, 74, 74)
        ]
        assert parameters == f"{1_234_567 + 1_000_000 * number:,}"
        assert f"companion.experiments.imdb {model}" in text


def test_the_best_epoch_is_in_bold():
    assert in_bold(["0.71", "0.77", "0.76"]) == ["0.71", "**0.77**", "0.76"]


def cells_of(row):
    return [
        plain(cell).strip() for cell in re.findall(r"<t[hd].*?</t[hd]>", row, re.DOTALL)
    ]


def plain(text):
    return html.unescape(re.sub(r"<[^>]*>", "", text))


def test_what_is_wrong_with_a_file_stops_the_build_with_its_name(site):
    folder = site / "results" / "multi30k"
    write(folder, "other", made_up("other") | {"version": VERSION + 1})
    write(folder, "damaged", json.dumps(made_up("damaged"))[:-9])
    write(folder, "renamed", made_up("gru"))
    write(
        folder,
        "hollow",
        made_up("hollow")
        | {"test": {"perplexity": 1.0, "free_running": {"perplexity": 1.0}}},
    )
    write(site / "results" / "imdb", "short", made_up_reviewer("short"))
    long = made_up_reviewer("long")
    write(site / "results" / "imdb", "long", long | {"history": 2 * long["history"]})
    rows = {
        "missing": r"missing\.json",
        "other": rf"other\.json is a result of version {VERSION + 1}, but version {VERSION}",
        "damaged": r"damaged\.json is damaged",
        "renamed": r"renamed\.json holds a run of multi30k, gru",
        "hollow": r"hollow\.json is damaged: KeyError 'greedy'",
    }
    blocks = [
        f"```{{results}} multi30k\n{name} | model | 1 | 2 | 3 | 4\n```" for name in rows
    ]
    blocks.append("```{results} multi30k\ngru | model | 1 | 2\n```")
    blocks.append("```{epochs} imdb\nshort | Shorty | 0.5 0.6\n```")
    blocks.append("```{classifiers} imdb\nshort | Shorty\nlong | Longer\n```")
    (site / "results.md").write_text("\n\n".join(["# Results", *blocks]), "utf-8")
    run = build(site)
    assert run.returncode != 0
    cells = r"6 cells, file \| .*'gru \| model \| 1 \| 2'"
    epochs = [
        "of Shorty 2 epochs are published, but ours has 10",
        r"have not 10 epochs each: \[10, 20\]",
    ]
    for message in [*rows.values(), cells, *epochs]:
        assert re.search(rf"results\.md:\d+: .*{message}", run.stderr), run.stderr


def test_a_run_says_all_that_makes_it_again(tmp_path):
    write(tmp_path, "gru", made_up("gru"))
    row = Row(
        "GRU", ("1", "2", "3", "4"), read_run(tmp_path / "gru.json", "multi30k", "gru")
    )
    text = "\n".join(provenance(row, []))
    assert "python -m companion.experiments.multi30k gru --steps 1\n" in text
    assert "`--seed 41 --beam 5 --length-penalty 1.0`" in text
    assert "processes: 2" in text
    assert f"torch {torch.__version__.split('+')[0]}" in text
    assert "`train.de.gz` 01234567" in text


@pytest.mark.parametrize("path", COMMITTED, ids=lambda path: path.stem)
def test_a_committed_result_is_on_the_page_and_names_no_place_of_its_machine(path):
    result = read_result(path)
    assert (result["experiment"], result["model"]) == (path.parent.name, path.stem)
    assert re.search(rf"^{path.stem} \|", PAGE, re.MULTILINE)
    assert not [
        word for word in result["command"].split() if PurePath(word).is_absolute()
    ]


def test_what_the_page_says_of_the_epochs_is_so():
    found = {}
    for line in BLOCKS["epochs"].strip().splitlines():
        model, _, published = (cell.strip() for cell in line.split("|"))
        history = read_result(ROOT / "book" / "results" / "imdb" / f"{model}.json")[
            "history"
        ]
        found[model] = (
            [float(cell) for cell in published.split()],
            [record["accuracy"] for record in history],
        )
    assert (
        max(
            abs(theirs - ours) for theirs, ours in zip(*found["attention"], strict=True)
        )
        < 0.01
    )
    theirs, ours = found["attention-positions"]
    assert (ours.index(max(ours)), theirs.index(max(theirs))) == (1, 5)
    assert ours[-1] < theirs[-1] - 0.01
    assert abs(max(ours) - max(found["attention"][1])) < 0.002


def test_what_the_page_says_of_words_and_sentences_is_so():
    runs = {
        model: read_result(ROOT / "book" / "results" / "imdb" / f"{model}.json")
        for model in READERS
    }
    accuracies = {
        model: [record["accuracy"] for record in run["history"]]
        for model, run in runs.items()
    }
    best = {model: max(found) for model, found in accuracies.items()}
    first = {model: found[0] for model, found in accuracies.items()}
    with_attention = ("hierarchical-attention", "flat-attention")
    assert all(first[model] == best[model] for model in with_attention)
    assert abs(best[with_attention[0]] - best[with_attention[1]]) < 0.002
    assert (
        min(best[model] for model in with_attention) > best["hierarchical-mean"] + 0.005
    )
    assert best["hierarchical-mean"] > best["bag"]
    assert all(
        found[-1] < accuracies["bag"][-1] + 0.001 for found in accuracies.values()
    )
    assert all(1.30e6 < run["parameters"] < 1.33e6 for run in runs.values())


def test_the_numbers_of_parameters_in_the_text_are_those_of_the_models():
    german, english, embedding, hidden = 7_853, 5_893, 256, 512
    with torch.device("meta"):
        attention = Additive(hidden, 2 * hidden, hidden)
        models = {
            "LSTM": [
                SutskeverEncoder(german, embedding, hidden),
                SutskeverDecoder(english, embedding, hidden),
            ],
            "GRU": [
                ChoEncoder(german, embedding, hidden),
                ChoDecoder(english, embedding, hidden, hidden),
            ],
            "attention": [
                BahdanauEncoder(german, embedding, hidden),
                BahdanauDecoder(english, embedding, hidden, 2 * hidden, attention),
            ],
        }
    counts = {
        name: sum(
            parameter.numel() for part in parts for parameter in part.parameters()
        )
        for name, parts in models.items()
    }
    assert f"{counts['LSTM']:,}" in PAGE
    assert f"| ours | {counts['GRU']:,} | {counts['attention']:,} |" in PAGE
    columns = zip(
        *re.findall(r"^\|[^|\n]*\|([^|\n]*)\|([^|\n]*)\|$", PAGE, re.MULTILINE)[2:],
        strict=True,
    )
    for column, name in zip(columns, ("GRU", "attention"), strict=True):
        *terms, total = (
            int(cell.replace(",", "").replace("−", "-") or 0)
            for cell in map(str.strip, column)
        )
        assert sum(terms) == total == counts[name]
