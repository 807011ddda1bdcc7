"""A copying task: passages of text, each followed by a copy of itself."""

from collections.abc import Sequence
from math import log
from typing import NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from attention_course.data.examples import Shuffled, batches_in_order
from attention_course.data.vocabulary import Vocabulary
from attention_course.training import recipe
from attention_course.training.losses import (
    Record,
    evaluating,
    next_token_loss,
    to_device,
)
from companion.losses.tokens import to_float32

SEPARATOR = "<again>"  #: the token between a passage and its copy
_AT_ONCE = 64  # passages that are measured together


class BitsPerCharacter(NamedTuple):
    """The cross-entropy of a character in bits, −log₂ p, in new and in copied text."""

    new: float
    copied: float


class Copying:
    """Passages, each followed by its copy, and the scores of language models on them.

    ``gap`` separators are between a passage and its copy. For passages of n characters,
    the position that predicts a copied character is therefore n + gap − 1 positions
    after the original. It depends on no model: one is called with tokens, and returns
    at each position the logits of the next token.

    Args:
        validation: the passages that are measured during training.
        test: the passages for the final figures.
        gap: how many separators there are.

    Example:
        >>> task = Copying(["abc", "bca"], ["cab"], ["bac"])
        >>> task.characters.decode(task.collate(["abc"])[0])
        ['a', 'b', 'c', '<again>', 'a', 'b', 'c']
    """

    def __init__(
        self,
        train: Sequence[str],
        validation: Sequence[str],
        test: Sequence[str],
        gap: int = 1,
    ):
        lengths = {len(passage) for passage in (*train, *validation, *test)}
        if len(lengths) != 1 or min(lengths) < 2:
            raise ValueError(
                f"the passages must have one length, at least 2, not {sorted(lengths)}"
            )
        #: the vocabulary, which has the characters of the training passages, and ``SEPARATOR``
        self.characters = Vocabulary.of([*train, (SEPARATOR,)])
        self.train_passages = train
        self.validation_passages, self.test_passages = validation, test
        self.length, self.gap = lengths.pop(), gap

    def collate(self, passages: Sequence[str]) -> Int[Tensor, "b n"]:
        """Each passage, the separators, and the passage again."""
        rows = [(*passage, *[SEPARATOR] * self.gap, *passage) for passage in passages]
        return torch.tensor([self.characters.encode(row) for row in rows])

    def train(
        self, model: nn.Module, steps: int, learning_rate: float = 0.02, seed: int = 0
    ) -> list[Record]:
        """Train by the book's recipe, with batches of 8 in the seed's order.

        Returns:
            A record every 50 steps, with the bits per character of the validation set.
        """
        batches = Shuffled(self.train_passages, self.collate, batch_size=8, seed=seed)
        return recipe.train(
            model,
            next_token_loss,
            batches,
            steps,
            learning_rate,
            lambda model: self.bits_per_character(
                model, self.validation_passages
            )._asdict(),
        )

    def bits_per_character(
        self, model: nn.Module, passages: Sequence[str] | None = None
    ) -> BitsPerCharacter:
        """The mean cross-entropy of characters, in the original and in the copy.

        The first character of a passage is left out, because nothing predicts it.

        Args:
            passages: those to measure it on; the test passages, if not given.
        """
        passages = self.test_passages if passages is None else passages
        device, new, copied = next(model.parameters()).device, 0.0, 0.0
        with evaluating(model):
            for tokens in batches_in_order(passages, self.collate, _AT_ONCE):
                tokens = to_device(tokens, device)
                logits = to_float32(model(tokens[:, :-1]))
                nats = cross_entropy(logits.mT, tokens[:, 1:], reduction="none")
                bits = nats / log(2)  # (b, 2 length + gap − 1)
                new += bits[:, : self.length - 1].sum().item()
                copied += bits[:, -self.length :].sum().item()
        count = len(passages)
        return BitsPerCharacter(
            new / (count * (self.length - 1)), copied / (count * self.length)
        )
