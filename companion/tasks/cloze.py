"""Questions with a word left out, as chapter 10 asks them: vocabulary, batches, a recipe, and a score."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from accelerate.utils import send_to_device
from jaxtyping import Int
from torch import Tensor, nn

from companion.attention.attention_over_attention import pointer_sum
from companion.data.examples import Shuffled, batches_in_order
from companion.data.facts import Question
from companion.data.vocabulary import UNK, Vocabulary, pad
from companion.training import recipe
from companion.training.losses import Loss, Record, evaluating, to_float32

_AT_ONCE = 256


class ClozeBatch(NamedTuple):
    """A batch of questions: what a reader is called with, the words to choose from, and the right one."""

    document: Int[Tensor, "b n"]
    question: Int[Tensor, "b m"]
    candidates: Int[Tensor, "b c"]
    answer: Int[Tensor, "b 1"]


def answer_loss(reader: nn.Module, batch: ClozeBatch) -> Loss:
    """The negative logarithm of the answer's probability, which is the sum over the places where it stands.

    ::

        total = − Σ_i log P(answer_i),   P(w) = Σ_{j: x_j = w} s_j,   count = N questions

    with x_j the word at place j of the document. A reader's shares are probabilities already, so no softmax
    follows. Where P is too small for its format, it counts as the smallest normal number: the loss and its
    gradient stay finite (in 32 bits; in float16 a small share can still overflow the gradient). Source:
    section 3 of Kadlec et al. 2016, and of Cui et al. 2017.
    """
    shares = to_float32(reader(batch.document, batch.question))
    found = pointer_sum(shares, batch.document, batch.answer)
    total = -found.clamp_min(torch.finfo(found.dtype).tiny).log().sum()
    return Loss(total, torch.tensor(len(found), device=total.device))


class Cloze:
    """Questions to train on, and others to test with. It knows no reader.

    A reader is called with documents and questions, and answers with the shares of the document's places.
    """

    def __init__(self, train: Sequence[Question], test: Sequence[Question]):
        #: the vocabulary of documents and questions
        self.words = Vocabulary.of(
            text for asked in train for text in (asked.document, asked.question)
        )
        self.training_questions, self.test_questions = train, test

    def collate(self, questions: Sequence[Question]) -> ClozeBatch:
        """A batch of these questions.

        Raises:
            ValueError: an answer does not stand in its document, or is no candidate, or there is a candidate
                that no training question has.
        """
        for row, asked in enumerate(questions):
            if (
                asked.answer not in asked.document
                or asked.answer not in asked.candidates
            ):
                raise ValueError(
                    f"the answer {asked.answer!r} of question {row} (from 0) must be one of the document's "
                    f"{len(asked.document)} words and of the candidates {asked.candidates}"
                )
            if UNK in self.words.encode(asked.candidates):
                raise ValueError(
                    f"of the candidates {asked.candidates} of question {row} (from 0) one is unknown"
                )
        return ClozeBatch(
            pad([self.words.encode(asked.document) for asked in questions]),
            pad([self.words.encode(asked.question) for asked in questions]),
            torch.tensor([self.words.encode(asked.candidates) for asked in questions]),
            torch.tensor([self.words.encode([asked.answer]) for asked in questions]),
        )

    def train(
        self, reader: nn.Module, steps: int, learning_rate: float = 2e-2, seed: int = 0
    ) -> list[Record]:
        """Follow the book's recipe, with batches of 32 in the order that the seed gives.

        The history has the held-out accuracy every 50 steps.

        Raises:
            ValueError, FloatingPointError: as :func:`companion.training.recipe.train`.
        """
        batches = Shuffled(
            self.training_questions, self.collate, batch_size=32, seed=seed
        )
        return recipe.train(
            reader, answer_loss, batches, steps, learning_rate, self._measure
        )

    def _measure(self, reader: nn.Module) -> Record:
        return {"accuracy": self.accuracy(reader)}

    def accuracy(self, reader: nn.Module) -> float:
        """The share of held-out questions whose most probable candidate is the answer."""
        device, right = next(reader.parameters()).device, 0
        with evaluating(reader):
            for batch in batches_in_order(self.test_questions, self.collate, _AT_ONCE):
                batch = send_to_device(batch, device)
                shares = reader(batch.document, batch.question)
                found = pointer_sum(shares, batch.document, batch.candidates).argmax(
                    -1, keepdim=True
                )
                right += int((batch.candidates.gather(-1, found) == batch.answer).sum())
        return right / len(self.test_questions)
