"""Training in two processes, each a real one under ``accelerate launch``, on the CPU."""

import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import torch

from attention_course.data.batching import Batch
from attention_course.training import shard_batch
from attention_course.training.checkpoint import read
from tests.course.training import together
from tests.course.training.together import LAUNCH, ON_THE_CPU

pytestmark = pytest.mark.slow


def start(launcher, folder, *parts):
    program = [
        sys.executable,
        *launcher.split(),
        str(Path(together.__file__)),
        str(folder),
        *parts,
    ]
    return subprocess.Popen(
        program, env=os.environ | ON_THE_CPU, stderr=subprocess.PIPE, text=True
    )


def finish(process):
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    return errors


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """What the same training leaves in one process, and in two; and what the two processes print."""
    one, two = tmp_path_factory.mktemp("one"), tmp_path_factory.mktemp("two")
    alone = start("", one, "equal")
    shown = finish(start(LAUNCH, two, "equal", "dropout", "not_finite"))
    finish(alone)
    return one, two, shown


def test_two_processes_end_with_the_numbers_of_one(folders):
    one, two = (read(folder / "equal" / "trained.pt") for folder in folders[:2])
    assert len(one["history"]) == 3
    assert one["history"][-1]["loss"] < one["history"][0]["loss"]
    for records in zip(one["history"], two["history"], strict=True):
        assert records[0] == pytest.approx(records[1], rel=1e-9)
    for name, weight in one["weights"].items():
        torch.testing.assert_close(two["weights"][name], weight, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("processes", [1, 2, 3, 8])
@pytest.mark.parametrize("rows", [1, 2, 3, 7, 8])
def test_each_row_of_a_batch_goes_to_one_process(rows, processes):
    batch = Batch(torch.arange(rows)[:, None], 10 + torch.arange(rows)[:, None])
    shards = [shard_batch(batch, process, processes) for process in range(processes)]
    taken = torch.cat([torch.cat(part, 1) for part, weight in shards if weight == 1])
    assert sorted(taken.tolist()) == [[row, 10 + row] for row in range(rows)]
    for part, _ in shards[rows:]:
        assert torch.equal(torch.cat(part, 1), torch.tensor([[0, 10]]))
    assert [weight for _, weight in shards] == [
        float(process < rows) for process in range(processes)
    ]


@pytest.mark.parametrize("other", ["a name", 3, None])
def test_what_cannot_be_divided_is_refused_and_not_given_to_all(other):
    batch = torch.zeros(4, 2), {"more": [torch.ones(4), other]}
    assert shard_batch(batch, 0, 1) == (batch, 1.0)
    with pytest.raises(TypeError, match=type(other).__name__):
        shard_batch(batch, 0, 2)


def test_the_main_process_alone_shows_progress(folders):
    assert folders[2].count(" 0/30 ") == 1


def test_a_loss_that_is_not_finite_in_one_process_stops_both_before_any_parameter_changes(
    folders,
):
    messages = read(folders[1] / "messages.pt")["messages"]
    assert len(messages) == 2
    for message in messages:
        assert message.startswith("the loss of step 2 is nan; no parameter changed; ")
        assert message.endswith("outputs of all modules are finite; finite: True")


def test_each_process_has_its_own_random_state_in_the_checkpoint(folders):
    first, second = read(folders[1] / "dropout" / "checkpoint.pt")["random"]
    assert not torch.equal(first["torch"], second["torch"])


def test_the_checkpoint_of_two_processes_is_refused_by_one(folders):
    trainer = together.make_trainer(dropout=0.3)
    with pytest.raises(
        ValueError, match=r"checkpoint\.pt .* its processes is 2, here 1"
    ):
        trainer.load(folders[1] / "dropout" / "checkpoint.pt")
    assert trainer.step == 0


def test_killed_and_resumed_two_processes_end_with_the_same_numbers(tmp_path, folders):
    process = start(LAUNCH, tmp_path, "dropout")
    checkpoint = tmp_path / "dropout" / "checkpoint.pt"
    while not checkpoint.exists() and process.poll() is None:
        time.sleep(0.01)
    launcher = psutil.Process(process.pid)
    for each in [launcher, *launcher.children(recursive=True)]:
        each.kill()
    process.communicate()
    reached = read(checkpoint)["step"]
    assert 10 <= reached < together.STEPS
    assert f" {reached}/{together.STEPS} " in finish(start(LAUNCH, tmp_path, "dropout"))
    whole, resumed = (
        read(folder / "dropout" / "trained.pt") for folder in (folders[1], tmp_path)
    )
    assert resumed["history"] == whole["history"]
    for name, weight in whole["weights"].items():
        assert torch.equal(resumed["weights"][name], weight)


def test_when_the_main_process_fails_the_others_end_too(tmp_path):
    process = start(LAUNCH, tmp_path, "fail")
    _, errors = process.communicate(timeout=120)
    assert process.returncode != 0
    assert "RuntimeError: the log is full" in errors
