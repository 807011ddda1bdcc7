"""The study of chapter 12 on texts that are longer than those in training, by positions.

Language models read 128 characters of Python's manual at a time in training, and up to
1,024 in the test. What is measured is the loss by the position in the text, which should
fall as the context grows, and rises where a model does not know such positions.

All runs take about twelve minutes on one CPU core.
"""

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from attention_course.data import manual
from attention_course.data.vocabulary import Vocabulary
from attention_course.studies.recording import check_choice, grid
from attention_course.training import recipe
from attention_course.training.losses import evaluating, next_token_loss
from companion.attention.base import Attention
from companion.attention.causal import CausalAttention
from companion.attention.linear_bias import ALiBi
from companion.attention.rotary import Rotary
from companion.layers.positional_encoding import (
    LearnedPositionalEncoding,
    NoPositionalEncoding,
    SinusoidalPositionalEncoding,
)
from companion.layers.residual import PreNorm
from companion.models.language_model import LanguageModel
from companion.models.transformer import CausalTransformerLayer

TITLE = "Chapter 12: language models that read further than in training, by positions"

#: The first position of each range and the one after its last; the last has the longest.
SPANS = (
    *((0, 16), (16, 32), (32, 64), (64, 96), (96, 128)),
    *((128, 192), (192, 256), (256, 384), (384, 512), (512, 768), (768, 1024)),
)
LONGEST = SPANS[-1][1]  #: the characters that a model reads in the test
_D_MODEL, _HEADS = 64, 4
_STRIDE = 256  # between the first characters of two test passages


def learned_positions() -> LearnedPositionalEncoding:
    """A table with a row for every position of the test, initialised as the embeddings."""
    table = LearnedPositionalEncoding(LONGEST, _D_MODEL)
    nn.init.normal_(table.embedding.weight)
    return table


#: The position encoding of a model and the attention of each layer, by the kind of positions.
KINDS: dict[str, tuple[Callable[[], nn.Module], Callable[[], Attention]]] = {
    "no positions": (NoPositionalEncoding, CausalAttention),
    "sinusoids": (SinusoidalPositionalEncoding, CausalAttention),
    "learned": (learned_positions, CausalAttention),
    "rotary": (NoPositionalEncoding, lambda: Rotary(CausalAttention())),
    "ALiBi": (NoPositionalEncoding, lambda: ALiBi(_HEADS)),
}


@cache
def characters() -> Vocabulary:
    """The characters of the training articles."""
    return Vocabulary.of(articles(held_out=False))


def articles(held_out: bool) -> list[str]:
    """Articles of Python's manual: one of every ten is held out for the test."""
    texts = manual.texts()
    return [text for number, text in enumerate(texts) if (number % 10 == 0) == held_out]


class Passages:
    """Batches of passages from random positions in the training articles, ``batches[step]``.

    Args:
        length: how many characters a model reads; a passage has one more, to predict.
        rows: passages in a batch.
    """

    def __init__(self, length: int, rows: int, seed: int = 0):
        self.length, self.rows, self.seed = length, rows, seed
        text = " ".join(articles(held_out=False))
        self._tokens = torch.tensor(characters().encode(text))

    def __getitem__(self, step: int) -> Int[Tensor, "b n"]:
        """The batch of a step."""
        generator = torch.Generator().manual_seed(10**6 * (self.seed + 1) + step)
        last = len(self._tokens) - self.length
        first = torch.randint(last, (self.rows, 1), generator=generator)
        return self._tokens[first + torch.arange(self.length + 1)]


@cache
def passages_for_test(length: int, stride: int = _STRIDE) -> Int[Tensor, "b n"]:
    """Passages of the held-out articles; each starts ``stride`` characters after the previous one.

    So nearly every character is predicted at many positions, and the losses of two
    positions differ by what the model could read before, and hardly by the text.

    Args:
        length: how many characters a model reads; a passage has one more, to predict.
        stride: the number of characters from the start of one passage to that of the next.
    """
    rows = [
        text[first : first + length + 1]
        for text in articles(held_out=True)
        for first in range(0, len(text) - length, stride)
    ]
    return torch.tensor([characters().encode(row) for row in rows])


def build(kind: str, seed: int = 0) -> LanguageModel:
    """An untrained language model: two layers of 64 features, with four heads."""
    check_choice("kind", kind, KINDS)
    position, attention = KINDS[kind]
    torch.manual_seed(seed)
    layers = [
        CausalTransformerLayer(
            _D_MODEL, _HEADS, 4 * _D_MODEL, 0.0, attention(), PreNorm
        )
        for _ in range(2)
    ]
    return LanguageModel(len(characters()), layers, position())


def bits_by_position(
    model: nn.Module, passages: Int[Tensor, "b n"], at_once: int = 4
) -> Float[Tensor, " m"]:
    """The mean cross-entropy in bits of the character after each position, ``m = n − 1``.

    Args:
        at_once: how many of them the model reads together.
    """
    total = torch.zeros(passages.shape[1] - 1)
    with evaluating(model):
        for tokens in passages.split(at_once):
            logits = model(tokens[:, :-1])
            nats = cross_entropy(logits.mT, tokens[:, 1:], reduction="none")
            total += nats.sum(0) / math.log(2)
    return total / len(passages)


def measure(
    kind: str, length: int, steps: int, learning_rate: float, seed: int
) -> dict[str, Any]:
    """Train one model; its bits per character by the position in longer texts.

    Returns:
        ``test``, the mean bits per character in each of :data:`SPANS`.
    """
    model = build(kind, seed)
    batches = Passages(length, rows=16, seed=seed)
    recipe.train(model, next_token_loss, batches, steps, learning_rate)
    bits = bits_by_position(model, passages_for_test(LONGEST))
    return {"test": [bits[first:end].mean().item() for first, end in SPANS]}


def settings() -> list[dict[str, Any]]:
    """The settings of all runs: what :func:`measure` is called with."""
    usual: dict[str, Any] = {"length": 128, "steps": 1000, "learning_rate": 0.005}
    return grid(kind=[*KINDS], **usual, seed=range(3))
