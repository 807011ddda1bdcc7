"""What a computation costs: its time, its memory, and how long its last operation has to wait."""

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

from torch import Tensor
from torch.profiler import ProfilerActivity, profile


def milliseconds(run: Callable[..., object], *inputs: object, rounds: int = 3) -> float:
    """The shortest time of several that ``run(*inputs)`` takes on the CPU, in milliseconds.

    The shortest, for whatever else the machine does can only make a run longer. Work that is still waiting on
    a GPU is not counted.

    Raises:
        ValueError: ``rounds`` is less than 1.
    """
    if rounds < 1:
        raise ValueError(f"rounds must be at least 1, not {rounds}")
    times = []
    for _ in range(rounds):
        begin = perf_counter()
        run(*inputs)
        times.append(perf_counter() - begin)
    return 1000 * min(times)


def longest_chain(result: Tensor) -> int:
    """The most operations in a row, each of which waits for the one before, that led to ``result``.

    However many processors there are, a chain cannot be shared among them. It is read from the graph that
    PyTorch keeps for the backward pass, in which an input that has a gradient counts as one operation.

    Raises:
        ValueError: no graph was kept, as nothing that led to ``result`` has a gradient.
    """
    if result.grad_fn is None:
        raise ValueError(
            "the result has no graph: none of its inputs requires a gradient, or it was made under no_grad"
        )
    length, waiting = dict[object, int](), [result.grad_fn]
    while waiting:
        node = waiting[-1]
        before = [other for other, _ in node.next_functions if other is not None]
        unknown = [other for other in before if other not in length]
        if unknown:
            waiting.extend(unknown)
        else:
            length[waiting.pop()] = 1 + max(
                (length[other] for other in before), default=0
            )
    return length[result.grad_fn]


def peak_memory(run: Callable[..., object], *inputs: object) -> int:
    """The most bytes that ``run(*inputs)`` has allocated on the CPU and not yet freed, its result included.

    ::

        peak = max over time of Σ bytes of the blocks allocated since the start and still held

    It is read from the allocations that PyTorch's profiler notes, inside its kernels too, so it does not
    depend on what the system has kept for later. What was there before does not count, even if it is freed.
    """
    os.environ.setdefault(
        "KINETO_LOG_LEVEL", "99"
    )  # or the profiler talks; it reads this when first used
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        kept = run(*inputs)  # until the profile ends
    del kept
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        events = json.loads(path.read_text("utf-8"))["traceEvents"]
    noted = [
        event
        for event in events
        if event["name"] == "[memory]" and not event["args"]["Device Type"]
    ]
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
