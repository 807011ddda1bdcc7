"""The study of chapter 4 on large pictures: accuracy against the regions that are encoded.

All runs take about half an hour on one CPU core.
"""

from functools import cache
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import gumbel_softmax

from attention_course.data import scenes
from attention_course.data.clutter import LargePictures, large_pictures, thumbnails
from attention_course.studies.recording import check_choice, grid

TITLE = "Chapter 4: the digit in a large picture"
#: How a reader is trained, and the controls, which have soft attention.
METHODS = (
    "soft",
    "Gumbel",
    "straight-through",
    "REINFORCE",
    "attention sampling",
    "top k",
    "noisy top k",
    "exact likelihood",
    "thumbnail only",
    "selected by ink",
)
#: The methods with the regions that each encodes in training.
ENCODED = (
    ("soft", 64),
    ("Gumbel", 64),
    ("straight-through", 64),
    ("REINFORCE", 1),
    ("REINFORCE", 2),
    ("REINFORCE", 4),
    ("REINFORCE", 8),
    ("attention sampling", 4),
    ("attention sampling", 8),
    ("top k", 1),
    ("top k", 2),
    ("top k", 4),
    ("top k", 8),
    ("noisy top k", 2),
    ("noisy top k", 4),
    ("exact likelihood", 64),
    ("thumbnail only", 64),
    ("selected by ink", 8),
)
#: The numbers of regions that are encoded at inference.
BUDGETS = (1, 2, 4, 8, 16, 32, 64)
#: The learning rates of the sweep.
RATES = (0.01, 0.003, 0.03)
#: Those that learn best at the lowest of them, for which a lower one is tried, too.
SLOWER = {
    ("straight-through", 64),
    ("top k", 8),
    ("noisy top k", 2),
    ("noisy top k", 4),
}
#: The methods that are compared over the regions they encode, with five seeds each.
SWEPT = ("REINFORCE", "top k", "noisy top k")
_SETS = {"training": (0, 4_000, 1), "validation": (1, 1_000, 3), "test": (2, 1_000, 2)}
_SELECTED = 8  # regions, by the rule
_BATCH = 64


@cache
def pictures(part: str) -> LargePictures:
    """The pictures of one set; no digit's image is in two sets.

    Args:
        part: ``training``, ``validation`` or ``test``.
    """
    check_choice("part", part, _SETS)
    digits = scenes.split(scenes.handwritten_digits(), fraction=0.2, seed=0)
    which, count, seed = _SETS[part]
    return large_pictures(digits[which], count, seed)


@cache
def selected_by_ink(part: str) -> LargePictures:
    """The same pictures without all but 8 regions, those nearest to a digit's mean ink.

    Their ``cells`` count the regions that are left, and are −1 where the digit's is not.
    """
    regions, labels, cells = pictures(part)
    training = pictures("training")
    rows = torch.arange(len(training.cells))
    usual = training.regions[rows, training.cells].mean()
    chosen = (regions.mean(-1) - usual).abs().topk(_SELECTED, largest=False).indices
    index = chosen[..., None].expand(-1, -1, regions.shape[-1])
    hit = chosen == cells[:, None]
    place = hit.int().argmax(-1).masked_fill(~hit.any(-1), -1)
    return LargePictures(regions.gather(1, index), labels, place)


class RegionReader(nn.Module):
    """Names the digit in a picture of k regions, of which it may encode only a few.

    Args:
        method: one of :data:`METHODS`.
        encoded: how many regions REINFORCE and attention sampling sample in training,
            and the two top k take; all others encode every region.

    Example:
        >>> reader = RegionReader("REINFORCE", 4)
        >>> log_probability, samples = reader(torch.rand(3, 64, 64))
        >>> log_probability.shape, samples.shape
        (torch.Size([3, 10]), torch.Size([3, 4]))
    """

    def __init__(self, method: str, encoded: int):
        super().__init__()
        check_choice("method", method, METHODS)
        self.method, self.encoded = method, encoded
        pixels = 4 if method == "thumbnail only" else 64
        self.glance = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 1))
        self.encoder = nn.Sequential(
            nn.Linear(pixels, 48), nn.ReLU(), nn.Linear(48, 32), nn.ReLU()
        )
        self.output = nn.Linear(32, len(scenes.NAMES))

    def scores(self, regions: Float[Tensor, "b k 64"]) -> Float[Tensor, "b k"]:
        """The scores of the regions, which depend on their thumbnails alone."""
        thumbnail = thumbnails(regions).flatten(2)
        return self.glance(8 * thumbnail - 2.4).squeeze(-1)  # inputs centred

    def encode(
        self, regions: Float[Tensor, "b k 64"], chosen: Int[Tensor, "b c"] | None = None
    ) -> Float[Tensor, "b c 32"]:
        """The vectors of the chosen regions, and of no others; by default of all."""
        if chosen is not None:
            index = chosen[..., None].expand(-1, -1, regions.shape[-1])
            regions = regions.gather(1, index)
        if self.method == "thumbnail only":
            regions = thumbnails(regions).flatten(2)
        return self.encoder(regions)

    def forward(
        self, regions: Float[Tensor, "b k 64"]
    ) -> tuple[Float[Tensor, "b 10"], Float[Tensor, "b c"] | None]:
        """Log-probabilities of the digits, and of the regions that REINFORCE sampled."""
        scores = self.scores(regions)
        if self.method in ("REINFORCE", "attention sampling"):
            repeated = scores[:, None].repeat(1, self.encoded, 1)
            # (b, c), with replacement
            chosen = (repeated + _gumbel(repeated)).argmax(-1)
            log_prob = scores.log_softmax(-1).gather(-1, chosen)
            values = self.encode(regions, chosen)
            if self.method == "REINFORCE":
                return self._digits(values.mean(1)), log_prob
            weights = (log_prob - log_prob.detach()).exp() / self.encoded
            return self._digits((weights[..., None] * values).sum(1)), None
        if self.method in ("top k", "noisy top k"):
            ranked = scores if self.method == "top k" else scores + _gumbel(scores)
            chosen = ranked.topk(self.encoded).indices
            found = scores.gather(-1, chosen)
            return self._average(found, self.encode(regions, chosen)), None
        if self.method == "exact likelihood":
            return self._mixture(scores.log_softmax(-1), self.encode(regions)), None
        if self.method in ("Gumbel", "straight-through"):
            hard = self.method == "straight-through"
            weights = gumbel_softmax(scores, tau=1, hard=hard)
            context = (weights[:, None] @ self.encode(regions)).squeeze(1)
            return self._digits(context), None
        return self._average(scores, self.encode(regions)), None

    @torch.no_grad()
    def read(
        self, regions: Float[Tensor, "b k 64"], budget: int
    ) -> Float[Tensor, "b 10"]:
        """At inference: the digits' log-probabilities from the most probable regions.

        Args:
            regions: of the pictures.
            budget: how many regions are encoded.
        """
        scores, chosen = self.scores(regions).topk(budget)
        values = self.encode(regions, chosen)
        if self.method == "exact likelihood":
            return self._mixture(scores.log_softmax(-1), values)
        return self._average(scores, values)

    def _average(self, scores: Tensor, values: Tensor) -> Tensor:
        """Of soft attention."""
        return self._digits((scores.softmax(-1)[:, None] @ values).squeeze(1))

    def _mixture(self, log_weights: Tensor, values: Tensor) -> Tensor:
        """Of the predictions from each region by itself."""
        return (log_weights[..., None] + self._digits(values)).logsumexp(1)

    def _digits(self, values: Tensor) -> Tensor:
        return self.output(values).log_softmax(-1)


def _gumbel(scores: Tensor) -> Tensor:
    return -torch.empty_like(scores).exponential_().log()


def train(
    method: str, encoded: int, learning_rate: float, seed: int, steps: int = 1_000
) -> RegionReader:
    """A trained reader; the learning rate rises for 50 steps and then falls to zero."""
    torch.manual_seed(seed)
    model = RegionReader(method, encoded)
    optimizer = torch.optim.Adam(model.parameters(), learning_rate)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / 50, 1 - step / steps)
    )
    shown = selected_by_ink if method == "selected by ink" else pictures
    regions, labels, _ = shown("training")
    baseline = 0.0
    for _ in range(steps):
        rows = torch.randint(len(labels), (_BATCH,))
        digits, samples = model(regions[rows])
        reward = digits.gather(-1, labels[rows, None]).squeeze(-1)
        loss = -reward.mean()
        if samples is not None:
            advantage = (reward - baseline).detach()
            loss = loss - (advantage * samples.sum(-1)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        baseline = 0.9 * baseline + 0.1 * reward.mean().item()
    return model


def measure(
    method: str, encoded: int, learning_rate: float, seed: int
) -> dict[str, Any]:
    """Train one reader; its accuracy, and how often it finds the digit's region.

    Returns:
        ``validation``, the accuracy on the validation set with 8 regions encoded;
        ``test``, that on the test set with each of :data:`BUDGETS`, up to the number of
        regions that there are; and ``first``, how often in the test set the region
        with the largest score is the digit's.
    """
    model = train(method, encoded, learning_rate, seed)
    shown = selected_by_ink if method == "selected by ink" else pictures
    validation, test = shown("validation"), shown("test")
    budgets = [budget for budget in BUDGETS if budget <= test.regions.shape[1]]
    with torch.no_grad():
        first = model.scores(test.regions).argmax(-1) == test.cells
    return {
        "validation": _accuracy(model, validation, 8),
        "test": [_accuracy(model, test, budget) for budget in budgets],
        "first": first.float().mean().item(),
    }


def _accuracy(model: RegionReader, data: LargePictures, budget: int) -> float:
    found = model.read(data.regions, budget).argmax(-1)
    return (found == data.labels).float().mean().item()


def settings() -> list[dict[str, Any]]:
    """The settings of all runs: what :func:`measure` is called with."""
    runs: list[dict[str, Any]] = []
    for method, encoded in ENCODED:
        rates = [*RATES, 0.001] if (method, encoded) in SLOWER else [*RATES]
        seeds = range(5 if method in SWEPT else 3)
        runs += grid(method=method, encoded=encoded, learning_rate=rates, seed=seeds)
    return runs
