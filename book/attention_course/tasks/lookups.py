"""Lookups: a list of facts, which may be stated twice, and questions about them."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attention_course.training.losses import evaluating, to_device
from companion.attention.base import Attention
from companion.layers.residual import PreNorm
from companion.losses.tokens import Loss, token_loss
from companion.models.transformer import CausalTransformerLayer

CITIES, DIGITS = 128, 8  #: each fact is a city with a digit
D_MODEL = 64  #: features of a position
_QUESTIONS = 16  # asked about every text
_UNKNOWN = DIGITS  # the digit of a question


class Lookups(NamedTuple):
    """Texts of facts and then questions: a city each, with its digit or a blank."""

    city: Int[Tensor, "b n"]
    digit: Int[Tensor, "b n"]
    answer: Int[Tensor, "b a"]  #: the digits of the questions, the last a positions


def lookups(texts: int, facts: int, seed: int) -> Lookups:
    """Texts of facts in random order; no city occurs in two of a text's facts.

    The questions are about cities of the text, chosen at random.

    Args:
        texts: how many.
        facts: in each of them.

    Example:
        >>> city, digit, answer = lookups(1, facts=4, seed=0)
        >>> known = dict(zip(city[0, :4].tolist(), digit[0, :4].tolist()))
        >>> [known[asked] for asked in city[0, 4:].tolist()] == answer[0].tolist()
        True
    """
    generator = torch.Generator().manual_seed(seed)
    city = torch.rand(texts, CITIES, generator=generator).argsort(1)[:, :facts]
    digit = torch.randint(DIGITS, (texts, facts), generator=generator)
    return _with_questions(city, digit, city, digit, generator)


def overwritten(texts: int, facts: int, seed: int) -> Lookups:
    """Texts in which every fact is stated twice, and the last statement counts.

    The statements are in random order, and the two of a city have different digits.

    Args:
        texts: how many.
        facts: in each of them, so that there are twice as many statements.

    Example:
        >>> city, digit, answer = overwritten(1, facts=4, seed=0)
        >>> last = dict(zip(city[0, :8].tolist(), digit[0, :8].tolist()))  # replaces
        >>> [last[asked] for asked in city[0, 8:].tolist()] == answer[0].tolist()
        True
    """
    generator = torch.Generator().manual_seed(seed)
    cities = torch.rand(texts, CITIES, generator=generator).argsort(1)[:, :facts]
    first = torch.randint(DIGITS, (texts, facts), generator=generator)
    other = torch.randint(1, DIGITS, (texts, facts), generator=generator)
    last = (first + other) % DIGITS
    order = torch.rand(texts, 2 * facts, generator=generator).argsort(1)
    places = order.argsort(1).view(texts, 2, facts).sort(1).values  # of both statements
    digit = torch.empty_like(order)
    for statement, said in enumerate((first, last)):
        digit.scatter_(1, places[:, statement], said)
    city = cities.gather(1, order % facts)
    return _with_questions(city, digit, cities, last, generator)


def _with_questions(
    city: Tensor,
    digit: Tensor,
    cities: Tensor,
    answers: Tensor,
    generator: torch.Generator,
) -> Lookups:
    """Statements, and questions about some of the cities, whose answers are given."""
    shape = (len(cities), _QUESTIONS)
    chosen = torch.randint(cities.shape[1], shape, generator=generator)
    return Lookups(
        torch.cat([city, cities.gather(1, chosen)], 1),
        torch.cat([digit, torch.full_like(chosen, _UNKNOWN)], 1),
        answers.gather(1, chosen),
    )


class LookupBatches:
    """Batches of 32 new texts, ``batches[step]``, with the same number of facts each.

    Args:
        seed: of the texts.
        most: the largest number of facts; each number up to it is as frequent.
        make: what makes the texts, :func:`lookups` or :func:`overwritten`.
    """

    def __init__(
        self, seed: int, most: int, make: Callable[[int, int, int], Lookups] = lookups
    ):
        self.seed, self.most, self.make = seed, most, make

    def __getitem__(self, step: int) -> Lookups:
        """The batch of a step."""
        seed = 10**6 * (self.seed + 1) + step
        generator = torch.Generator().manual_seed(seed)
        facts = torch.randint(1, self.most + 1, (), generator=generator)
        return self.make(32, int(facts), seed)


class LookupModel(nn.Module):
    """One causal layer over the sums of two embeddings, and the digits' logits.

    A fact is one position, and there are no position vectors.

    Args:
        attention: of the layer.
        heads: the number of heads, which split :data:`D_MODEL` dimensions.
    """

    def __init__(self, attention: Attention, heads: int):
        super().__init__()
        self.city = nn.Embedding(CITIES, D_MODEL)
        self.digit = nn.Embedding(DIGITS + 1, D_MODEL)
        self.layer = CausalTransformerLayer(
            D_MODEL, heads, 2 * D_MODEL, 0.0, attention, PreNorm
        )
        self.norm = self.layer.attention_residual.final_norm()
        self.output = nn.Linear(D_MODEL, DIGITS)

    def forward(
        self, city: Int[Tensor, "b n"], digit: Int[Tensor, "b n"]
    ) -> Float[Tensor, "b n digits"]:
        """At each position the logits of its city's digit."""
        x = self.layer(self.city(city) + self.digit(digit))
        return self.output(self.norm(x))


def answer_logits(model: nn.Module, batch: Lookups) -> Float[Tensor, "b a digits"]:
    """What the model predicts at the questions."""
    return model(batch.city, batch.digit)[:, -batch.answer.shape[1] :]


def lookup_loss(model: nn.Module, batch: Lookups) -> Loss:
    """The cross-entropy of the answers."""
    return token_loss(answer_logits(model, batch), batch.answer)


def answered(model: nn.Module, batch: Lookups) -> float:
    """The fraction of right answers."""
    batch = to_device(batch, next(model.parameters()).device)
    with evaluating(model):
        right = answer_logits(model, batch).argmax(-1) == batch.answer
    return right.float().mean().item()
