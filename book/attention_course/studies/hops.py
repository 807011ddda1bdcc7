"""The study of chapter 11 on questions that take one, two or three lookups.

Does a ConvS2S answer them with attention in one layer of the decoder, or does it take
several?

All runs take about eight minutes on one CPU core.
"""

from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attention_course.data.vocabulary import BOS
from attention_course.studies.convs2s import build, parameter_count
from attention_course.studies.recording import grid
from attention_course.training import recipe
from attention_course.training.losses import Record, evaluating, to_device
from companion.losses.tokens import Loss, token_loss
from companion.models.seq2seq import EncoderDecoder

TITLE = (
    "Chapter 11: questions about things in things, with attention in one layer or two"
)

#: What the questions are about.
THINGS = (
    *("attic", "bag", "barn", "basket", "book", "bottle", "bowl", "box", "car", "coat"),
    *(
        "coin",
        "cup",
        "drawer",
        "garage",
        "house",
        "key",
        "letter",
        "pen",
        "ring",
        "shed",
    ),
)
FIRST = BOS + 3  #: the token id of the first thing
CHAINS = 3  #: in the facts of one question


class Questions(NamedTuple):
    """Facts as pairs of things, where the first is in the second; and a question each."""

    facts: Int[Tensor, "b f"]  #: token ids, two for each fact
    asked: Int[Tensor, "b 1"]  #: the first thing of a chain
    answer: Int[Tensor, " b"]  #: its last thing


def questions(count: int, hops: int, seed: int) -> Questions:
    """Questions where a thing is in the end, if it is in one that is itself in another.

    Each question has three chains of things, such as cup, box, car, and the facts of all
    chains in random order: the cup is in the box, the box is in the car.

    Args:
        hops: the number of facts in a chain.

    Example:
        >>> facts, asked, answer = questions(1, hops=2, seed=0)
        >>> words = [THINGS[token - FIRST] for token in facts[0]]
        >>> " ".join(words)
        'ring garage house book book coin drawer barn garage shed barn basket'
        >>> THINGS[asked.item() - FIRST], THINGS[answer.item() - FIRST]
        ('drawer', 'basket')
    """
    generator = torch.Generator().manual_seed(seed)
    order = torch.rand(count, len(THINGS), generator=generator).argsort(1)
    chains = order[:, : CHAINS * (hops + 1)].unflatten(1, (CHAINS, hops + 1)) + FIRST
    facts = torch.stack([chains[:, :, :-1], chains[:, :, 1:]], -1).flatten(1, 2)
    shuffled = torch.rand(facts.shape[:2], generator=generator).argsort(1)
    facts = facts.gather(1, shuffled[..., None].expand_as(facts))  # (b, 3 · hops, 2)
    return Questions(facts.flatten(1), chains[:, 0, :1], chains[:, 0, -1])


class QuestionBatches:
    """Batches of 64 new questions, ``batches[step]``.

    Args:
        hops: the number of facts in a chain.
    """

    def __init__(self, hops: int, seed: int = 0):
        self.hops, self.seed = hops, seed

    def __getitem__(self, step: int) -> Questions:
        """The batch of a step."""
        return questions(64, self.hops, seed=10**6 * (self.seed + 1) + step)


def answer_logits(model: nn.Module, batch: Questions) -> Float[Tensor, "b v"]:
    """What the model predicts after the thing that is asked for.

    Args:
        model: an encoder–decoder; the facts are its source.
        batch: the questions.
    """
    return model(batch.facts, batch.asked)[:, 0]


def answer_loss(model: nn.Module, batch: Questions) -> Loss:
    """The cross-entropy of the answers."""
    return token_loss(answer_logits(model, batch), batch.answer)


def accuracy(model: nn.Module, batch: Questions) -> float:
    """The fraction of right answers."""
    batch = to_device(batch, next(model.parameters()).device)
    with evaluating(model):
        right = answer_logits(model, batch).argmax(-1) == batch.answer
    return right.float().mean().item()


def answering_model(
    attending: str = "1 2",
    dim: int = 48,
    encoder_layers: int = 1,
    decoder_layers: int = 2,
    seed: int = 0,
) -> EncoderDecoder:
    """A model for :func:`questions`.

    Args:
        attending: which layers of the decoder attend, as in ``"1 2"``.
        dim: of embeddings and layers.
        encoder_layers, decoder_layers: the numbers of layers.
    """
    tokens = FIRST + len(THINGS)
    chosen = map(int, attending.split())
    return build(tokens, tokens, dim, encoder_layers, decoder_layers, chosen, seed)


def train_to_answer(
    model: nn.Module,
    hops: int = 2,
    steps: int = 400,
    learning_rate: float = 0.005,
    seed: int = 0,
) -> list[Record]:
    """Train by the book's recipe; a record every 50 steps, with the validation loss.

    Args:
        model: see :func:`answering_model`.
        hops: the number of facts in a chain.
        steps, learning_rate: of the training.
        seed: of the questions.
    """
    validation = questions(500, hops, seed=1)

    def evaluate(model: nn.Module) -> Record:
        device = next(model.parameters()).device
        loss = answer_loss(model, to_device(validation, device))
        return {"validation_loss": (loss.total / loss.count).item()}

    batches = QuestionBatches(hops, seed)
    return recipe.train(model, answer_loss, batches, steps, learning_rate, evaluate)


def measure(
    hops: int,
    before: str,
    attending: str,
    dim: int,
    encoder_layers: int,
    decoder_layers: int,
    steps: int,
    learning_rate: float,
    seed: int,
) -> dict[str, Any]:
    """Train a model to answer questions; its accuracy on 1,000 test questions.

    Args:
        hops: the number of facts in a chain.
        before: the numbers of facts of the questions on which the model is trained first,
            as in ``"1 2"``, with as many steps each.
    """
    model = answering_model(attending, dim, encoder_layers, decoder_layers, seed)
    for easier in before.split():
        train_to_answer(model, int(easier), steps, learning_rate, seed)
    history = train_to_answer(model, hops, steps, learning_rate, seed)
    return {
        "parameters": parameter_count(model),
        "validation_loss": [record["validation_loss"] for record in history],
        "test": accuracy(model, questions(1000, hops, seed=2)),
    }


def settings() -> list[dict[str, Any]]:
    """The settings of all runs: what :func:`measure` is called with."""
    usual: dict[str, Any] = {
        "hops": 2,
        "before": "",
        "attending": "1",
        "dim": 48,
        "encoder_layers": 1,
        "decoder_layers": 2,
        "steps": 400,
        "learning_rate": 0.005,
    }
    three: dict[str, Any] = {
        "hops": 3,
        "attending": "1 2 3",
        "dim": 48,
        "encoder_layers": 1,
        "decoder_layers": 3,
        "learning_rate": 0.005,
    }
    return [
        *grid(**usual | {"attending": ["1 2", "1"]}, seed=range(3)),
        *grid(**usual | {"dim": 64}, seed=range(3)),
        *grid(**usual | {"learning_rate": [0.002, 0.01]}, seed=0),
        *grid(**usual | {"steps": [1000, 3000]}, seed=0),
        *grid(**usual | {"hops": 1}, seed=0),
        *grid(**usual | {"attending": "2"}, seed=0),
        *grid(**usual | {"encoder_layers": 6, "steps": [400, 3000]}, seed=0),
        *grid(**three, steps=1000, before="", seed=0),
        *grid(**three, steps=3000, before="", seed=range(3)),
        *grid(**three | {"attending": "1 2"}, steps=3000, before="", seed=0),
        *grid(**three, steps=400, before="1 2", seed=range(3)),
    ]
