"""Sparse attention against dense, and against FlexAttention: time and memory, as the sequence grows.

On a CPU the other is PyTorch's fused ``scaled_dot_product_attention``, in float32 and with two threads; on a
GPU its flash kernel, in bfloat16. Before anything is timed, each is compared with its definition. With
``--output`` the growth is written as JSON, with versions and hardware.
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from statistics import median

import torch
from measure import in_turn, report, setting
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from attention_course.experiments.record import surroundings
from attention_course.profiling import peak_memory
from companion.attention import (
    AtrousAttention,
    CausalAttention,
    FlexAtrous,
    FlexAttention,
    FlexSparse,
    LocalAttention,
    PatternAttention,
    SinkAttention,
    SlidingWindowAttention,
    SparseAttention,
)
from companion.attention.masks import dense, local

HEADS, SIZE, RADIUS, RATE, SINKS, LENGTH = 8, 64, 64, 64, 4, 8192
GPU = torch.cuda.is_available()
KIND = (
    {"device": "cuda", "dtype": torch.bfloat16}
    if GPU
    else {"device": "cpu", "dtype": torch.float32}
)
LENGTHS = [4096, 16384, 65536] if GPU else [1024, 2048, 4096, 8192, 16384, 32768]
ROUNDS = 9 if GPU else 3
LONGEST = {
    "dense": 65536 if GPU else 8192
}  # not measured beyond this length: on a CPU it would take minutes
OURS = {
    "local": LocalAttention(RADIUS),
    "atrous": AtrousAttention(RATE),
    "sparse": SparseAttention(RADIUS, RATE),
}
CAUSAL = {
    "window": SlidingWindowAttention(RADIUS + 1),
    "window and sinks": SinkAttention(RADIUS + 1, SINKS),
}
FLEX = {
    "local": FlexAttention(local(RADIUS)),
    "atrous": FlexAtrous(RATE),
    "sparse": FlexSparse(RADIUS, RATE),
}


def flash(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        return scaled_dot_product_attention(query, key, value)


class Race:
    """A sequence, and ways to attend to it."""

    def __init__(self, length: int):
        torch.manual_seed(0)
        self.inputs = [
            torch.randn(1, HEADS, length, SIZE, requires_grad=True, **KIND)
            for _ in range(3)
        ]
        self.gradient = torch.randn_like(self.inputs[0])

    def attend(self, attention: Callable) -> Tensor:
        with torch.no_grad():
            return attention(*(x.detach() for x in self.inputs))

    def learn(self, attention: Callable) -> tuple[Tensor, ...]:
        return torch.autograd.grad(attention(*self.inputs), self.inputs, self.gradient)

    def forward(self, ways: dict[str, Callable], rounds: int) -> dict[str, list[float]]:
        return in_turn(
            {name: lambda way=way: self.attend(way) for name, way in ways.items()},
            rounds,
        )

    def backward(
        self, ways: dict[str, Callable], rounds: int
    ) -> dict[str, list[float]]:
        return in_turn(
            {name: lambda way=way: self.learn(way) for name, way in ways.items()},
            rounds,
        )

    def memory(self, attention: Callable) -> int:
        """The most bytes that forward and backward hold beyond the inputs."""
        if not GPU:
            return peak_memory(lambda: self.learn(attention))
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        self.learn(attention)
        return torch.cuda.max_memory_allocated() - before


def check(attention: PatternAttention) -> None:
    """Equal to the definition, or nothing below counts."""
    race = Race(1000)
    expected = race.attend(PatternAttention(attention.rule))
    torch.testing.assert_close(
        race.attend(attention), expected, atol=2e-2 if GPU else 1e-4, rtol=1e-2
    )


def growth(ways: dict[str, Callable]) -> list[dict]:
    """A table of milliseconds forward, forward and backward, and of megabytes; and its rows."""
    print("ms forward, ms forward and backward, MB held by both")
    print(f"{'positions':>9}" + "".join(f"{name:>25}" for name in ways))
    rows = []
    for length in LENGTHS:
        race, line = Race(length), f"{length:9,}"
        measured = {
            name: way
            for name, way in ways.items()
            if length <= LONGEST.get(name, length)
        }
        forward, both = race.forward(measured, ROUNDS), race.backward(measured, ROUNDS)
        for name in ways:
            if name not in measured:
                line += f"{'–':>25}"
                continue
            row = {"length": length, "way": name, "forward": median(forward[name])}
            row |= {
                "forward and backward": median(both[name]),
                "bytes": race.memory(ways[name]),
            }
            line += "{:9.1f}{:8.1f}{:8.0f}".format(
                *(1e3 * x for x in list(row.values())[2:4]), row["bytes"] / 1e6
            )
            rows.append(row)
        print(line)
    return rows


def floors() -> None:
    """Ratios on a CPU, each with what it is to reach at least."""
    race = Race(LENGTH)
    mask = dense(OURS["sparse"].rule, LENGTH)
    ways = OURS | {
        "dense": scaled_dot_product_attention,
        "dense mask": lambda *inputs: scaled_dot_product_attention(
            *inputs, attn_mask=mask
        ),
        "FlexAttention local": FLEX["local"],
        "FlexAttention sparse": FlexAttention(OURS["sparse"].rule),
    }
    times = race.forward(ways, 5)
    for name, goal in [
        ("local", "at least 20"),
        ("atrous", "at least 20"),
        ("sparse", "at least 10"),
    ]:
        report(
            f"{name}, forward, against dense", times[name], times["dense"], "s", goal
        )
    report(
        "sparse, forward, against a dense mask",
        times["sparse"],
        times["dense mask"],
        "s",
        "at least 10",
    )
    for name, goal in [("local", "at least 1"), ("sparse", "at least 10")]:
        other = f"FlexAttention {name}"
        report(
            f"{name}, forward, against {other}", times[name], times[other], "s", goal
        )
    times = race.backward(OURS | {"dense": scaled_dot_product_attention}, ROUNDS)
    for name in OURS:
        report(
            f"{name}, forward and backward, against dense",
            times[name],
            times["dense"],
            "s",
            "at least 10",
        )


def causal_floors() -> None:
    """The same for windows of earlier positions, against PyTorch's causal kernel."""
    ways = CAUSAL | {"dense": CausalAttention()}
    for length, goal in [(2048, "at least 4"), (8192, "at least 10")]:
        race = Race(length)
        for title, times in [
            ("forward", race.forward(ways, 5)),
            ("forward and backward", race.backward(ways, ROUNDS)),
        ]:
            for name in CAUSAL:
                report(
                    f"a {name} of {RADIUS + 1}, {length:,} positions, {title}, "
                    f"against dense causal",
                    times[name],
                    times["dense"],
                    "s",
                    goal if name == "window" else "none",
                )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, help="where to write the growth as JSON")
    output = parser.parse_args().output
    torch.set_num_threads(2)
    print(setting())
    print(
        f"{HEADS} heads of {SIZE} features in {KIND['dtype']}, radius {RADIUS}, rate {RATE}"
    )
    for attention in [*OURS.values(), *CAUSAL.values(), *FLEX.values()]:
        check(attention)
    if not GPU:
        floors()
        causal_floors()
    ways = {"dense": flash if GPU else scaled_dot_product_attention} | OURS
    if GPU:
        ways |= CAUSAL
    if GPU:
        ways |= {f"FlexAttention {name}": attention for name, attention in FLEX.items()}
        ways["FlexAttention unsorted"] = FlexAttention(OURS["sparse"].rule)
    rows = growth(ways)
    if output:
        sizes = {
            "heads": HEADS,
            "size": SIZE,
            "radius": RADIUS,
            "rate": RATE,
            "dtype": str(KIND["dtype"]),
        }
        text = json.dumps(
            {"format": 1, **surroundings(1), "sizes": sizes, "growth": rows}, indent=2
        )
        output.write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    main()
