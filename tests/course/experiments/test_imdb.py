import hashlib
import io
import json
import math
import os
import random
import re
import subprocess
import sys
import tarfile

import pytest
import safetensors.torch
import torch

from attention_course.data import imdb as data
from attention_course.experiments import imdb
from attention_course.experiments.record import VERSION, read_result
from attention_course.experiments.reviewers import BUILDERS
from attention_course.experiments.reviews import (
    collate_sentences,
    collate_words,
    last_words,
    load_reviews,
)
from tests.course.training.together import LAUNCH, ON_THE_CPU

pytestmark = pytest.mark.slow

OPINIONS = {"pos": ["superb", "moving", "funny"], "neg": ["awful", "boring", "stale"]}
FILLERS = ["a", "film", "plot", "the", "it's", "actor"]
IN_A_CLASS = 60
SMALL = "--size 8 --heads 2 --batch-size 10 --every 12 --rate 0.02 --length 6"

# An archive whose checksum was made up for a test counts as the original in the process of the experiment.
WITH_CHECKSUM = """
import sys
from attention_course.data import imdb as data
from attention_course.experiments.imdb import main
data.SHA256["aclImdb.tar.xz"] = sys.argv.pop(1)
main()
"""


def invent():
    """Reviews of four words, by their paths in the archive."""
    generator, texts = random.Random(0), {}
    for split in ("test", "train"):
        for label, opinions in OPINIONS.items():
            for number in range(IN_A_CLASS):
                words = [*generator.choices(FILLERS, k=6), generator.choice(opinions)]
                chosen = generator.sample(words[: 3 + number % 5] + words[-1:], k=4)
                texts[f"{split}/{label}/{number}_5.txt"] = " ".join(chosen)
    return texts


@pytest.fixture
def synthetic(tmp_path, monkeypatch):
    """A small archive of invented reviews, and its checksum."""
    return provide(invent(), tmp_path, monkeypatch)


def provide(texts, tmp_path, monkeypatch):
    """Write the texts into an archive that counts as the original, and return its checksum."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:xz") as packed:
        for name, text in texts.items():
            entry = tarfile.TarInfo(f"aclImdb/{name}")
            entry.size = len(text.encode())
            packed.addfile(entry, io.BytesIO(text.encode()))
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "aclImdb.tar.xz").write_bytes(buffer.getvalue())
    checksum = hashlib.sha256(buffer.getvalue()).hexdigest()
    monkeypatch.setenv("COMPANION_DATA", str(tmp_path / "data"))
    monkeypatch.setitem(data.SHA256, "aclImdb.tar.xz", checksum)
    return checksum


def run(output, model="attention", more="--steps 24"):
    options = f"{model} --output {output} {SMALL} {more}".split()
    return imdb.run(imdb.parser().parse_args(options), ["a", "b c"])


@pytest.mark.parametrize("model", BUILDERS)
def test_a_run_leaves_its_figures_and_weights(tmp_path, synthetic, model):
    result = run(tmp_path / "run", model, "--steps 60")
    assert read_result(tmp_path / "run" / "result.json") == result
    assert (result["version"], result["experiment"], result["model"]) == (
        VERSION,
        "imdb",
        model,
    )
    assert [record["step"] for record in result["history"]] == [12, 24, 36, 48, 60]
    assert {"step", "loss", "held_out_loss", "accuracy"} == set(result["history"][0])
    best = min(result["history"], key=lambda record: record["held_out_loss"])
    assert result["selected"] == {"steps": [best["step"]]} | {
        name: best[name] for name in ("held_out_loss", "accuracy")
    }
    assert result["test"] != result["selected"]
    assert result["test"]["accuracy"] > 0.75
    assert result["vocabularies"] == {"words": 4 + len(FILLERS) + 6}
    assert result["data"] == {"aclImdb.tar.xz": synthetic}
    assert result["command"] == "python -m attention_course.experiments.imdb a 'b c'"
    weights = safetensors.torch.load_file(tmp_path / "run" / "weights.safetensors")
    assert sum(weight.numel() for weight in weights.values()) == result["parameters"]
    names = {
        path.name
        for path in (tmp_path / "run").iterdir()
        if "tfevents" not in path.name
    }
    others = {
        "epochs",
        "seconds.json",
        "weights.safetensors",
        "vocabularies.json",
        "result.json",
    }
    assert names == {"arguments.json", "checkpoint.pt", *others}


def test_stopped_and_resumed_it_ends_with_the_same_bytes(
    tmp_path, synthetic, monkeypatch
):
    run(tmp_path / "whole", more="--steps 48")
    evaluated, evaluate = [], imdb.evaluate

    def stop_at_the_third(model, test):
        evaluated.append(len(test))
        if len(evaluated) == 3:
            raise KeyboardInterrupt
        return evaluate(model, test)

    monkeypatch.setattr(imdb, "evaluate", stop_at_the_third)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "broken", more="--steps 48")
    assert not (tmp_path / "broken" / "result.json").exists()
    torch.manual_seed(1)
    run(tmp_path / "broken", more="--steps 48")
    # what had been evaluated was not evaluated again: four epochs, and the test set
    assert len(evaluated) == 6
    whole, broken = (
        read_result(tmp_path / name / "result.json") for name in ("whole", "broken")
    )
    assert whole | {"seconds": broken["seconds"]} == broken
    for name in ("weights.safetensors", "vocabularies.json"):
        assert (tmp_path / "broken" / name).read_bytes() == (
            tmp_path / "whole" / name
        ).read_bytes()


def test_two_processes_leave_the_files_of_one(tmp_path, synthetic):
    alone = run(tmp_path / "one", more="--steps 12 --dropout 0")
    (tmp_path / "program.py").write_text(WITH_CHECKSUM)
    options = (
        f"attention --output {tmp_path / 'two'} {SMALL} --steps 12 --dropout 0".split()
    )
    program = [
        sys.executable,
        *LAUNCH.split(),
        str(tmp_path / "program.py"),
        synthetic,
        *options,
    ]
    done = subprocess.run(
        program,
        env=os.environ | ON_THE_CPU,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    together = read_result(tmp_path / "two" / "result.json")
    assert json.loads(done.stdout) == together["test"]
    assert together["hardware"]["processes"] == 2
    assert together["history"][0] == pytest.approx(alone["history"][0], rel=0.02)


def test_reviews_are_the_ids_of_their_last_words(synthetic):
    reviews = load_reviews(None, 100, 3)
    assert {split: len(examples) for split, examples in reviews.examples.items()} == {
        "train": 108,
        "validation": 12,
        "test": 120,
    }
    assert {len(example.words) for example in reviews.examples["train"]} == {3}
    first, example = data.load("train")[1], reviews.examples["train"][1]
    assert reviews.words.decode(example.words) == data.words(first.text)[-3:]
    assert example.positive == first.positive
    assert len(load_reviews(10, 100, 3).examples["test"]) == 10


def test_the_most_frequent_words_are_in_the_vocabulary(synthetic):
    everything, few = load_reviews(None, 100, 5), load_reviews(None, 7, 5)
    assert few.words.tokens == everything.words.tokens[:7]
    assert {
        number for example in few.examples["train"] for number in example.words
    } == {3, 4, 5, 6}
    assert load_reviews(None, 1, 5).words.tokens == everything.words.tokens[:4]


def test_the_vocabulary_is_of_all_words_of_the_training_split_alone(
    tmp_path, monkeypatch
):
    unread, unseen = (
        {"train/pos/3_5.txt": "unread " * 99 + "it's superb"},
        {"test/neg/2_5.txt": "unseen film"},
    )
    provide(invent() | unread | unseen, tmp_path, monkeypatch)
    reviews = load_reviews(None, 100, 2)
    assert reviews.words.tokens[4] == "unread"
    assert "unseen" not in reviews.words.tokens
    assert reviews.words.decode(reviews.examples["train"][7].words) == [
        "it's",
        "superb",
    ]
    assert reviews.words.decode(reviews.examples["test"][4].words) == ["<unk>", "film"]


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (1, [["f"]]),
        (2, [["e", "f"]]),
        (3, [["d"], ["e", "f"]]),
        (5, [["b", "c"], ["d"], ["e", "f"]]),
    ],
)
def test_the_last_words_stay_in_their_sentences(count, expected):
    assert last_words([["a", "b", "c"], ["d"], ["e", "f"]], count) == expected
    assert last_words([["a"], ["b"]], 9) == [["a"], ["b"]]


def test_a_batch_is_one_sequence_of_words_or_has_sentences(tmp_path, monkeypatch):
    provide(invent() | {"train/neg/0_5.txt": "a film. awful"}, tmp_path, monkeypatch)
    reviews = load_reviews(3, 100, 5)  # one of them to validate on
    film = reviews.words.encode(["a", "film", "awful"])
    flat, nested = (
        collate(reviews.examples["train"])
        for collate in (collate_words, collate_sentences)
    )
    assert flat.inputs[0].shape == (2, 4)
    assert flat.inputs[0][0].tolist() == [*film, 0]
    assert nested.inputs[0].shape == (2, 2, 4)
    assert nested.inputs[0][0].tolist() == [[*film[:2], 0, 0], [film[2], 0, 0, 0]]
    assert flat.labels.tolist() == nested.labels.tolist() == [0, 1]


def test_a_review_without_a_word_is_named(tmp_path, monkeypatch):
    provide(invent() | {"test/neg/2_5.txt": "...!"}, tmp_path, monkeypatch)
    with pytest.raises(
        ValueError, match=r"review 4 \(from 0\) of the split test has no word"
    ):
        run(tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_data_may_be_gone_when_training_has_ended(tmp_path, synthetic, monkeypatch):
    def evaluate(model, test):
        (tmp_path / "data" / "aclImdb.tar.xz").unlink(missing_ok=True)
        return {"held_out_loss": 0.5, "accuracy": 0.75}

    monkeypatch.setattr(imdb, "evaluate", evaluate)
    assert run(tmp_path / "run")["data"] == {"aclImdb.tar.xz": synthetic}


def test_other_arguments_and_a_damaged_checkpoint_are_refused(tmp_path, synthetic):
    run(tmp_path / "run")
    with pytest.raises(
        ValueError, match=r"run holds a run with seed = 0, but now seed = 1"
    ):
        run(tmp_path / "run", more="--steps 24 --seed 1")
    (tmp_path / "run" / "checkpoint.pt").write_bytes(b"PK")
    with pytest.raises(
        ValueError, match=r"checkpoint\.pt is no checkpoint, or not whole"
    ):
        run(tmp_path / "run")


def test_an_error_is_reported_in_one_line(tmp_path, synthetic, monkeypatch, capsys):
    options = f"attention --output {tmp_path / 'run'} {SMALL} --steps 2 --reviews 10"
    monkeypatch.setattr(sys, "argv", ["imdb", *options.split()])
    imdb.main()
    assert "accuracy" in json.loads(capsys.readouterr().out)
    monkeypatch.setattr(
        sys, "argv", ["imdb", *options.replace("--heads 2", "--heads 3").split()]
    )
    with pytest.raises(SystemExit) as stopped:
        imdb.main()
    assert stopped.value.code == 2
    assert re.search("8 .*by 3 heads", capsys.readouterr().err)
    monkeypatch.setenv("COMPANION_DATA", str(tmp_path / "empty"))
    with pytest.raises(SystemExit):
        imdb.main()
    assert "aclImdb_v1.tar.gz or aclImdb.tar.xz is not in" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("", "required: MODEL"),
        ("lstm", "invalid choice: 'lstm'"),
        ("attention --beam 3", "unrecognized arguments: --beam 3"),
        ("attention --words 0", "--words: 0 is below 1"),
        ("attention --dropout 1", "--dropout: 1 is not at least 0 and below 1"),
    ],
)
def test_bad_options_are_named(options, message, capsys):
    with pytest.raises(SystemExit):
        imdb.parser().parse_args(options.split())
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "parameters"),
    [("attention", 2_560_000 + 66_048 + 258), ("attention-positions", 2_659_202)],
)
def test_the_setting_is_that_of_the_article(name, parameters):
    arguments = imdb.parser().parse_args([name])
    model = arguments.build(arguments.words, arguments)
    assert sum(parameter.numel() for parameter in model.parameters()) == parameters
    assert model.encoder.attention.heads == 8
    assert model.dropout.p == 0.5
    assert (
        arguments.length,
        arguments.batch_size,
        arguments.rate,
        arguments.dropout,
    ) == (100, 32, 1e-3, 0.5)
    assert (arguments.steps, arguments.every) == (7040, 704)
    assert 703 * 32 < 22_500 <= 704 * 32


def test_the_rate_is_constant_and_gradients_are_not_clipped(synthetic):
    arguments = imdb.parser().parse_args(f"attention {SMALL}".split())
    trainer = imdb.make_trainer(load_reviews(None, 100, 5), arguments)
    assert trainer.schedule is None
    assert trainer.clip == math.inf
    assert trainer.optimizer.param_groups[0]["lr"] == 0.02
