"""What every test shares."""

from collections.abc import Iterator

import pytest
import torch
from jaxtyping import config

torch.set_num_threads(1)  # the tensors are tiny: more threads only get in each other's way


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("cuda") and not torch.cuda.is_available():
        pytest.skip("needs an NVIDIA GPU")


@pytest.fixture
def unchecked() -> Iterator[None]:
    """No shape checks while the test runs.

    ``torch.compile`` cannot trace the checker, and on bad input it would speak before the package does.
    """
    before = config.jaxtyping_disable
    config.update("jaxtyping_disable", True)
    yield
    config.update("jaxtyping_disable", before)
