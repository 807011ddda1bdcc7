"""The study of chapter 12 on recall: what a state of constant size can look up.

The task is that of chapter 3, a list of facts and questions about them, asked in sequence.
Of the facts, linear attention keeps a matrix for each head, and softmax attention all keys
and values.

All runs take about ten minutes on one CPU core.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attention_course.studies.recording import check_choice, grid
from attention_course.training import recipe
from attention_course.training.losses import Record, evaluating, to_device
from companion.attention.base import Attention
from companion.attention.causal import CausalAttention
from companion.attention.linear import CausalLinearAttention
from companion.layers.residual import PreNorm
from companion.losses.tokens import Loss, token_loss
from companion.models.transformer import CausalTransformerLayer

TITLE = (
    "Chapter 12: lookups of many facts, by softmax attention and by linear attention"
)

#: The names of the attentions.
ATTENTIONS: dict[str, Callable[[], Attention]] = {
    "softmax": CausalAttention,
    "linear": CausalLinearAttention,
}
CITIES, DIGITS = 128, 8  #: each fact is a city with a digit
#: How many facts there are in the texts of the test; those in training have any number of
#: facts up to the largest.
PAIRS = (4, 8, 16, 32, 64)
#: The attention and the number of heads of each model.
MODELS = (("softmax", 4), ("linear", 1), ("linear", 4), ("linear", 16))
D_MODEL = 64  #: features of a position
_QUESTIONS = 16  # asked about every text
_UNKNOWN = DIGITS  # the digit of a question


class Lookups(NamedTuple):
    """Texts of facts and then questions: a city each, with its digit or a blank."""

    city: Int[Tensor, "b n"]
    digit: Int[Tensor, "b n"]
    answer: Int[Tensor, "b a"]  #: the digits of the questions, the last a positions


def lookups(texts: int, pairs: int, seed: int) -> Lookups:
    """Texts of facts in random order; no city occurs in two of a text's facts.

    The questions are about cities of the text, chosen at random.

    Args:
        texts: how many.
        pairs: facts in each of them.

    Example:
        >>> city, digit, answer = lookups(1, pairs=4, seed=0)
        >>> facts = dict(zip(city[0, :4].tolist(), digit[0, :4].tolist()))
        >>> [facts[asked] for asked in city[0, 4:].tolist()] == answer[0].tolist()
        True
    """
    generator = torch.Generator().manual_seed(seed)
    city = torch.rand(texts, CITIES, generator=generator).argsort(1)[:, :pairs]
    digit = torch.randint(DIGITS, (texts, pairs), generator=generator)
    chosen = torch.randint(pairs, (texts, _QUESTIONS), generator=generator)
    return Lookups(
        torch.cat([city, city.gather(1, chosen)], 1),
        torch.cat([digit, torch.full_like(chosen, _UNKNOWN)], 1),
        digit.gather(1, chosen),
    )


class LookupBatches:
    """Batches of 32 new texts, ``batches[step]``, with the same number of facts each."""

    def __init__(self, seed: int = 0):
        self.seed = seed

    def __getitem__(self, step: int) -> Lookups:
        """The batch of a step."""
        seed = 10**6 * (self.seed + 1) + step
        generator = torch.Generator().manual_seed(seed)
        pairs = torch.randint(1, max(PAIRS) + 1, (), generator=generator)
        return lookups(32, int(pairs), seed)


class LookupModel(nn.Module):
    """One causal layer over the sums of two embeddings, and the digits' logits.

    The attention needs no positions: a fact is one position, and which one does not matter.

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


def build(attention: str, heads: int, seed: int = 0) -> LookupModel:
    """An untrained model; all have the same parameters, whatever the number of heads.

    Args:
        attention: one of :data:`ATTENTIONS`.
        heads: among which the features are divided. The state of linear attention has
            ``heads · (64 / heads)² = 64² / heads`` numbers besides its normaliser.
    """
    check_choice("attention", attention, ATTENTIONS)
    torch.manual_seed(seed)
    return LookupModel(ATTENTIONS[attention](), heads)


def answer_logits(model: nn.Module, batch: Lookups) -> Float[Tensor, "b a digits"]:
    """What the model predicts at the questions."""
    return model(batch.city, batch.digit)[:, -batch.answer.shape[1] :]


def answer_loss(model: nn.Module, batch: Lookups) -> Loss:
    """The cross-entropy of the answers."""
    return token_loss(answer_logits(model, batch), batch.answer)


def accuracy(model: nn.Module, batch: Lookups) -> float:
    """The fraction of right answers."""
    batch = to_device(batch, next(model.parameters()).device)
    with evaluating(model):
        right = answer_logits(model, batch).argmax(-1) == batch.answer
    return right.float().mean().item()


def measure(
    attention: str, heads: int, steps: int, learning_rate: float, seed: int
) -> dict[str, Any]:
    """Train one model; its accuracy by the number of facts.

    Returns:
        ``validation``, the accuracy with the most facts after every 50 steps; ``test``, that
        for each of :data:`PAIRS`, with 4,000 questions each.
    """
    model = build(attention, heads, seed)
    validation = lookups(125, max(PAIRS), seed=1)

    def evaluate(model: nn.Module) -> Record:
        return {"accuracy": accuracy(model, validation)}

    batches = LookupBatches(seed)
    history = recipe.train(model, answer_loss, batches, steps, learning_rate, evaluate)
    tests = [lookups(250, pairs, seed=100 + pairs) for pairs in PAIRS]
    return {
        "validation": [record["accuracy"] for record in history],
        "test": [accuracy(model, test) for test in tests],
    }


def settings() -> list[dict[str, Any]]:
    """The settings of all runs: what :func:`measure` is called with."""
    return [
        {"attention": attention, "heads": heads, **rest}
        for rest in grid(steps=600, learning_rate=[0.01, 0.005], seed=range(3))
        for attention, heads in MODELS
    ]
