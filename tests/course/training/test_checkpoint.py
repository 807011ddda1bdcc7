import pickle
import random
import subprocess
import sys
from contextlib import suppress
from zipfile import ZipFile

import numpy as np
import pytest
import torch
from torch import nn

from attention_course.training.checkpoint import (
    random_state,
    read,
    replacing,
    require_same,
    set_random_state,
)


def test_a_file_is_replaced_at_once(tmp_path):
    path = tmp_path / "new" / "folder" / "file"
    with replacing(path) as file:
        file.write(b"first")
    with replacing(path) as file:
        file.write(b"second")
        file.flush()
        assert path.read_bytes() == b"first"
    assert path.read_bytes() == b"second"
    assert list(path.parent.iterdir()) == [path]


def write_and_fail(path, content):
    with replacing(path) as file:
        file.write(content)
        raise KeyboardInterrupt


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt):
        write_and_fail(path, b"half of the n")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_what_a_killed_run_left_is_removed(tmp_path):
    program = f"""
import os
from attention_course.training.checkpoint import replacing
with replacing({str(tmp_path / "file")!r}) as file:
    file.write(b"half")
    file.flush()
    os._exit(1)
"""
    subprocess.run([sys.executable, "-c", program], check=False)
    assert len(list(tmp_path.iterdir())) == 1
    (tmp_path / "file2.abc.partial").write_bytes(b"of another file")
    with replacing(tmp_path / "file") as file:
        file.write(b"new")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {
        "file": b"new",
        "file2.abc.partial": b"of another file",
    }


def test_two_writers_do_not_mix(tmp_path):
    path = tmp_path / "file"
    with replacing(path) as outer:
        outer.write(b"one ")
        outer.flush()
        with pytest.raises(KeyboardInterrupt):
            write_and_fail(path, b"two")
        outer.write(b"whole")
    assert path.read_bytes() == b"one whole"


LIMITED = """
import resource, sys, torch
from attention_course.training.trainer import Trainer
trainer = Trainer(model := torch.nn.Linear(100, 100), torch.optim.SGD(model.parameters(), lr=1.0), None)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
try:
    trainer.save(sys.argv[1])
except OSError as error:
    print(error)
"""


def test_a_disk_that_takes_no_more_is_named_and_keeps_the_old_file(tmp_path):
    pytest.importorskip("resource")
    path = tmp_path / "checkpoint.pt"
    path.write_bytes(b"old")
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "File too large" in done.stdout, done.stderr
    assert str(path) in done.stdout
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_random_generators_go_on_where_they_were(tmp_path):
    def draw():
        return (
            random.random(),
            float(np.random.rand()),  # noqa: NPY002
            float(torch.rand(())),
            np.random.randn(),  # noqa: NPY002
        )

    draw()
    with replacing(tmp_path / "state") as file:
        torch.save(random_state(nn.Identity()), file)
    expected = draw(), draw()
    set_random_state(nn.Identity(), read(tmp_path / "state"))
    assert (draw(), draw()) == expected


class FakeAccelerator:
    """The module of an accelerator, such as ``torch.mps``, with two devices."""

    def __init__(self):
        self.generators = [torch.Generator().manual_seed(seed) for seed in range(2)]

    def get_rng_state(self, device):
        return self.generators[device].get_state()

    def set_rng_state(self, state, device):
        self.generators[device].set_state(state)

    def draw(self):
        return [float(torch.rand((), generator=x)) for x in self.generators]


@pytest.fixture
def accelerator(monkeypatch):
    fake = FakeAccelerator()
    monkeypatch.setattr(
        torch.accelerator, "current_accelerator", lambda *_, **__: torch.device("xpu")
    )
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: len(fake.generators))
    monkeypatch.setattr(torch, "get_device_module", {"xpu": fake}.__getitem__)
    return fake


def test_the_generators_of_any_accelerator_go_on_where_they_were(tmp_path, accelerator):
    accelerator.draw()
    with replacing(tmp_path / "state") as file:
        torch.save(random_state(nn.Identity()), file)
    expected = accelerator.draw()
    set_random_state(nn.Identity(), read(tmp_path / "state"))
    assert accelerator.draw() == expected


@pytest.mark.parametrize("other", [0, 1])
def test_the_states_of_other_devices_are_left_out(accelerator, other):
    state = random_state(nn.Identity())
    accelerator.generators = accelerator.generators[:other]
    set_random_state(nn.Identity(), state)
    on_a_cpu = {name: state[name] for name in ("python", "numpy", "torch", "modules")}
    set_random_state(nn.Identity(), on_a_cpu)


def saved(path, content):
    with replacing(path) as file:
        torch.save(content, file)
    return path.read_bytes()


def test_a_file_cut_anywhere_is_refused(tmp_path):
    path = tmp_path / "checkpoint.pt"
    content = saved(path, {"weights": torch.arange(100)})
    for length in [*range(0, len(content), 97), len(content) - 1]:
        path.write_bytes(content[:length])
        with pytest.raises(
            ValueError, match=r"checkpoint\.pt is no checkpoint, or not whole"
        ):
            read(path)


def test_a_changed_number_is_refused(tmp_path):
    path = tmp_path / "checkpoint.pt"
    weights = torch.arange(100)
    content = saved(path, {"weights": weights})
    index = content.index(weights.numpy().tobytes()) + 40
    path.write_bytes(content[:index] + b"\xff" + content[index + 1 :])
    with pytest.raises(ValueError, match=r"checkpoint\.pt is damaged.*checksum"):
        read(path)


@pytest.mark.parametrize("content", [b"", b"hello, world", b"\x80\x04}."])
def test_another_file_is_refused(tmp_path, content):
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(ValueError, match=r"file is no checkpoint"):
        read(tmp_path / "file")


def test_a_file_that_would_run_code_is_refused(tmp_path):
    class Evil:
        def __reduce__(self):
            return (open, (str(tmp_path / "stolen"), "w"))

    saved(tmp_path / "file", {"model": Evil()})
    with pytest.raises(ValueError, match=r"file is no checkpoint"):
        read(tmp_path / "file")
    assert not (tmp_path / "stolen").exists()


def test_something_else_in_a_file_of_torch_is_refused(tmp_path):
    saved(tmp_path / "file", torch.ones(2))
    with pytest.raises(ValueError, match="it holds a Tensor"):
        read(tmp_path / "file")
    saved(tmp_path / "file", {"epoch": 3, "net": {}})
    with pytest.raises(
        ValueError, match="no checkpoint of a training: it holds epoch, net"
    ):
        require_same(tmp_path / "file", {"model": {}}, read(tmp_path / "file"))


def rewritten(path, pickled):
    """A checkpoint whose checksums are right, with any bytes in place of its pickle."""
    with ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    with ZipFile(path, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, pickled if name.endswith("data.pkl") else content)


@pytest.mark.parametrize(
    "pickled",
    [b"", b"\x80", b"\x80\x02K\x01", b"\x80\x02h\x05.", b"\x80\x02.", pickle.dumps(1)],
)
def test_a_damaged_pickle_is_refused(tmp_path, pickled):
    saved(tmp_path / "checkpoint.pt", {"weights": torch.arange(3)})
    rewritten(tmp_path / "checkpoint.pt", pickled)
    with pytest.raises(ValueError, match=r"checkpoint\.pt is no checkpoint"):
        read(tmp_path / "checkpoint.pt")


def test_a_byte_changed_anywhere_gives_no_other_error(tmp_path):
    path = tmp_path / "checkpoint.pt"
    content = saved(path, {"weights": torch.arange(10)})
    generator = random.Random(0)
    for place in [
        *generator.sample(range(len(content)), 150),
        *range(len(content) - 200, len(content)),
    ]:
        path.write_bytes(
            content[:place]
            + bytes([content[place] ^ generator.randrange(1, 256)])
            + content[place + 1 :]
        )
        with suppress(ValueError):
            assert torch.equal(
                read(path)["weights"], torch.arange(10)
            )  # the byte means nothing


def test_a_missing_file_stays_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        read(tmp_path / "nowhere")
