import gzip
import hashlib
import json
import math
import os
import random
import re
import signal
import subprocess
import sys
import time

import pytest
import safetensors.torch
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from attention_course.data import multi30k as data
from attention_course.data.vocabulary import Vocabulary
from attention_course.experiments import multi30k
from attention_course.experiments.corpus import load_corpus
from attention_course.experiments.record import VERSION, read_result
from attention_course.training import sequence_loss
from attention_course.training.checkpoint import read
from companion.losses import Loss
from tests.course.training.together import LAUNCH, ON_THE_CPU

pytestmark = pytest.mark.slow

WORDS = {
    "hund": "dog",
    "katze": "cat",
    "mann": "man",
    "frau": "woman",
    "ball": "ball",
    "baum": "tree",
}
VERBS = {"sieht": "sees", "mag": "likes", "malt": "paints"}
LEFT_AT_THE_END = (
    "epochs",
    "seconds.json",
    "translations.txt",
    "vocabularies.json",
    "weights.safetensors",
)
SMALL = "--embedding 8 --hidden 16 --batch-size 8 --every 20 --rate 0.01"

# Files whose checksums were made up for a test count as originals in the process that runs the experiment.
WITH_CHECKSUMS = """
import json, sys
from attention_course.data import multi30k as data
from attention_course.experiments.multi30k import main
data.SHA256 |= json.loads(sys.argv.pop(1))
main()
"""


@pytest.fixture
def synthetic(tmp_path, monkeypatch):
    """A folder in the shape of Multi30k, with invented sentences, and the checksums of its files."""
    folder, generator, checksums = tmp_path / "data" / "multi30k", random.Random(0), {}
    folder.mkdir(parents=True)
    for split, count in {"train": 120, "val": 20, "test_2016_flickr": 20}.items():
        lines = {"de": [], "en": []}
        for _ in range(count):
            (who, person), (what, thing) = generator.choices(list(WORDS.items()), k=2)
            verb, action = generator.choice(list(VERBS.items()))
            lines["de"].append(f"Heute {verb} ein {who} den {what}.")
            lines["en"].append(f"Today a {person} {action} the {thing}.")
        for language, sentences in lines.items():
            content = gzip.compress(
                "".join(line + "\n" for line in sentences).encode(), mtime=0
            )
            (folder / f"{split}.{language}.gz").write_bytes(content)
            checksums[f"{split}.{language}.gz"] = hashlib.sha256(content).hexdigest()
    monkeypatch.setenv("COMPANION_DATA", str(folder.parent))
    for name, checksum in checksums.items():
        monkeypatch.setitem(data.SHA256, name, checksum)
    return checksums


def arguments(output, model="bahdanau", more=""):
    return multi30k.parser().parse_args(
        f"{model} --output {output} {SMALL} {more}".split()
    )


def run(output, **kwargs):
    return multi30k.run(arguments(output, **kwargs), ["a", "b c"])


def start(checksums, output, steps, more=""):
    program = ["-c", WITH_CHECKSUMS, json.dumps(checksums)]
    options = f"bahdanau --output {output} --steps {steps} {SMALL} {more}".split()
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, *program, *options],
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process):
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    return errors


def figures(folder):
    return {
        key: value
        for key, value in json.loads((folder / "result.json").read_text()).items()
        if key not in ("command", "seconds")
    }


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def curve(folder):
    """The steps of the validation loss as TensorBoard shows them."""
    events = EventAccumulator(str(folder)).Reload()
    return [event.step for event in events.Scalars("held_out_loss")]


def kill_after_the_first_checkpoint(process, folder):
    """SIGKILL at some moment: while it trains, validates or writes, whatever it is at."""
    for _ in range(2400):
        if (folder / "checkpoint.pt").exists() or process.poll() is not None:
            break
        time.sleep(0.05)
    time.sleep(random.uniform(0, 0.5))
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL, "it ended before it could be killed"


def killed_and_resumed_equals_uninterrupted(tmp_path, checksums, steps, more=""):
    uninterrupted = start(checksums, tmp_path / "whole", steps, more)
    broken = tmp_path / "broken"
    kill_after_the_first_checkpoint(start(checksums, broken, steps, more), broken)
    assert not (broken / "result.json").exists()
    reached = read(broken / "checkpoint.pt")["step"]
    assert 20 <= reached < steps
    assert f"{reached}/{steps}" in finish(start(checksums, broken, steps, more))
    finish(uninterrupted)
    assert figures(broken) == figures(tmp_path / "whole")
    weights = [
        safetensors.torch.load_file(folder / "weights.safetensors")
        for folder in (broken, tmp_path / "whole")
    ]
    assert weights[0].keys() == weights[1].keys()
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    assert (broken / "translations.txt").read_text() == (
        tmp_path / "whole" / "translations.txt"
    ).read_text()
    assert curve(broken) == curve(tmp_path / "whole") == list(range(20, steps + 1, 20))
    names = {
        path.name
        for path in broken.iterdir()
        if not path.name.startswith("events.out.tfevents.")
    }
    assert names == {"arguments.json", "checkpoint.pt", "result.json", *LEFT_AT_THE_END}
    assert {path.name for path in (broken / "epochs").iterdir()} == {
        path.name for path in (tmp_path / "whole" / "epochs").iterdir()
    }


def test_killed_and_resumed_it_ends_with_the_same_numbers(tmp_path, synthetic):
    killed_and_resumed_equals_uninterrupted(
        tmp_path, synthetic, steps=300, more="--average 3"
    )


@pytest.mark.data
def test_killed_and_resumed_on_real_sentences(tmp_path):
    killed_and_resumed_equals_uninterrupted(
        tmp_path, {}, steps=200, more="--sentences 60"
    )


@pytest.mark.parametrize(
    ("model", "steps", "more"),
    [
        ("gru", 240, ""),
        ("lstm", 240, ""),
        ("bahdanau", 240, ""),
        ("luong-dot", 480, "--rate 0.02 --layers 1"),
        ("luong-general", 480, "--rate 0.02 --layers 1"),
        ("luong-general-no-feeding", 480, "--rate 0.02 --layers 1"),
        ("luong-local-p", 480, "--rate 0.02 --layers 1"),
        ("convs2s", 240, ""),
        ("transformer", 120, "--average 2"),
        ("transformer-pre-norm", 120, ""),
    ],
)
def test_a_run_leaves_its_figures_and_weights(tmp_path, synthetic, model, steps, more):
    result = run(
        tmp_path / "run", model=model, more=f"--steps {steps} --dropout 0 {more}"
    )
    assert read_result(tmp_path / "run" / "result.json") == result
    assert (result["version"], result["experiment"], result["model"]) == (
        VERSION,
        "multi30k",
        model,
    )
    assert [record["step"] for record in result["history"]] == list(
        range(20, steps + 1, 20)
    )
    assert {"step", "loss", "held_out_loss", "perplexity"} == set(result["history"][0])
    lowest = min(record["held_out_loss"] for record in result["history"])
    assert result["selected"]["held_out_loss"] <= lowest
    assert result["seconds"]["cpu"] > 0
    assert result["test"]["perplexity"] < 3
    assert result["test"]["free_running"]["perplexity"] > 1
    for search in ("greedy", "beam"):
        assert result["test"][search]["bleu"] > (50 if model == "bahdanau" else 15)
        assert "tok:none" in result["test"][search]["signature"]
        assert "version:" in result["test"][search]["signature"]
    assert result["data"] == synthetic
    assert result["arguments"]["seed"] == 0
    assert (
        result["command"] == "python -m attention_course.experiments.multi30k a 'b c'"
    )
    assert result["versions"]["torch"] == torch.__version__
    assert result["hardware"]["processes"] == 1
    weights = safetensors.torch.load_file(tmp_path / "run" / "weights.safetensors")
    options = arguments(tmp_path / "run", model, more)
    again = options.build(*result["vocabularies"].values(), options)
    again.load_state_dict(weights)
    assert (
        sum(parameter.numel() for parameter in again.parameters())
        == result["parameters"]
    )


def test_two_processes_leave_the_files_of_one(tmp_path, synthetic):
    alone = run(tmp_path / "one", more="--steps 20 --dropout 0")
    (tmp_path / "program.py").write_text(WITH_CHECKSUMS)
    program = [
        sys.executable,
        *LAUNCH.split(),
        str(tmp_path / "program.py"),
        json.dumps(synthetic),
    ]
    options = f"bahdanau --output {tmp_path / 'two'} {SMALL} --steps 20 --dropout 0"
    done = subprocess.run(
        [*program, *options.split()],
        env=os.environ | ON_THE_CPU,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    together = read_result(tmp_path / "two" / "result.json")
    assert json.loads(done.stdout) == together["test"]  # the main process alone prints
    assert together["hardware"]["processes"] == 2
    launcher = "accelerate launch --multi_gpu --num_processes 2 -m attention_course.experiments.multi30k "
    assert together["command"] == launcher + options
    assert together["history"][0] == pytest.approx(
        alone["history"][0], rel=0.02
    )  # a GPU rounds more
    assert len(list((tmp_path / "two").glob("events.out.tfevents.*"))) == 1


def test_the_corpus_is_limited_and_in_numbers(synthetic):
    corpus = load_corpus(10)
    assert {
        split: len(pairs) for split, pairs in corpus.pairs.items()
    } == dict.fromkeys(corpus.pairs, 10)
    source, target = corpus.pairs["test_2016_flickr"][0]
    assert corpus.source.decode(source)[0] == "heute"
    assert corpus.target.decode(target)[0] == "today"
    assert corpus.references[0].startswith("today a ")
    assert corpus.references[0].endswith(" .")


def test_the_beams_translations_are_left_as_text(tmp_path, synthetic):
    run(tmp_path / "run", more="--steps 240 --dropout 0")
    lines = (tmp_path / "run" / "translations.txt").read_text().splitlines()
    references = load_corpus(None).references
    assert len(lines) == len(references)
    assert (
        sum(
            line == reference for line, reference in zip(lines, references, strict=True)
        )
        > 5
    )


@pytest.mark.data
def test_the_setting_is_that_of_the_tutorials():
    corpus = load_corpus(None)
    assert (len(corpus.source), len(corpus.target)) == (7853, 5893)
    assert [len(pairs) for pairs in corpus.pairs.values()] == [29_000, 1014, 1000]
    lstm = multi30k.parser().parse_args(["lstm"])
    model = lstm.build(len(corpus.source), len(corpus.target), lstm)
    assert sum(parameter.numel() for parameter in model.parameters()) == 13_898_501


def test_a_finished_run_started_again_says_the_same(tmp_path, synthetic):
    first = run(tmp_path / "run", more="--steps 40")
    assert run(tmp_path / "run", more="--steps 40") == first


def test_the_checkpoint_of_other_arguments_is_refused(tmp_path, synthetic):
    run(tmp_path / "run", more="--steps 20")
    before = contents(tmp_path / "run")
    with pytest.raises(
        ValueError, match=r"run holds a run with seed = 0, but now seed = 1"
    ):
        run(tmp_path / "run", more="--steps 20 --seed 1")
    assert contents(tmp_path / "run") == before


def test_a_truncated_checkpoint_is_refused_and_kept(tmp_path, synthetic):
    run(tmp_path / "run", more="--steps 20")
    path = tmp_path / "run" / "checkpoint.pt"
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(
        ValueError, match=r"checkpoint\.pt is no checkpoint, or not whole"
    ):
        run(tmp_path / "run", more="--steps 20")
    assert len(path.read_bytes()) == 500


def test_another_search_needs_no_training(tmp_path, synthetic):
    first = run(tmp_path / "run", more="--steps 40")
    checkpoint = tmp_path / "run" / "checkpoint.pt"
    before = checkpoint.stat().st_mtime_ns
    assert (first["arguments"]["beam"], first["arguments"]["length_penalty"]) == (
        5,
        1.0,
    )
    second = run(tmp_path / "run", more="--steps 40 --beam 1 --length-penalty 0.5")
    assert second["arguments"] == first["arguments"] | {
        "beam": 1,
        "length_penalty": 0.5,
    }
    assert second["history"] == first["history"]
    assert second["test"]["greedy"] == second["test"]["beam"] == first["test"]["greedy"]
    assert checkpoint.stat().st_mtime_ns == before


def test_arguments_that_no_model_can_be_made_of_leave_nothing(tmp_path, synthetic):
    with pytest.raises(ValueError, match="must be even"):
        run(tmp_path / "run", model="gru", more="--hidden 7")
    assert not (tmp_path / "run").exists()
    run(tmp_path / "run", model="gru", more="--steps 1 --hidden 8")


def test_an_error_is_reported_in_one_line(tmp_path, synthetic, monkeypatch, capsys):
    options = f"gru --output {tmp_path / 'run'} {SMALL} --steps 1 --sentences 10"
    monkeypatch.setattr(sys, "argv", ["multi30k", *options.split()])
    multi30k.main()
    assert "bleu" in json.loads(capsys.readouterr().out)["beam"]
    monkeypatch.setattr(sys, "argv", ["multi30k", *options.split(), "--seed", "1"])
    with pytest.raises(SystemExit) as stopped:
        multi30k.main()
    assert stopped.value.code == 2
    assert "run holds a run with seed = 0, but now seed = 1" in capsys.readouterr().err
    monkeypatch.setenv("COMPANION_DATA", str(tmp_path / "empty"))
    with pytest.raises(SystemExit):
        multi30k.main()
    assert "train.de.gz is not in" in capsys.readouterr().err


def diverging_loss(model, batch):
    found = sequence_loss(model, batch)
    return Loss(found.total * math.nan, found.count)


def test_a_training_that_diverges_is_reported_in_one_line(
    tmp_path, synthetic, monkeypatch, capsys
):
    options = f"gru --output {tmp_path / 'run'} {SMALL} --steps 20 --sentences 10"
    monkeypatch.setattr(sys, "argv", ["multi30k", *options.split()])
    monkeypatch.setattr(multi30k, "LabelSmoothing", lambda epsilon: diverging_loss)
    with pytest.raises(SystemExit) as stopped:
        multi30k.main()
    assert stopped.value.code == 2
    assert re.search(
        r"error: the loss of step 0 is nan; no parameter changed",
        capsys.readouterr().err,
    )


def test_without_a_named_folder_a_run_goes_to_one_of_its_model(
    tmp_path, synthetic, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    options = f"gru {SMALL} --steps 1 --sentences 10"
    multi30k.run(multi30k.parser().parse_args(options.split()), [])
    assert (tmp_path / "runs" / "gru" / "result.json").exists()


def test_the_weights_can_be_used_elsewhere(tmp_path, synthetic):
    run(tmp_path / "run", more="--steps 1")
    words = json.loads((tmp_path / "run" / "vocabularies.json").read_text())
    corpus = load_corpus(None)
    assert Vocabulary(words["de"]).tokens == corpus.source.tokens
    assert Vocabulary(words["en"]).tokens == corpus.target.tokens


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("gpt --output x", "invalid choice: 'gpt'"),
        ("", "required: MODEL"),
        ("gru --layers 2", "unrecognized arguments: --layers 2"),
        ("lstm --layers 0", "--layers: 0 is below 1"),
        ("convs2s --heads 2", "unrecognized arguments: --heads 2"),
        ("luong-dot --radius 3", "unrecognized arguments: --radius 3"),
        ("gru --output x --steps 0", "--steps: 0 is below 1"),
        ("gru --output x --hidden many", "--hidden: invalid positive value: 'many'"),
        ("gru --output x --dropout 1", "--dropout: 1 is not at least 0 and below 1"),
        ("gru --output x --dropout nan", "--dropout: nan is not"),
        ("gru --output x --rate fast", "--rate: invalid float value: 'fast'"),
        ("gru --smoothing -0.1", "--smoothing: -0.1 is not at least 0 and below 1"),
    ],
)
def test_bad_options_are_named(options, message, capsys):
    with pytest.raises(SystemExit):
        multi30k.parser().parse_args(options.split())
    assert message in capsys.readouterr().err


def test_a_checkpoint_knows_the_arguments_of_its_run(tmp_path, synthetic):
    """Other batches, but the same model: the folder's file of arguments is gone."""
    run(tmp_path / "run", model="gru", more="--steps 1 --sentences 10")
    (tmp_path / "run" / "arguments.json").unlink()
    with pytest.raises(
        ValueError,
        match=r"checkpoint\.pt is of another training: its argument batch_size is 8, here 4",
    ):
        run(
            tmp_path / "run",
            model="gru",
            more="--steps 1 --sentences 10 --batch-size 4",
        )


def test_what_a_killed_run_left_is_removed_at_the_next_start(tmp_path, synthetic):
    options = {"model": "gru", "more": "--steps 1 --sentences 10"}
    run(tmp_path / "run", **options)
    left = tmp_path / "run" / "weights.safetensors.0a1b2c3d.partial"
    left.write_bytes(b"half")
    other = tmp_path / "run" / "notes.partial"
    other.write_bytes(b"not ours")
    multi30k.Run(
        "multi30k",
        multi30k.make_trainer(load_corpus(10), arguments(tmp_path / "run", **options)),
        arguments(tmp_path / "run", **options),
        [],
        ("beam", "length_penalty"),
    )
    assert not left.exists()
    assert other.exists()


def test_no_data_is_refused_before_training(tmp_path, monkeypatch):
    monkeypatch.setenv("COMPANION_DATA", str(tmp_path / "empty"))
    with pytest.raises(FileNotFoundError, match=r"train\.de\.gz is not in .*empty"):
        run(tmp_path / "run", more="--steps 20")
    assert not (tmp_path / "run").exists()
