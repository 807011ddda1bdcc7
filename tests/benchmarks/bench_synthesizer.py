"""The step time of Synthesizers against dot-product attention: forward and backward, on two threads.

A whole layer of multi-head attention projects queries and keys even for a table, which ignores them. So each
table is timed twice against the dot product: in a whole layer, and in one that computes only values and
output. The weights are compared with their definition before anything is timed.
"""

from collections.abc import Callable

import torch
from measure import in_turn, report, setting
from torch import Tensor

from companion.attention import (
    Attention,
    DenseSynthesizer,
    FactorizedDense,
    FactorizedRandom,
    Mixture,
    MultiHeadAttention,
    RandomSynthesizer,
    ScaledDot,
    masked_softmax,
)

BATCH, LENGTH, SIZE, HEADS, ROUNDS = 16, 128, 512, 8, 15
PART = SIZE // HEADS
INSIDE: dict[str, Attention] = {
    "dot product": ScaledDot(),
    "dense": DenseSynthesizer(PART, LENGTH, HEADS),
    "factorized dense": FactorizedDense(PART, 16, 8, HEADS),
    "random": RandomSynthesizer(LENGTH, HEADS),
    "factorized random": FactorizedRandom(LENGTH, 8, HEADS),
    "random + dot": Mixture(RandomSynthesizer(LENGTH, HEADS), ScaledDot()),
}
BARE, WITHOUT = ("random", "factorized random"), ", without queries and keys"


def whole(layer: MultiHeadAttention, x: Tensor) -> Tensor:
    """The layer as it is."""
    return layer(x, *layer.project(x))


def bare(layer: MultiHeadAttention, x: Tensor) -> Tensor:
    """The layer without queries and keys, of which a table needs only the number."""
    value = layer.W_V(x).unflatten(-1, (HEADS, PART)).transpose(1, 2)
    return layer.W_O(layer.attention(value, value, value).transpose(1, 2).flatten(2))


def step(run: Callable, layer: MultiHeadAttention, x: Tensor) -> None:
    """Forward and backward."""
    layer.zero_grad()
    run(layer, x).sum().backward()


def check(layer: MultiHeadAttention, x: Tensor) -> None:
    """Equal to the definition, or nothing below counts."""
    query = layer.W_Q(x).unflatten(-1, (HEADS, PART)).transpose(1, 2)
    key, value = layer.project(x)
    context = masked_softmax(layer.attention.score(query, key)) @ value
    expected = layer.W_O(context.transpose(1, 2).flatten(2))
    torch.testing.assert_close(whole(layer, x), expected, atol=1e-5, rtol=1e-4)


def main() -> None:
    torch.set_num_threads(2)
    torch.manual_seed(0)
    print(setting())
    print(
        f"{BATCH} sequences of {LENGTH} tokens, {SIZE} features, {HEADS} heads; forward and backward"
    )
    x = torch.randn(BATCH, LENGTH, SIZE, requires_grad=True)
    layers = {
        name: MultiHeadAttention(SIZE, HEADS, attention)
        for name, attention in INSIDE.items()
    }
    for layer in layers.values():
        check(layer, x)
    for name in BARE:
        torch.testing.assert_close(bare(layers[name], x), whole(layers[name], x))
    ways = {name: (whole, layer) for name, layer in layers.items()}
    ways |= {name + WITHOUT: (bare, layers[name]) for name in BARE}
    times = in_turn(
        {name: lambda way=way: step(*way, x) for name, way in ways.items()}, ROUNDS
    )
    for name, measured in times.items():
        if name != "dot product":
            goal = "at least 1" if name.removesuffix(WITHOUT) in BARE else "none"
            report(
                f"{name}, against the dot product",
                measured,
                times["dot product"],
                "s",
                goal,
            )


if __name__ == "__main__":
    main()
