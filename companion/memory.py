"""How much memory a computation needs: measured, on any system."""

import json
import tempfile
from collections.abc import Callable
from pathlib import Path

from torch.profiler import ProfilerActivity, profile


def peak_memory(run: Callable[..., object], *inputs: object) -> int:
    """The most bytes that ``run(*inputs)`` has allocated on the CPU and not yet freed, its result included.

    ::

        peak = max over time of Σ bytes of the blocks allocated since the start and still held

    It is read from the allocations that PyTorch's profiler notes, inside its kernels too, so it does not
    depend on what the system has kept for later. What was there before does not count, even if it is freed.
    """
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        kept = run(*inputs)  # until the profile ends
    del kept
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        events = json.loads(path.read_text("utf-8"))["traceEvents"]
    noted = [event for event in events if event["name"] == "[memory]" and not event["args"]["Device Type"]]
    held, total, peak = dict[int, int](), 0, 0
    for event in sorted(noted, key=lambda event: event["ts"]):
        address, size = event["args"]["Addr"], event["args"]["Bytes"]
        if size > 0:
            held[address] = size
            total += size
        else:
            total -= held.pop(address, 0)
        peak = max(peak, total)
    return peak
