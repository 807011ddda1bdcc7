"""The cost of each score: time per pair of query and key, forward and backward, and parameters.

The projection of the keys, once as in a model, is included. Each score is first compared
with its formula on a few pairs.
"""

import statistics

import torch
from measure import seconds, setting
from torch.nn.functional import cosine_similarity

from companion.attention import (
    MLP,
    Additive,
    Attention,
    Bilinear,
    Concat,
    Cosine,
    Dot,
    ScaledDot,
)

SENTENCES, QUERIES, KEYS, SIZE = 16, 32, 64, 128
ROUNDS = 9
SCORES: dict[str, Attention] = {
    "dot": Dot(),
    "scaled dot": ScaledDot(),
    "cosine": Cosine(),
    "general": Bilinear(SIZE, SIZE),
    "additive": Additive(SIZE, SIZE, SIZE),
    "concat": Concat(SIZE, SIZE, SIZE),
    "MLP, two layers": MLP(SIZE, SIZE, SIZE),
}


def formula(name, attention, q, k):
    """The score of one pair."""
    if name == "cosine":
        return cosine_similarity(q, k, dim=0)
    if name == "general":
        return q @ attention.W.weight @ k
    if name == "additive":
        return attention.v @ torch.tanh(attention.W.weight @ q + attention.U.weight @ k)
    if name == "concat":
        return attention.v @ torch.tanh(attention.W.weight @ torch.cat([q, k]))
    if name == "MLP, two layers":
        hidden = torch.relu(attention.W(q) + attention.U(k))
        return attention.v @ torch.relu(attention.hidden[0](hidden))
    return q @ k / (SIZE**0.5 if name == "scaled dot" else 1)


def check(name, attention, query, source):
    with torch.no_grad():
        scores = attention.score(query, attention.project(source)[0])
        for b, i, j in ((0, 0, 0), (3, 7, 11), (15, 31, 63)):
            expected = formula(name, attention, query[b, i], source[b, j])
            torch.testing.assert_close(scores[b, i, j], expected, atol=1e-4, rtol=1e-4)


def nanoseconds(action) -> float:
    """The median time per pair, after a warm-up round."""
    action()
    pairs = SENTENCES * QUERIES * KEYS
    return statistics.median(seconds(action) for _ in range(ROUNDS)) / pairs * 1e9


def main():
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    query = torch.randn(SENTENCES, QUERIES, SIZE, device=device, requires_grad=True)
    source = torch.randn(SENTENCES, KEYS, SIZE, device=device, requires_grad=True)
    print(setting())
    print(
        f"{SENTENCES} sentences, {QUERIES} queries, {KEYS} keys, {SIZE} features; in ns for one pair"
    )
    print(f"{'score':<16}{'forward':>10}{'and backward':>14}{'parameters':>12}")
    for name, attention in SCORES.items():
        attention.to(device)
        check(name, attention, query, source)

        def forward(attention=attention):
            return attention.score(query, attention.project(source)[0])

        def both(forward=forward):
            query.grad = source.grad = None
            forward().square().sum().backward()

        with torch.no_grad():
            alone = nanoseconds(forward)
        parameters = sum(parameter.numel() for parameter in attention.parameters())
        print(f"{name:<16}{alone:>10.2f}{nanoseconds(both):>14.2f}{parameters:>12,}")


if __name__ == "__main__":
    main()
