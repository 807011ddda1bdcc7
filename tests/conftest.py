"""What all tests have in common: one thread, and switches for GPUs and shape checks."""

import os
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from hypothesis import settings
from jaxtyping import config

ROOT = Path(__file__).resolve().parents[1]
torch.set_num_threads(1)  # the tensors of tests are tiny: more threads are slower
torch.backends.cudnn.allow_tf32 = False  # on a GPU float32 must not become TF32

# The same few examples in every run; `--hypothesis-profile=thorough` tries many, and others each time.
settings.register_profile("few", deadline=None, max_examples=30, derandomize=True)
settings.register_profile("thorough", deadline=None, max_examples=300)
settings.load_profile("few")

#: All of them slow: they need the extra `experiments`, which `make test-all` installs.
NEED_EXPERIMENTS = [
    "course/data/test_multi30k.py",
    "course/experiments/test_imdb.py",
    "course/experiments/test_log.py",
    "course/experiments/test_multi30k.py",
    "course/experiments/test_sentences.py",
]
collect_ignore = [] if find_spec("spacy") else NEED_EXPERIMENTS

#: Warnings of PyTorch 2.11 on a GPU, about speed and about its own code.
GPU_WARNINGS = (
    "RNN module weights are not part of single contiguous chunk of memory",
    "Synchronization debug mode is a prototype feature",
    "TensorFloat32 tensor cores",
    r"The .grad attribute of a Tensor that is not a leaf Tensor:UserWarning:torch\.",
    "`torch.jit.script_method` is deprecated",
    r"\s*Online softmax is disabled",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("cuda"):
            for start in GPU_WARNINGS:
                item.add_marker(pytest.mark.filterwarnings(f"ignore:{start}"))


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("cuda") and not torch.cuda.is_available():
        pytest.skip("needs an NVIDIA GPU")
    if item.get_closest_marker("data") and "COMPANION_DATA" not in os.environ:
        pytest.skip("COMPANION_DATA is not set")


def slow_but(kept: set[str], names: Iterable[str]) -> list:
    """The parameters of a full product, of which ``make test`` takes only those that are kept."""
    return [
        pytest.param(name, marks=[] if name in kept else [pytest.mark.slow])
        for name in names
    ]


@pytest.fixture
def unchecked() -> Iterator[None]:
    """No shape checks while the test runs.

    ``torch.compile`` cannot trace the checker, and on bad input its error would come first.
    """
    before = config.jaxtyping_disable
    config.update("jaxtyping_disable", True)
    yield
    config.update("jaxtyping_disable", before)
