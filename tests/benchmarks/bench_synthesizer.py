"""The step time of Synthesizers against dot-product attention: forward and backward, on two threads.

A whole layer of multi-head attention projects queries and keys even for a table, which ignores them. So each
table is timed twice beside the dot product: in a whole layer, and in one that makes values and output alone.
The weights are compared with their definition before anything is timed.
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


def whole(layer: MultiHeadAttention, words: Tensor) -> Tensor:
    """The layer as it is."""
    return layer(words, *layer.project(words))


def bare(layer: MultiHeadAttention, words: Tensor) -> Tensor:
    """The layer without queries and keys, of which a table needs the number alone."""
    value = layer.W_V(words).unflatten(-1, (HEADS, PART)).transpose(1, 2)
    return layer.W_O(layer.attention(value, value, value).transpose(1, 2).flatten(2))


def step(run: Callable, layer: MultiHeadAttention, words: Tensor) -> None:
    """Forward and backward."""
    layer.zero_grad()
    run(layer, words).sum().backward()


def check(layer: MultiHeadAttention, words: Tensor) -> None:
    """Equal to the definition, or nothing below counts."""
    query = layer.W_Q(words).unflatten(-1, (HEADS, PART)).transpose(1, 2)
    key, value = layer.project(words)
    context = masked_softmax(layer.attention.score(query, key)) @ value
    expected = layer.W_O(context.transpose(1, 2).flatten(2))
    torch.testing.assert_close(whole(layer, words), expected, atol=1e-5, rtol=1e-4)


def main() -> None:
    torch.set_num_threads(2)
    torch.manual_seed(0)
    print(setting())
    print(
        f"{BATCH} sentences of {LENGTH} words, {SIZE} features, {HEADS} heads; forward and backward"
    )
    words = torch.randn(BATCH, LENGTH, SIZE, requires_grad=True)
    layers = {
        name: MultiHeadAttention(SIZE, HEADS, attention)
        for name, attention in INSIDE.items()
    }
    for layer in layers.values():
        check(layer, words)
    for name in BARE:
        torch.testing.assert_close(
            bare(layers[name], words), whole(layers[name], words)
        )
    ways = {name: (whole, layer) for name, layer in layers.items()}
    ways |= {name + WITHOUT: (bare, layers[name]) for name in BARE}
    times = in_turn(
        {name: lambda way=way: step(*way, words) for name, way in ways.items()}, ROUNDS
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
