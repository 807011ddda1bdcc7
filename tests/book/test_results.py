"""The page of results: every measured figure comes from a file, and a bad file stops the build."""

import html
import json
import re
import shutil
import statistics
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import PurePath
from types import SimpleNamespace

import pytest
import torch
from epub import content
from pages import read_page

from attention_course.experiments.record import (
    RESULT,
    VERSION,
    read_result,
    surroundings,
)
from attention_course.experiments.recorded import FOLDER
from attention_course.experiments.sentences import packed
from attention_course.experiments.tables import (
    Row,
    chart,
    in_bold,
    measured,
    provenance,
)
from companion.attention import Additive
from companion.models import (
    BahdanauDecoder,
    BahdanauEncoder,
    ChoDecoder,
    ChoEncoder,
    SutskeverDecoder,
    SutskeverEncoder,
)
from tests.conftest import ROOT

PAGE = (ROOT / "book" / "results.md").read_text("utf-8")
BLOCKS = {
    (name, experiment): [
        [cell.strip() for cell in line.split("|")] for line in lines.splitlines()
    ]
    for name, experiment, lines in re.findall(
        r"```\{(\w+)\} (\w+)[ \w]*\n(.*?)```", PAGE, re.DOTALL
    )
}
TRANSLATORS = BLOCKS["results", "multi30k"]
PERPLEXITIES = BLOCKS["perplexities", "multi30k"]
REVIEWERS, READERS = BLOCKS["epochs", "imdb"], BLOCKS["classifiers", "imdb"]
TRIALS = BLOCKS["trials", "multi30k"]
COMMITTED = sorted(FOLDER.glob("*/*.json"))
TRIED = sorted(FOLDER.glob("*/*-trials/*.json"))
CONF = """
import sys
sys.path.insert(0, {tools!r})
extensions = ["myst_parser", "sphinxcontrib.bibtex", "results"]
myst_enable_extensions = ["colon_fence", "dollarmath"]
bibtex_bibfiles = ["references.bib"]
bibtex_reference_style = "author_year"
results_folder = {results!r}
"""
ACCURACIES = [0.71, 0.72, 0.73, 0.77, 0.76, 0.75, 0.74, 0.74, 0.74, 0.74]
SVG = "{http://www.w3.org/2000/svg}"


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
            "selected": {"steps": [3178], "held_out_loss": 1.7, "perplexity": 5.5},
            "seconds": {"wall": 6000.0 + 60 * number, "cpu": 3000.0 + 60 * number},
            "sentences": [sentence(torch.rand(1, 1, 3, 4))],
            "parameters": 1_234_567 + 1_000_000 * number,
            "arguments": {
                "model": model,
                "steps": 4540,
                "batch_size": 64,
                "seed": 40 + number,
                "beam": 5,
                "length_penalty": 1.0,
                "sentences": None,
            },
            "command": f"python -m attention_course.experiments.multi30k {model} --seed {40 + number}",
            "data": {"train.de.gz": "0123456789abcdef"},
        }
        | surroundings(processes=2)
    )


def sentence(weights):
    """A test sentence of four words, translated by two."""
    return {
        "index": 3,
        "source": "ein kleines rotes haus",
        "reference": "a house",
        "greedy": "a house",
        "beam": "a house",
        "weights": packed(weights),
    }


def made_up_reviewer(model, number=1):
    """The same of a classifier with its lowest loss in epoch 2, and its best accuracy in epoch 4."""
    history = [
        {
            "step": 704 * epoch,
            "loss": 0.5,
            "held_out_loss": 0.5 if epoch == 2 else 0.6,
            "accuracy": accuracy + number / 1000,
        }
        for epoch, accuracy in enumerate(ACCURACIES, start=1)
    ]
    result = made_up(model, number)
    arguments = {"steps": 7040, "batch_size": 32, "reviews": None}
    return result | {
        "experiment": "imdb",
        "test": {"held_out_loss": 0.5, "accuracy": 0.70 + number / 1000},
        "history": history,
        "selected": {"steps": [1408], "held_out_loss": 0.5, "accuracy": 0.72},
        "sentences": [],
        "arguments": result["arguments"] | arguments,
        "command": f"python -m attention_course.experiments.imdb {model}",
        "data": {"aclImdb.tar.xz": "fedcba9876543210"},
    }


def made_up_trial(number):
    """A Transformer whose losses after four epochs no other page has."""
    history = [
        {"step": 454 * epoch, "held_out_loss": 9 - epoch + number / 8}
        for epoch in range(1, 5)
    ]
    result = made_up("transformer", number)
    return changed(result, "selected", steps=[1816]) | {
        "sentences": [],
        "history": history,
    }


def changed(result, part, **changes):
    """The result with other values in a part of it."""
    return result | {part: result[part] | changes}


def write(folder, name, result):
    (folder / f"{name}.json").write_text(
        result if isinstance(result, str) else json.dumps(result), "utf-8"
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The sources of a small book without results."""
    source = tmp_path_factory.mktemp("site")
    for experiment in ("multi30k", "imdb"):
        (source / "results" / experiment).mkdir(parents=True)
    for name in ("bibliography.md", "references.bib"):
        shutil.copyfile(ROOT / "book" / name, source / name)
    (source / "conf.py").write_text(
        CONF.format(
            tools=str(ROOT / "book" / "tools"), results=str(source / "results")
        ),
        "utf-8",
    )
    (source / "index.md").write_text(
        "# Home\n\n```{toctree}\nresults\nbibliography\n```\n", "utf-8"
    )
    return source


def build(source, page):
    """Build the small book with a page of results."""
    (source / "results.md").write_text(page, "utf-8")
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
    """The page, built from results that were made up: its path, its HTML, its text, and its tables."""
    for number, (model, _, file) in enumerate(files(TRANSLATORS)):
        write(site / "results" / "multi30k", file, made_up(model, number))
    for number, (model, *_) in enumerate([*REVIEWERS, *READERS]):
        write(site / "results" / "imdb", model, made_up_reviewer(model, number))
    (site / "results" / "multi30k" / "transformer-trials").mkdir()
    for number, (file, _) in enumerate(TRIALS):
        write(site / "results" / "multi30k", file, made_up_trial(number))
    run = build(site, re.sub(r"\(\d\d_\w+\.ipynb\)", "(index.md)", PAGE))
    assert run.returncode == 0, run.stderr
    path = site / "html" / "results.html"
    text = path.read_text("utf-8")
    parts = re.findall(r'<div class="results.*?<table.*?</table>', text, re.DOTALL)
    tables = [
        [cells_of(row) for row in re.findall(r"<tr.*?</tr>", part, re.DOTALL)]
        for part in parts
    ]
    names = ("results", "trials", "perplexities", "epochs", "classifiers")
    return SimpleNamespace(
        path=path,
        html=text,
        text=plain(text),
        tables=dict(zip(names, tables, strict=True)),
    )


def files(rows):
    """Of each file that rows name: its model, the number of the row, and its name."""
    return [
        (row[0].split()[0], number, file)
        for number, row in enumerate(rows)
        for file in row[0].split()
    ]


def numbers_of(row):
    """The numbers of the made-up results that a row of translators names."""
    names = [file for *_, file in files(TRANSLATORS)]
    return [names.index(file) for file in row[0].split()]


def cells_of(row):
    return [
        plain(cell).strip() for cell in re.findall(r"<t[hd].*?</t[hd]>", row, re.DOTALL)
    ]


def plain(text):
    return html.unescape(re.sub(r"<[^>]*>", "", text)).replace("\u00a0", " ")


def expected(first, seeds, digits):
    """What is shown of one seed, or of three whose figures are ``first``, one more and two more."""
    if seeds == 1:
        return f"{first:.{digits}f}"
    assert seeds == 3
    return f"{first + 1:.{digits}f} ± {1:.{digits}f}"


def test_the_table_is_made_from_the_files(built):
    rows = built.tables["results"]
    assert rows[0] == [
        "model",
        "BLEU, published",
        "ours, greedy",
        "ours, beam 5",
        "parameters, millions",
        "epochs",
        "training, CPU minutes",
        "perplexity",
    ]
    for row, (names, name, bleu) in zip(rows[1:], TRANSLATORS, strict=True):
        first, *others = numbers_of([names])
        seeds = 1 + len(others)
        assert row == [
            f"{name} (3 seeds)" if others else name,
            bleu,
            expected(31.114 + first, seeds, 1),
            expected(33.336 + first, seeds, 1),
            f"{1.234567 + first:.1f}",
            "10",
            expected(50 + first, seeds, 0),
            expected(7.001 + first, seeds, 2),
        ]


def test_models_of_several_seeds_have_their_spread(built):
    several = [row[0] for row in TRANSLATORS if len(row[0].split()) > 1]
    assert several == [
        f"{name} {name}-1 {name}-2"
        for name in ("bahdanau", "luong-general", "transformer")
    ]
    assert "mean ± their sample standard deviation" in built.text


def test_the_perplexities_are_those_of_the_same_runs(built):
    assert [row[:2] for row in PERPLEXITIES] == [row[:2] for row in TRANSLATORS]
    rows = built.tables["perplexities"]
    for row, (names, name, *published) in zip(rows[1:], PERPLEXITIES, strict=True):
        first, *others = numbers_of([names])
        ours = [
            expected(21.551 + first, 1 + len(others), 1),
            expected(7.001 + first, 1 + len(others), 2),
        ]
        assert row == [name, published[0], ours[0], published[1], ours[1]]


def test_a_figure_of_several_seeds_is_their_mean_with_the_sample_standard_deviation():
    assert measured([37.74], 1) == "37.7"
    assert measured([37.0, 38.0, 39.0, 40.0], 2) == "38.50\u00a0±\u00a01.29"
    assert measured([2.0, None], 1) == "∞"
    assert measured([None], 1) == "∞"


def dots(drawn):
    """Where the dots of each colour are, from top to bottom, without the legend."""
    found = {}
    for circle in ET.fromstring(drawn).iter(f"{SVG}circle"):
        x, y = float(circle.get("cx")), float(circle.get("cy"))
        found.setdefault(circle.get("class"), []).append((x, y))
    return {kind: places[1:] for kind, places in found.items()}


def test_the_chart_above_the_table_has_a_dot_for_each_figure(built):
    assert built.html.index('class="drawing"') < built.html.index("<table")
    (drawn,) = re.findall(r"<svg.*?</svg>", built.html, re.DOTALL)
    found = dots(drawn)
    published = [float(bleu) for *_, bleu in TRANSLATORS if bleu != "–"]
    first = [numbers_of(row) for row in TRANSLATORS]
    means = [statistics.mean(numbers) for numbers in first]
    wanted = {
        "fill-muted": published,
        "fill-key": [31.114 + mean for mean in means],
        "fill-query": [33.336 + mean for mean in means],
    }
    zero, scale = None, None
    for kind, scores in wanted.items():
        places = [x for x, _ in found[kind]]
        assert len(places) == len(scores)
        if zero is None:
            scale = (places[-1] - places[0]) / (scores[-1] - scores[0])
            zero = places[0] - scores[0] * scale
        expected_places = [zero + scale * score for score in scores]
        assert places == pytest.approx(expected_places, abs=0.3)
    for name in (row[1] for row in TRANSLATORS):
        assert f">{html.escape(name)}<" in drawn


def scored(name, published, *greedy):
    """A row with these BLEU by greedy search, and one more by a beam."""
    return Row(
        name,
        (published,),
        tuple(
            {
                "arguments": {"beam": 5},
                "test": {"greedy": {"bleu": one}, "beam": {"bleu": one + 1}},
            }
            for one in greedy
        ),
    )


def test_the_chart_says_what_it_shows():
    rows = [scored("A", "13.76", 19.5), scored("B", "–", 37.6)]
    drawn = chart([*rows, scored("C", "36.52", 35.0, 36.0, 37.0)])
    words = "above the published figure for 1 of 2 models (not for C)."
    assert words in re.search(r'aria-label="([^"]*)"', drawn)[1]
    assert words in re.search(r"<figcaption>(.*)</figcaption>", drawn)[1]


def test_only_several_seeds_have_a_thin_line_of_one_standard_deviation():
    def lines(*greedy):
        path = re.compile(r'<path d="M([\d.]+) [\d.]+ L([\d.]+) [^>]*stroke-width="3"')
        return path.findall(chart([scored("A", "–", *greedy)]))

    (one, _), (several, _) = lines(36.0), lines(35.0, 36.0, 37.0)
    assert one[0] == one[1]
    assert float(several[0]) < float(several[1])


def test_the_downloads_have_the_chart_and_all_that_is_folded(built, tmp_path):
    article = re.search(
        r'<div class="body" role="main">(.*?)<div class="clearer"',
        built.html,
        re.DOTALL,
    )
    page = tmp_path / "results.html"
    page.write_text(f'<article class="bd-article">{article[1]}</article>', "utf-8")
    body = read_page(page, None, "").body
    found = ET.fromstring(f"<body>{content(body)}</body>")
    (shown,) = found.iter(f"{SVG}svg")
    (written,) = re.findall(r"<svg.*?</svg>", built.html, re.DOTALL)
    original = ET.fromstring(written)
    assert [part.attrib for part in shown.iter()] == [
        part.attrib for part in original.iter()
    ]
    folded = list(found.iter("details"))
    assert len(folded) == len([*TRANSLATORS, *TRIALS, *REVIEWERS, *READERS])
    assert all("open" in one.attrib for one in folded)


def test_the_epochs_are_those_of_the_files(built):
    rows = built.tables["epochs"]
    assert [row[0] for row in rows] == ["epoch", *map(str, range(1, 11)), "ours, test"]
    for number, (_, name, published) in enumerate(REVIEWERS):
        title, *cells, none = (row[1 + 2 * number] for row in rows)
        assert (title, cells, none) == (f"{name}, published", published.split(), "–")
        assert [row[2 + 2 * number] for row in rows] == [
            "ours, validation",
            *(f"{accuracy:.2f}{number}0" for accuracy in ACCURACIES),
            f"0.70{number}0",
        ]
        best = max(published.split())
        assert f"<strong>{best}</strong>" in built.html
        assert f"<strong>0.72{number}0</strong>" in built.html, "epoch 2 is selected"
        assert f"<strong>0.77{number}0</strong>" not in built.html


def test_trials_have_their_losses_after_each_epoch(built):
    head, *rows = built.tables["trials"]
    shown = [f"epoch {number}" for number in range(1, 5)]
    assert head == ["options", *shown, "BLEU, greedy", "BLEU, beam 5"]
    for number, (row, (_, name)) in enumerate(zip(rows, TRIALS, strict=True)):
        losses = [9 - epoch + number / 8 for epoch in range(1, 5)]
        assert row == [
            name,
            *(f"{loss:.3f}" for loss in losses),
            f"{31.114 + number:.1f}",
            f"{33.336 + number:.1f}",
        ]
    assert "<strong>5.000</strong>" in built.html
    assert "<strong>5.125</strong>" not in built.html


def test_classifiers_without_a_published_figure_have_a_row_each(built):
    rows = built.tables["classifiers"]
    assert rows[0] == [
        "model",
        *(f"epoch {epoch}, validation" for epoch in range(1, 11)),
        "test",
        "parameters",
    ]
    for number, (row, (_, name)) in enumerate(
        zip(rows[1:], READERS, strict=True), start=len(REVIEWERS)
    ):
        assert row == [
            name,
            *(f"{accuracy:.2f}{number}0" for accuracy in ACCURACIES),
            f"0.70{number}0",
            f"{1_234_567 + 1_000_000 * number:,}",
        ]
        assert f"<strong>0.72{number}0</strong>" in built.html


def test_chosen_cells_are_in_bold():
    assert in_bold(["0.77", "0.77"], [True, False]) == ["**0.77**", "0.77"]


def test_the_runs_of_each_model_are_folded_under_its_table(built):
    folded = re.findall(
        r"<details><summary>(.*?)</summary>(.*?)</details>", built.html, re.DOTALL
    )
    tried = [["transformer", name] for _, name in TRIALS]
    rows = [*TRANSLATORS, *tried, *REVIEWERS, *READERS]
    for (summary, inside), (names, name, *_) in zip(folded, rows, strict=True):
        model, *others = names.split()
        assert plain(summary) == (f"{name} (3 seeds)" if others else name)
        commands = re.findall(
            rf"python -m attention_course\.experiments\.\w+ {model}\b", plain(inside)
        )
        assert len(commands) == 1 + len(others)


def test_what_is_wrong_with_a_file_stops_the_build_with_its_row(site):
    folder = site / "results" / "multi30k"
    wrong = {
        "other": made_up("other") | {"version": VERSION + 1},
        "damaged": json.dumps(made_up("damaged"))[:-9],
        "hollow": made_up("hollow") | {"test": {"perplexity": 1.0}},
        "right": made_up("right"),
    }
    for name, result in wrong.items():
        write(folder, name, result)
    write(site / "results" / "imdb", "short", made_up_reviewer("short"))
    messages = {
        "{results} multi30k\nmissing | A | 1": r"missing\.json",
        "{results} multi30k\nother | A | 1": rf"other\.json is a result of version {VERSION + 1}",
        "{results} multi30k\ndamaged | A | 1": r"damaged\.json is damaged",
        "{results} multi30k\nhollow | A | 1": r"hollow \| A(.|\n)*KeyError: 'greedy'",
        "{results} multi30k\nright | A | many": "could not convert string to float: 'many'",
        "{results} multi30k\nright": "not enough values to unpack",
        "{epochs} imdb\nshort | A | 0.5 0.6": "argument 3 is longer",
    }
    blocks = [f"```{block}\n```" for block in messages]
    run = build(site, "\n\n".join(["# Results", *blocks]))
    assert run.returncode != 0
    for message in messages.values():
        assert re.search(message, run.stderr), (message, run.stderr)


def provenance_of(tmp_path, *results):
    """What is said of runs of the GRU."""
    found = []
    for number, result in enumerate(results):
        write(tmp_path, f"gru-{number}", result)
        found.append(read_result(tmp_path / f"gru-{number}.json"))
    return "\n".join(provenance(Row("GRU", ("20.61",), tuple(found))))


def test_a_run_says_all_that_repeats_it(tmp_path):
    text = provenance_of(tmp_path, made_up("gru"))
    for part in (
        "<summary>GRU</summary>",
        "python -m attention_course.experiments.multi30k gru --seed 41\n",
        "steps 4540, batch_size 64, seed 41, beam 5, length_penalty 1.0",
        "validation set: epoch 7 (loss 1.700).",
        "Minutes on the clock: 101.",
        "processes: 2",
        f"torch {torch.__version__.split('+')[0]}",
        "BLEU by: `some:signature`.",
        "`train.de.gz` 01234567.",
    ):
        assert part in text, part


def test_several_runs_say_what_differs_and_once_what_does_not(tmp_path):
    averaged = {"steps": [4086, 4540], "held_out_loss": 1.6}
    second = changed(made_up("gru", 2), "versions", torch="3.0") | {
        "selected": averaged
    }
    halfway = {"steps": [227 * 15], "held_out_loss": 1.5}
    third = made_up("gru", 3) | {"selected": halfway}
    text = provenance_of(tmp_path, made_up("gru"), second, third)
    for part in (
        "<summary>GRU (3\u00a0seeds)</summary>",
        "--seed 41\npython -m",
        "epoch 7 (loss 1.700) / epoch 9 and 10, their mean (loss 1.600) / epoch 7.5 (loss 1.500)",
        "on the clock: 101 / 102 / 103.",
        "torch 3.0",
    ):
        assert part in text, part
    assert text.count("processes: 2") == text.count("train.de.gz") == 1
    assert text.count("numpy") == 2


def names_no_place_of_its_machine(result):
    words = result["command"].split()
    return not [word for word in words if PurePath(word).is_absolute()]


@pytest.mark.parametrize("path", TRIED, ids=lambda path: path.stem)
def test_a_committed_trial_is_on_the_page_and_names_no_place_of_its_machine(path):
    result = read_result(path)
    assert result["experiment"] == path.parent.parent.name
    assert result["model"] == path.parent.name.removesuffix("-trials")
    assert f"{path.parent.name}/{path.stem}" in [file for file, _ in TRIALS]
    assert names_no_place_of_its_machine(result)


@pytest.mark.parametrize("path", COMMITTED, ids=lambda path: path.stem)
def test_a_committed_result_is_on_the_page_and_names_no_place_of_its_machine(path):
    result = read_result(path)
    blocks = [
        rows
        for (_, experiment), rows in BLOCKS.items()
        if experiment == path.parent.name
    ]
    models = {file: model for rows in blocks for model, _, file in files(rows)}
    assert (result["experiment"], result["model"]) == (
        path.parent.name,
        models[path.stem],
    )
    assert names_no_place_of_its_machine(result)


@pytest.mark.parametrize("names", sorted({row[0] for row in TRANSLATORS}))
def test_the_runs_of_a_row_differ_in_their_seeds_only(names):
    runs = [read_result(FOLDER / "multi30k" / f"{file}.json") for file in names.split()]
    seeds = [run["arguments"].pop("seed") for run in runs]
    assert len(set(seeds)) == len(seeds)
    assert all(run["arguments"] == runs[0]["arguments"] for run in runs)


@pytest.mark.parametrize("path", [*COMMITTED, *TRIED], ids=lambda path: path.stem)
def test_a_committed_run_is_no_trial_on_less_data_and_has_what_chapters_read(path):
    run = read_result(path)
    limit = {"multi30k": "sentences", "imdb": "reviews"}[run["experiment"]]
    assert run["arguments"].get(limit) is None
    assert set(run["selected"]["steps"]) <= {one["step"] for one in run["history"]}
    translates = run["experiment"] == "multi30k" and path not in TRIED
    assert bool(run["sentences"]) == translates


def test_what_the_page_says_of_the_translators_is_so():
    runs = {
        file: read_result(FOLDER / "multi30k" / f"{file}.json")
        for *_, file in files(TRANSLATORS)
    }
    assert all(len(run["selected"]["steps"]) == 1 for run in runs.values())
    bleu = {file: run["test"]["greedy"]["bleu"] for file, run in runs.items()}
    mean = {
        name: statistics.mean(bleu[file] for file in names.split())
        for names, name, _ in TRANSLATORS
    }
    assert 12 < mean["GRU, Bahdanau"] - bleu["gru"] < 13
    for names, *_ in TRANSLATORS:
        seeds = [bleu[file] for file in names.split()]
        assert max(seeds) - min(seeds) < 1.05
    attentive = [bleu[file] for file in set(bleu) - {"gru", "lstm"}]
    assert round(min(attentive), 1) == 36.9
    assert round(max(attentive), 1) == 38.5
    assert min(x for file, x in bleu.items() if "transformer" in file) > 36.52
    for names, _, free, _ in PERPLEXITIES:
        if free != "–":
            ours = runs[names.split()[0]]["test"]["free_running"]["perplexity"]
            assert ours > 5 * float(free)


def gain(run):
    """What beam search gains over greedy decoding, in BLEU."""
    return run["test"]["beam"]["bleu"] - run["test"]["greedy"]["bleu"]


def test_what_the_page_says_of_the_trials_is_so():
    low, middle, much, slow = (
        read_result(FOLDER / "multi30k" / f"{file}.json") for file, _ in TRIALS
    )
    final = [run["history"][-1]["held_out_loss"] for run in (low, middle, much, slow)]
    assert final == sorted(final)
    gains = [gain(run) for run in (low, middle, much, slow)]
    assert [round(min(gains), 1), round(max(gains), 1)] == [1.4, 3.9]
    longer = [
        read_result(FOLDER / "multi30k" / f"{file}.json")
        for file in ("transformer", "transformer-1", "transformer-2")
    ]
    assert round(statistics.mean(map(gain, longer)), 1) == 0.8
    lowest = [run["selected"]["held_out_loss"] for run in longer]
    assert {f"{loss:.2f}" for loss in lowest} == {"1.57", "1.58"}


def test_what_the_page_says_of_the_epochs_is_so():
    theirs = [float(cell) for cell in REVIEWERS[0][2].split()]
    assert theirs[0] == max(theirs)
    assert round(theirs[0] - theirs[-1], 2) == 0.06
    runs = [read_result(FOLDER / "imdb" / f"{model}.json") for model, *_ in REVIEWERS]
    for run in runs:
        check_selection(run)
        assert run["selected"]["steps"] == [704]
    without, with_positions = ([r["accuracy"] for r in run["history"]] for run in runs)
    assert max(without) == without[0]
    assert without[-1] < without[0] - 0.05
    assert max(with_positions) == with_positions[1]
    assert [round(run["test"]["accuracy"], 2) for run in runs] == [0.85, 0.83]


def check_selection(run):
    """Each epoch trains on 22,500 reviews, and the one with the lowest validation loss is tested."""
    history, arguments = run["history"], run["arguments"]
    assert arguments["batch_size"] == 32
    assert [record["step"] for record in history] == [
        704 * epoch for epoch in range(1, len(history) + 1)
    ]
    best = min(history, key=lambda record: record["held_out_loss"])
    assert run["selected"]["steps"] == [best["step"]]


def test_what_the_page_says_of_words_and_sentences_is_so():
    runs = {
        model: read_result(FOLDER / "imdb" / f"{model}.json") for model, _ in READERS
    }
    for model, run in runs.items():
        check_selection(run)
        assert 1.30e6 < run["parameters"] < 1.33e6
        size = run["arguments"]["size"]
        assert size == (66 if model == "bag" else 64)
        assert 1.28e6 <= run["vocabularies"]["words"] * size <= 1.32e6
        assert (len(run["history"]), run["arguments"]["rate"]) == (3, 0.002)
        assert run["selected"]["steps"] == [1408 if model == "bag" else 704]
    accuracy = {model: run["test"]["accuracy"] for model, run in runs.items()}
    hierarchical, flat = accuracy["hierarchical-attention"], accuracy["flat-attention"]
    assert abs(hierarchical - flat) < 0.001
    assert hierarchical > accuracy["hierarchical-mean"] + 0.01
    assert 0 < hierarchical - accuracy["bag"] < 0.005
    seconds = {model: run["seconds"]["cpu"] for model, run in runs.items()}
    assert all(seconds[model] > 6 * seconds["bag"] for model in runs if model != "bag")


def test_the_numbers_of_parameters_in_the_text_are_those_of_the_models():
    german, english, embedding, hidden = 7_853, 5_893, 256, 512
    with torch.device("meta"):
        attention = Additive(hidden, 2 * hidden, hidden)
        models = {
            "LSTM": [
                SutskeverEncoder(german, embedding, hidden, pad=0),
                SutskeverDecoder(english, embedding, hidden),
            ],
            "GRU": [
                ChoEncoder(german, embedding, hidden, pad=0),
                ChoDecoder(english, embedding, hidden, hidden),
            ],
            "attention": [
                BahdanauEncoder(german, embedding, hidden, pad=0),
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
