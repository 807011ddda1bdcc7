"""Local attention against global, as the source grows: the cost should depend on the window alone.

Forward and backward of 32 queries for each source, by the same scores. Global attention is dot; local-p
predicts its centres as well. Before anything is timed, local-p is compared with its definition on the
whole source.
"""

import torch
from measure import compare, report, seconds, setting
from torch import Tensor

from companion.attention import Dot, LocalP, masked_softmax

SENTENCES, QUERIES, SIZE, RADIUS = 16, 32, 128, 10  # the paper's radius
LENGTHS = (128, 512, 2048, 8192)


class Race:
    """The same queries and source for local-p and for global attention."""

    def __init__(self, keys: int, radius: int = RADIUS):
        torch.manual_seed(0)
        device = "cuda" if torch.cuda.is_available() else "cpu"
        self.local = LocalP(Dot(), radius, SIZE).to(device)
        self.everywhere = Dot()
        self.query = torch.randn(
            SENTENCES, QUERIES, SIZE, device=device, requires_grad=True
        )
        self.source = torch.randn(
            SENTENCES, keys, SIZE, device=device, requires_grad=True
        )
        lengths = torch.linspace(keys // 2, keys, SENTENCES, device=device).long()
        self.mask = (torch.arange(keys, device=device) < lengths[:, None])[:, None]

    def attend(self, attention):
        return attention(self.query, self.source, self.source, self.mask)

    def learn(self, attention):
        self.query.grad = self.source.grad = None
        self.attend(attention).square().sum().backward()

    def definition(self) -> Tensor:
        """Softmax over each window, times the Gaussian, times all values."""
        centre = self.local.centre(self.query, self.mask.sum(-1))
        distance = (
            torch.arange(self.source.shape[1], device=centre.device) - centre[..., None]
        )
        window = (distance.abs() <= self.local.radius) & self.mask
        gaussian = torch.exp(-(distance**2) / (2 * (self.local.radius / 2) ** 2))
        return (
            masked_softmax(self.query @ self.source.mT, window) * gaussian
        ) @ self.source


def against_global(keys: int) -> None:
    race = Race(keys)
    with torch.no_grad():
        torch.testing.assert_close(
            race.attend(race.local), race.definition(), atol=1e-4, rtol=1e-4
        )
        goal = "above 1" if keys >= 2048 else "none"
        compare(
            f"{keys} positions, forward",
            lambda: race.attend(race.local),
            lambda: race.attend(race.everywhere),
            goal,
        )
    compare(
        f"{keys} positions, forward and backward",
        lambda: race.learn(race.local),
        lambda: race.learn(race.everywhere),
        goal,
    )


def growth(name: str, small: Race, large: Race, goal: str) -> None:
    """How many times as long the forward pass of local-p takes in ``large``."""
    with torch.no_grad():
        both = [lambda race=race: race.attend(race.local) for race in (small, large)]
        for forward in both:
            forward()
        times = [tuple(map(seconds, both)) for _ in range(9)]
    report(name, *map(list, zip(*times, strict=True)), "s", goal)


def main():
    print(setting())
    print(
        f"{SENTENCES} sources, {QUERIES} queries each, {SIZE} features; ours is local-p, the other global"
    )
    for keys in LENGTHS:
        against_global(keys)
    print("local-p alone: the other is the larger one")
    growth("a source of 512 positions and one of 8192", Race(512), Race(8192), "near 1")
    growth(
        "a window of 21 positions and one of 161",
        Race(2048, 10),
        Race(2048, 80),
        "above 2",
    )


if __name__ == "__main__":
    main()
