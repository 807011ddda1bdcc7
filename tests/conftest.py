import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from jaxtyping import config

ROOT = Path(__file__).resolve().parents[1]
torch.set_num_threads(
    1
)  # the tensors of tests are tiny: more threads only get in each other's way


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--all-notebooks",
        action="store_true",
        help="in Colab's versions, and twice: all, not only those changed",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test of a ``changed`` notebook takes those that the last commit of notebooks changed, or all."""
    if "changed" in metafunc.fixturenames:
        notebooks = sorted((ROOT / "book").glob("*.ipynb"))
        if not metafunc.config.getoption("all_notebooks"):
            notebooks = [
                path for path in notebooks if path.name in changed_last()
            ] or notebooks
        metafunc.parametrize("changed", notebooks, ids=lambda path: path.stem)


def changed_last() -> set[str]:
    """The files that the last commit of notebooks changed; without a history, none."""
    command = ["git", "log", "-1", "--format=", "--name-only", "--", "book/*.ipynb"]
    found = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    return {Path(line).name for line in found.stdout.splitlines()}


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
