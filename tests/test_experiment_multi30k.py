import gzip
import hashlib
import json
import math
import os
import random
import signal
import subprocess
import sys
import time

import pytest
import safetensors.torch
import torch

from companion.checkpoint import read
from companion.data import multi30k as data
from companion.data.vocabulary import Vocabulary
from companion.experiments import multi30k
from companion.experiments.record import require_same_arguments, write_json

WORDS = {"hund": "dog", "katze": "cat", "mann": "man", "frau": "woman", "ball": "ball", "baum": "tree"}
VERBS = {"sieht": "sees", "mag": "likes", "malt": "paints"}
SMALL = "--embedding 8 --hidden 16 --batch-size 8 --every 20 --rate 0.01"

# Files whose checksums were made up for a test count as originals in the process that runs the experiment.
WITH_CHECKSUMS = """
import json, sys
from companion.data import multi30k as data
from companion.experiments.multi30k import main
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
            content = gzip.compress("".join(line + "\n" for line in sentences).encode(), mtime=0)
            (folder / f"{split}.{language}.gz").write_bytes(content)
            checksums[f"{split}.{language}.gz"] = hashlib.sha256(content).hexdigest()
    monkeypatch.setenv("COMPANION_DATA", str(folder.parent))
    for name, checksum in checksums.items():
        monkeypatch.setitem(data.SHA256, name, checksum)
    return checksums


def arguments(output, model="bahdanau", more=""):
    return multi30k.parser().parse_args(f"--model {model} --output {output} {SMALL} {more}".split())


def run(output, **kwargs):
    return multi30k.run(arguments(output, **kwargs), "a command")


def start(checksums, output, steps, more=""):
    program = ["-c", WITH_CHECKSUMS, json.dumps(checksums)]
    options = f"--model bahdanau --output {output} --steps {steps} {SMALL} {more}".split()
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, *program, *options], env=environment, stderr=subprocess.PIPE, text=True
    )


def finish(process):
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    return errors


def figures(folder):
    return {
        key: value
        for key, value in json.loads((folder / "result.json").read_text()).items()
        if key != "command"
    }


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
        safetensors.torch.load_file(folder / "weights.safetensors") for folder in (broken, tmp_path / "whole")
    ]
    assert weights[0].keys() == weights[1].keys()
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    names = ["arguments.json", "checkpoint.pt", "result.json", "vocabularies.json", "weights.safetensors"]
    assert sorted(path.name for path in broken.iterdir()) == names


def test_killed_and_resumed_it_ends_with_the_same_numbers(tmp_path, synthetic):
    killed_and_resumed_equals_uninterrupted(tmp_path, synthetic, steps=300)


@pytest.mark.data
@pytest.mark.skipif("COMPANION_DATA" not in os.environ, reason="COMPANION_DATA is not set")
def test_killed_and_resumed_on_real_sentences(tmp_path):
    killed_and_resumed_equals_uninterrupted(tmp_path, {}, steps=200, more="--sentences 60")


@pytest.mark.parametrize(
    ("model", "search"), [("gru", ""), ("bahdanau", ""), ("bahdanau", "--beam 3 --length-penalty 1")]
)
def test_a_run_leaves_its_figures_and_weights(tmp_path, synthetic, model, search):
    result = run(tmp_path / "run", model=model, more=f"--steps 240 --dropout 0 {search}")
    assert json.loads((tmp_path / "run" / "result.json").read_text()) == result
    assert [record["step"] for record in result["history"]] == list(range(20, 241, 20))
    assert {"step", "loss", "held_out_loss", "perplexity"} == set(result["history"][0])
    assert result["test"]["perplexity"] < 3
    assert result["test"]["bleu"] > (50 if model == "bahdanau" else 15)
    assert "tok:none" in result["test"]["sacrebleu"]
    assert "version:" in result["test"]["sacrebleu"]
    assert result["data"] == synthetic
    assert result["arguments"]["seed"] == 0
    assert result["command"] == "a command"
    assert result["versions"]["torch"] == torch.__version__
    weights = safetensors.torch.load_file(tmp_path / "run" / "weights.safetensors")
    assert sum(weight.numel() for weight in weights.values()) == result["parameters"]


def test_the_corpus_is_limited_and_in_numbers(synthetic):
    corpus = multi30k.load_corpus(10)
    assert {split: len(pairs) for split, pairs in corpus.pairs.items()} == dict.fromkeys(corpus.pairs, 10)
    source, target = corpus.pairs["test_2016_flickr"][0]
    assert corpus.source.decode(source)[0] == "heute"
    assert corpus.target.decode(target)[0] == "today"
    assert corpus.references[0].startswith("today a ")
    assert corpus.references[0].endswith(" .")


def test_a_finished_run_started_again_says_the_same(tmp_path, synthetic):
    first = run(tmp_path / "run", more="--steps 40")
    assert run(tmp_path / "run", more="--steps 40") == first


def test_the_checkpoint_of_other_arguments_is_refused(tmp_path, synthetic):
    run(tmp_path / "run", more="--steps 20")
    before = {path: path.read_bytes() for path in (tmp_path / "run").iterdir()}
    with pytest.raises(ValueError, match=r"run holds a run with seed = 0, but now seed = 1"):
        run(tmp_path / "run", more="--steps 20 --seed 1")
    assert {path: path.read_bytes() for path in (tmp_path / "run").iterdir()} == before


def test_a_truncated_checkpoint_is_refused_and_kept(tmp_path, synthetic):
    run(tmp_path / "run", more="--steps 20")
    path = tmp_path / "run" / "checkpoint.pt"
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(ValueError, match=r"checkpoint\.pt is no checkpoint, or not whole"):
        run(tmp_path / "run", more="--steps 20")
    assert len(path.read_bytes()) == 500


def test_another_search_needs_no_training(tmp_path, synthetic):
    first = run(tmp_path / "run", more="--steps 40")
    checkpoint = tmp_path / "run" / "checkpoint.pt"
    before = checkpoint.stat().st_mtime_ns
    second = run(tmp_path / "run", more="--steps 40 --beam 3 --length-penalty 0.5")
    assert second["arguments"] == first["arguments"] | {"beam": 3, "length_penalty": 0.5}
    assert second["history"] == first["history"]
    assert checkpoint.stat().st_mtime_ns == before


def test_arguments_that_no_model_can_be_made_of_leave_nothing(tmp_path, synthetic):
    with pytest.raises(ValueError, match="must be even"):
        run(tmp_path / "run", model="gru", more="--hidden 7")
    assert not (tmp_path / "run").exists()
    run(tmp_path / "run", model="gru", more="--steps 1 --hidden 8")


def test_what_is_wrong_is_said_in_a_line(tmp_path, synthetic, monkeypatch, capsys):
    options = f"--model gru --output {tmp_path / 'run'} {SMALL} --steps 1 --sentences 10"
    monkeypatch.setattr(sys, "argv", ["multi30k", *options.split()])
    multi30k.main()
    assert "bleu" in json.loads(capsys.readouterr().out)
    monkeypatch.setattr(sys, "argv", ["multi30k", *options.split(), "--seed", "1"])
    with pytest.raises(SystemExit) as stopped:
        multi30k.main()
    assert stopped.value.code == 2
    assert "run holds a run with seed = 0, but now seed = 1" in capsys.readouterr().err
    monkeypatch.setenv("COMPANION_DATA", str(tmp_path / "empty"))
    with pytest.raises(SystemExit):
        multi30k.main()
    assert "train.de.gz is not in" in capsys.readouterr().err


def test_without_a_named_folder_a_run_goes_to_one_of_its_model(tmp_path, synthetic, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = f"--model gru {SMALL} --steps 1 --sentences 10"
    multi30k.run(multi30k.parser().parse_args(options.split()), "a command")
    assert (tmp_path / "runs" / "gru" / "result.json").exists()


def test_the_weights_can_be_used_elsewhere(tmp_path, synthetic):
    run(tmp_path / "run", more="--steps 1")
    words = json.loads((tmp_path / "run" / "vocabularies.json").read_text())
    corpus = multi30k.load_corpus(None)
    assert Vocabulary(words["de"]).tokens == corpus.source.tokens
    assert Vocabulary(words["en"]).tokens == corpus.target.tokens


@pytest.mark.parametrize("content", ['{"seed": ', "[]", '"seed"'])
def test_damaged_arguments_are_named(tmp_path, content):
    (tmp_path / "arguments.json").write_text(content)
    with pytest.raises(ValueError, match=r"arguments\.json is damaged"):
        require_same_arguments(tmp_path, {"seed": 0})


def test_json_that_cannot_be_written_leaves_nothing(tmp_path):
    with pytest.raises(ValueError, match="nan"):
        write_json(tmp_path / "result.json", {"perplexity": float("nan")})
    assert not list(tmp_path.iterdir())


def test_infinity_is_null_in_json(tmp_path):
    figures = {"history": [{"step": 1, "perplexity": math.inf}], "test": {"bleu": 0.0}}
    write_json(tmp_path / "result.json", figures)
    expected = {"history": [{"step": 1, "perplexity": None}], "test": {"bleu": 0.0}}
    assert json.loads((tmp_path / "result.json").read_text()) == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--model gpt --output x", "invalid choice: 'gpt'"),
        ("--output x", "required: --model"),
        ("--model gru --output x --steps 0", "--steps: 0 is below 1"),
        ("--model gru --output x --beam -2", "--beam: -2 is below 1"),
        ("--model gru --output x --hidden many", "--hidden: invalid positive value: 'many'"),
        ("--model gru --output x --seed -1", "--seed: -1 is below 0"),
        ("--model gru --output x --dropout 1", "--dropout: 1.0 is not a share from 0 to below 1"),
        ("--model gru --output x --dropout nan", "--dropout: nan is not"),
        ("--model gru --output x --rate 0", "--rate: 0.0 is not a finite number above 0"),
        ("--model gru --output x --rate nan", "--rate: nan is not"),
        ("--model gru --output x --rate inf", "--rate: inf is not"),
        ("--model gru --output x --rate fast", "--rate: invalid rate value: 'fast'"),
        (
            "--model gru --output x --length-penalty -1",
            "--length-penalty: -1.0 is not a finite number from 0",
        ),
        ("--model gru --output x --length-penalty nan", "--length-penalty: nan is not"),
    ],
)
def test_bad_options_are_named(options, message, capsys):
    with pytest.raises(SystemExit):
        multi30k.parser().parse_args(options.split())
    assert message in capsys.readouterr().err


def test_no_data_is_refused_before_training(tmp_path, monkeypatch):
    monkeypatch.setenv("COMPANION_DATA", str(tmp_path / "empty"))
    with pytest.raises(FileNotFoundError, match=r"train\.de\.gz is not in .*empty"):
        run(tmp_path / "run", more="--steps 20")
    assert not (tmp_path / "run").exists()
