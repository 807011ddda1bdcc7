"""What every test shares."""

import pytest
import torch

torch.set_num_threads(1)  # the tensors are tiny: more threads only get in each other's way


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("cuda") and not torch.cuda.is_available():
        pytest.skip("needs an NVIDIA GPU")
