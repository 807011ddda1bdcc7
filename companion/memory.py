"""How much memory a computation needs: measured, on any system."""

import json
import tempfile
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path

from torch.profiler import ProfilerActivity, profile


def peak_memory(run: Callable[..., object], *inputs: object) -> int:
    """The most bytes that PyTorch holds on the CPU at once while ``run(*inputs)`` lasts, beyond what it held before.

    ::

        peak = max over time of Σ (bytes allocated − bytes freed since the start)

    It is read from the allocations that PyTorch's profiler notes, inside its kernels too, so it does not
    depend on the machine, nor on what the system has kept for later. The result of ``run`` counts.
    """
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        kept = run(*inputs)  # until the profile ends
    del kept
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        events = json.loads(path.read_text("utf-8"))["traceEvents"]
    moved = [(event["ts"], event["args"]) for event in events if event["name"] == "[memory]"]
    on_the_cpu = [
        args["Bytes"] for _, args in sorted(moved, key=lambda one: one[0]) if not args["Device Type"]
    ]
    return max(accumulate(on_the_cpu, initial=0))
