"""The study of chapter 3: which readers answer a question about a list of facts.

Four pool the facts before they meet the question. Three compare the question with each
fact in a score, two of them by attention. Four have no score: they combine question and
fact into a vector, and take the maximum over the facts.

All runs take about three minutes on one CPU core.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from attention_course.studies.recording import grid
from companion.attention.additive import Additive
from companion.attention.pooling import (
    AttentionPooling,
    last_pooling,
    max_pooling,
    mean_pooling,
)
from companion.attention.scores import ScaledDot

TITLE = "Chapter 3: the digit of the city that is asked for, among 1 to 32 facts"
#: The numbers of facts in the texts of the test sets; training texts have 1 to 16.
FACTS = (1, 2, 4, 8, 16, 32)
#: The learning rates of the sweep.
RATES = (0.001, 0.003, 0.01)
#: For each reader the learning rate of the sweep with the highest validation accuracy.
BEST = {
    "attention": 0.001,
    "additive attention": 0.003,
    "sigmoid": 0.003,
    "learned query": 0.003,
    "mean": 0.003,
    "max": 0.003,
    "last": 0.001,
    "question added": 0.003,
    "question added, tanh": 0.003,
    "tanh, question added": 0.003,
    "question multiplied": 0.001,
}
#: The readers that are trained for six times as many steps, with one seed or with three.
LONGER = {"learned query": 1, "mean": 1, "max": 3, "question added": 3}
_CITIES, _DIGITS, _DIM, _LONGEST = 32, 8, 64, 16


def lookups(
    texts: int, generator: torch.Generator, facts: int | None = None
) -> tuple[Tensor, ...]:
    """Cities, digits and mask (b, n), the city that is asked for (b), its digit (b).

    Args:
        texts: how many.
        generator: of the random numbers.
        facts: in each text; by default between 1 and 16.
    """
    counts = torch.randint(1, _LONGEST + 1, (texts, 1), generator=generator)
    counts = counts if facts is None else torch.full_like(counts, facts)
    n = int(counts.max())
    cities = torch.rand(texts, _CITIES, generator=generator).argsort(1)[:, :n]
    digits = torch.randint(_DIGITS, (texts, n), generator=generator)
    chosen = (torch.rand(texts, 1, generator=generator) * counts).long()
    mask = torch.arange(n) < counts
    asked, label = cities.gather(1, chosen), digits.gather(1, chosen)
    return cities, digits, mask, asked.squeeze(1), label.squeeze(1)


class QueryAttention(nn.Module):
    """Scaled dot-product attention with the question as the query."""

    def __init__(self) -> None:
        super().__init__()
        self.W_Q, self.W_K = nn.Linear(_DIM, _DIM), nn.Linear(_DIM, _DIM)
        self.attention = ScaledDot()

    def forward(self, question: Tensor, states: Tensor, mask: Tensor) -> Tensor:
        """The context of each question, (b, d)."""
        query, key = self.W_Q(question)[:, None], self.W_K(states)
        return self.attention(query, key, states, mask[:, None]).squeeze(1)


class AdditiveQueryAttention(nn.Module):
    """Additive attention with the question as the query."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = Additive(_DIM, _DIM, _DIM)

    def forward(self, question: Tensor, states: Tensor, mask: Tensor) -> Tensor:
        """The context of each question, (b, d)."""
        key, value = self.attention.project(states)
        context: Tensor = self.attention(question[:, None], key, value, mask[:, None])
        return context.squeeze(1)


class SigmoidGate(nn.Module):
    """A scaled dot product and a sigmoid: the weights of a text need not sum to 1."""

    def __init__(self) -> None:
        super().__init__()
        self.W_Q, self.W_K = nn.Linear(_DIM, _DIM), nn.Linear(_DIM, _DIM)

    def forward(self, question: Tensor, states: Tensor, mask: Tensor) -> Tensor:
        """The sum of the states under their weights, (b, d)."""
        query, key = self.W_Q(question)[:, None], self.W_K(states)
        scores = (query * key).sum(-1) / _DIM**0.5
        weights = scores.sigmoid().masked_fill(~mask, 0.0)
        return (weights[..., None] * states).sum(1)


class WithoutQuestion(nn.Module):
    """A pooling that is the same for every question."""

    def __init__(self, pool: Callable[[Tensor, Tensor], Tensor]):
        super().__init__()
        self.pool = pool

    def forward(self, question: Tensor, states: Tensor, mask: Tensor) -> Tensor:
        """The pooled states, (b, d)."""
        return self.pool(states, mask)


class EarlyQuestion(nn.Module):
    """Combines each state with the question, and takes the maximum."""

    def __init__(self, combine: Callable[[Tensor, Tensor], Tensor]):
        super().__init__()
        self.combine = combine
        self.W_Q, self.W_K = nn.Linear(_DIM, _DIM), nn.Linear(_DIM, _DIM)
        self.layer = nn.Linear(2 * _DIM, _DIM)

    def forward(self, question: Tensor, states: Tensor, mask: Tensor) -> Tensor:
        """The maximum over the states that have read the question, (b, d)."""
        combined = self.combine(self.W_Q(question)[:, None], self.W_K(states))
        return max_pooling(
            torch.relu(self.layer(torch.cat([states, combined], -1))), mask
        )


def _tanh_of_sum(question: Tensor, states: Tensor) -> Tensor:
    return torch.tanh(question + states)


def _sum_of_tanhs(question: Tensor, states: Tensor) -> Tensor:
    """As many nonlinear functions as in the tanh of the sum, one joint step less."""
    return torch.tanh(question) + torch.tanh(states)


_POOLINGS: dict[str, Callable[[], nn.Module]] = {
    "attention": QueryAttention,
    "additive attention": AdditiveQueryAttention,
    "sigmoid": SigmoidGate,
    "learned query": lambda: WithoutQuestion(
        AttentionPooling(Additive(_DIM, _DIM, _DIM), _DIM)
    ),
    "mean": lambda: WithoutQuestion(mean_pooling),
    "max": lambda: WithoutQuestion(max_pooling),
    "last": lambda: WithoutQuestion(last_pooling),
    "question added": lambda: EarlyQuestion(torch.add),
    "question added, tanh": lambda: EarlyQuestion(_tanh_of_sum),
    "tanh, question added": lambda: EarlyQuestion(_sum_of_tanhs),
    "question multiplied": lambda: EarlyQuestion(torch.mul),
}


class LookupReader(nn.Module):
    """Answers a question about a list of facts.

    Args:
        reader: the name of its pooling, one of :data:`BEST`.
    """

    def __init__(self, reader: str):
        super().__init__()
        self.city = nn.Embedding(_CITIES, _DIM)
        self.digit = nn.Embedding(_DIGITS, _DIM)
        self.fact = nn.Linear(2 * _DIM, _DIM)
        self.pooling = _POOLINGS[reader]()
        self.output = nn.Sequential(
            nn.Linear(2 * _DIM, _DIM), nn.ReLU(), nn.Linear(_DIM, _DIGITS)
        )

    def forward(
        self, cities: Tensor, digits: Tensor, mask: Tensor, asked: Tensor
    ) -> Tensor:
        """The logits of the digits, (b, 8)."""
        facts = torch.cat([self.city(cities), self.digit(digits)], -1)
        question, states = self.city(asked), torch.tanh(self.fact(facts))
        pooled = self.pooling(question, states, mask)
        logits: Tensor = self.output(torch.cat([pooled, question], -1))
        return logits


@torch.no_grad()
def accuracy(model: nn.Module, examples: tuple[Tensor, ...]) -> float:
    """The fraction of the questions that the model answers correctly."""
    *text, label = examples
    return (model(*text).argmax(-1) == label).float().mean().item()


def measure(reader: str, steps: int, learning_rate: float, seed: int) -> dict[str, Any]:
    """Train one reader on new texts at each step, 64 at once.

    Args:
        reader: one of :data:`BEST`.
        steps, learning_rate, seed: of the training.

    Returns:
        The accuracy on 1,000 ``validation`` texts as in training, and on 1,000 ``test``
        texts for each of :data:`FACTS`.
    """
    torch.manual_seed(seed)
    model, generator = LookupReader(reader), torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(model.parameters(), learning_rate)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, steps)
    for _ in range(steps):
        *text, label = lookups(64, generator)
        loss = nn.functional.cross_entropy(model(*text), label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    validation = lookups(1000, torch.Generator().manual_seed(1000))
    tests = [lookups(1000, torch.Generator().manual_seed(2000 + n), n) for n in FACTS]
    return {
        "validation": accuracy(model, validation),
        "test": [accuracy(model, examples) for examples in tests],
    }


def settings() -> list[dict[str, Any]]:
    """The settings of all runs: what :func:`measure` is called with."""
    runs = grid(reader=list(BEST), steps=400, learning_rate=RATES, seed=0)
    for name, rate in BEST.items():
        runs += grid(reader=name, steps=400, learning_rate=rate, seed=[1, 2])
    for name, seeds in LONGER.items():
        runs += grid(
            reader=name, steps=2400, learning_rate=BEST[name], seed=range(seeds)
        )
    return runs
