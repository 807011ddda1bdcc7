"""What all tests have in common: one thread, and switches for GPUs and shape checks."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from jaxtyping import config

ROOT = Path(__file__).resolve().parents[1]
torch.set_num_threads(1)  # the tensors of tests are tiny: more threads are slower


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("cuda") and not torch.cuda.is_available():
        pytest.skip("needs an NVIDIA GPU")


@pytest.fixture
def unchecked() -> Iterator[None]:
    """No shape checks while the test runs.

    ``torch.compile`` cannot trace the checker, and on bad input its error would come first.
    """
    before = config.jaxtyping_disable
    config.update("jaxtyping_disable", True)
    yield
    config.update("jaxtyping_disable", before)
