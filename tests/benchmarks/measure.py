"""Times alternative implementations alternately in one run; their ratio counts, not the seconds."""

import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import torch

torch.backends.cudnn.allow_tf32 = False  # no TF32: results in float32 are compared


def seconds(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - start


def report(
    name: str, ours: list[float], other: list[float], unit: str, goal: str
) -> None:
    """Print both medians, and median and range of the paired ratios other / ours.

    The goals are for a CPU; on a GPU none is printed.
    """
    ratios = [b / a for a, b in zip(ours, other, strict=True)]
    a, b = statistics.median(ours), statistics.median(other)
    print(
        f"{name}: ours {a:.3g} {unit}, the other {b:.3g} {unit}, "
        f"ratio {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
        + ("" if torch.cuda.is_available() else f"; goal {goal}")
    )


def in_turn(actions: dict[str, Callable], rounds: int) -> dict[str, list[float]]:
    """The seconds of each, measured alternately, after one warm-up round."""
    times = [
        {name: seconds(action) for name, action in actions.items()}
        for _ in range(rounds + 1)
    ]
    return {name: [one[name] for one in times[1:]] for name in actions}


def compare(
    name: str, ours: Callable, other: Callable, goal: str, rounds: int = 9
) -> None:
    """Time the two alternately, after one warm-up round."""
    report(name, *in_turn({"ours": ours, "other": other}, rounds).values(), "s", goal)


def peak_of_this_process() -> float:
    """The peak memory of this process so far, on the GPU where there is one, in MB."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated() / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def output_of(*command: str) -> float:
    """The number that a new Python process with these arguments prints."""
    run = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, check=True
    )
    return float(run.stdout)


def setting() -> str:
    device = (
        torch.cuda.get_device_name()
        if torch.cuda.is_available()
        else f"CPU, {torch.get_num_threads()} threads"
    )
    return f"torch {torch.__version__}, Python {sys.version.split()[0]}, {device}"
