"""A task with short and long ways in it: passages of text, each followed by a copy of itself."""

from collections.abc import Sequence
from math import log
from typing import NamedTuple

import torch
from accelerate.utils import send_to_device
from jaxtyping import Int
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from companion.data.examples import Shuffled, batches_in_order
from companion.data.vocabulary import Vocabulary
from companion.training import recipe
from companion.training.losses import Record, evaluating, next_token_loss, to_float32

SEPARATOR = "<again>"  #: the token between a passage and its copy
_AT_ONCE = 64


class BitsPerCharacter(NamedTuple):
    """What a token costs, −log₂ of its probability: where the text is new, and where it is copied."""

    new: float
    copied: float


class Copying:
    """Passages to train on, and others to test with, each twice in a row. It knows no model.

    Between passage and copy stand ``gap`` separators. So, for passages of n characters, the place from which
    a copied character is to be told is n + gap − 1 places after the one where it is found. A model is called
    with tokens, and answers at each place with the scores of the next one.

    Raises:
        ValueError: the passages have different lengths or fewer than 2 characters, there are none to train on
            or to test with, or the gap is below 1.
    """

    def __init__(self, train: Sequence[str], test: Sequence[str], gap: int = 1):
        if not train or not test:
            raise ValueError(
                f"{len(train)} passages to train on and {len(test)} to test with: both need one"
            )
        lengths = {len(passage) for passage in (*train, *test)}
        if len(lengths) != 1 or min(lengths) < 2:
            raise ValueError(
                f"the passages must have one length, at least 2, not {sorted(lengths)}"
            )
        if gap < 1:
            raise ValueError(
                f"at least one separator must stand before the copy, not {gap}"
            )
        #: the vocabulary, of the training passages' characters and ``SEPARATOR``
        self.characters = Vocabulary.of([*train, (SEPARATOR,)])
        self.train_passages, self.test_passages = train, test
        self.length, self.gap = lengths.pop(), gap

    def collate(self, passages: Sequence[str]) -> Int[Tensor, "b n"]:
        """Each passage, the separators, and the passage again."""
        rows = [(*passage, *[SEPARATOR] * self.gap, *passage) for passage in passages]
        return torch.tensor([self.characters.encode(row) for row in rows])

    def train(
        self, model: nn.Module, steps: int, learning_rate: float = 0.02, seed: int = 0
    ) -> list[Record]:
        """Follow the book's recipe, with batches of 8 in the order that the seed gives.

        The history has the bits of new and copied characters, held out, every 50 steps.

        Raises:
            ValueError, FloatingPointError: as :func:`companion.training.recipe.train`.
        """
        batches = Shuffled(self.train_passages, self.collate, batch_size=8, seed=seed)
        return recipe.train(
            model,
            next_token_loss,
            batches,
            steps,
            learning_rate,
            lambda model: self.bits_per_character(model)._asdict(),
        )

    def bits_per_character(self, model: nn.Module) -> BitsPerCharacter:
        """The mean cost of a held-out character, the first time and the second."""
        device, new, copied = next(model.parameters()).device, 0.0, 0.0
        with evaluating(model):
            for tokens in batches_in_order(self.test_passages, self.collate, _AT_ONCE):
                tokens = send_to_device(tokens, device)
                logits = to_float32(model(tokens[:, :-1]))
                costs = cross_entropy(logits.mT, tokens[:, 1:], reduction="none") / log(
                    2
                )
                new += costs[:, : self.length - 1].sum().item()
                copied += costs[:, -self.length :].sum().item()
        count = len(self.test_passages)
        return BitsPerCharacter(
            new / (count * (self.length - 1)), copied / (count * self.length)
        )
