"""The cost of a computation: time and memory."""

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

from torch.profiler import ProfilerActivity, profile


def milliseconds(run: Callable[..., object], *inputs: object, rounds: int = 3) -> float:
    """The shortest time that ``run(*inputs)`` takes on the CPU, in milliseconds.

    It is the shortest because other work on the machine can only add to a time. Work
    that is still queued on a GPU is not counted.

    Example:
        >>> milliseconds(torch.exp, torch.ones(10)) > 0
        True
    """
    times = []
    for _ in range(rounds):
        start = perf_counter()
        run(*inputs)
        times.append(perf_counter() - start)
    return 1000 * min(times)


def peak_memory(run: Callable[..., object], *inputs: object) -> int:
    """The most bytes that ``run(*inputs)`` holds on the CPU, its result included.

    ::

        peak = max over time of Σ bytes of the blocks that are held

    The allocations are those that PyTorch's profiler records, inside its kernels too.
    The measurement therefore does not depend on memory that the allocator keeps for
    later. Blocks from before the start do not count, even if they are freed.

    Example:
        >>> peak_memory(torch.ones, 1000)
        4000
    """
    # The profiler reads this at its first use. Without it, it prints to the terminal.
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        result = run(*inputs)  # held until the profile ends
    del result
    held, total, peak = dict[int, int](), 0, 0
    for address, size in _allocations(profiler):
        if size > 0:
            held[address] = size
            total += size
        else:
            total -= held.pop(address, 0)
        peak = max(peak, total)
    return peak


def _allocations(profiler: profile) -> list[tuple[int, int]]:
    """Address and bytes of each block on the CPU, in order; bytes below 0 free it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        events = json.loads(path.read_text("utf-8"))["traceEvents"]
    on_cpu = [
        event
        for event in events
        if event["name"] == "[memory]" and not event["args"]["Device Type"]
    ]
    return [
        (event["args"]["Addr"], event["args"]["Bytes"])
        for event in sorted(on_cpu, key=lambda event: event["ts"])
    ]
