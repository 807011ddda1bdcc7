"""Cloze questions as a task: vocabulary, batches, a training recipe, and accuracy."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor, nn

from attention_course.data.examples import Shuffled, batches_in_order
from attention_course.data.facts import Question
from attention_course.data.vocabulary import UNK, Vocabulary, pad
from attention_course.training import recipe
from attention_course.training.losses import Record, evaluating, to_device
from companion.attention.attention_over_attention import pointer_sum
from companion.losses.tokens import Loss, to_float32

_AT_ONCE = 256  # questions that are answered together


class ClozeBatch(NamedTuple):
    """A batch of questions: the reader's two inputs, the candidates, and the answer."""

    document: Int[Tensor, "b n"]
    question: Int[Tensor, "b m"]
    candidates: Int[Tensor, "b c"]
    answer: Int[Tensor, "b 1"]


def answer_loss(reader: nn.Module, batch: ClozeBatch) -> Loss:
    """The negative log-probability of the answers, each summed over its positions.

    ::

        total = − Σ_i log P(answer_i),   P(w) = Σ_{j: x_j = w} s_j
        count = N questions

    x_j is the word at position j of the document. The reader's s_j are probabilities
    already, so no softmax follows. A P below the smallest normal number of its format
    counts as that number, so that loss and gradient stay finite. In float16 a small s_j
    can still overflow the gradient.

    Args:
        reader: from documents and questions to the weights of the documents' positions.
        batch: the questions with their answers.

    Source: Kadlec et al. 2016, section 3; Cui et al. 2017, section 3.
    """
    weights = to_float32(reader(batch.document, batch.question))  # (b, n)
    probability = pointer_sum(weights, batch.document, batch.answer)  # (b, 1)
    tiny = torch.finfo(probability.dtype).tiny
    total = -probability.clamp_min(tiny).log().sum()
    return Loss(total, torch.tensor(probability.shape[0], device=total.device))


class Cloze:
    """Questions to train on, to validate and to test with, and the accuracy of readers.

    It depends on no reader. A reader is called with documents and questions, and
    returns the weights of the document's positions, as
    :class:`~companion.models.attention_readers.Reader` does.

    Args:
        train: the questions to train on; their words are the vocabulary.
        validation: the questions to watch the accuracy on, and to choose
            hyperparameters by.
        test: the questions for the final accuracy.

    Example:
        >>> question = Question(("a", "b"), ("x",), "a", ("a", "b"), ("", ""))
        >>> task = Cloze([question], [question], [question])
        >>> task.collate([question]).document
        tensor([[4, 5]])
    """

    def __init__(
        self,
        train: Sequence[Question],
        validation: Sequence[Question],
        test: Sequence[Question],
    ):
        #: the vocabulary of documents and questions
        self.words = Vocabulary.of(
            text
            for question in train
            for text in (question.document, question.question)
        )
        self.training_questions = train
        self.validation_questions, self.test_questions = validation, test

    def collate(self, questions: Sequence[Question]) -> ClozeBatch:
        """A batch of these questions."""
        for row, question in enumerate(questions):
            self._check(question, row)
        encode = self.words.encode
        return ClozeBatch(
            pad([encode(question.document) for question in questions]),
            pad([encode(question.question) for question in questions]),
            torch.tensor([encode(question.candidates) for question in questions]),
            torch.tensor([encode([question.answer]) for question in questions]),
        )

    def _check(self, question: Question, row: int) -> None:
        answer, candidates = question.answer, question.candidates
        if answer not in question.document or answer not in candidates:
            raise ValueError(
                f"the answer {answer!r} of question {row} (from 0) must be one of the "
                f"document's {len(question.document)} words and of the candidates "
                f"{candidates}"
            )
        if UNK in self.words.encode(candidates):
            raise ValueError(
                f"of the candidates {candidates} of question {row} (from 0) one is "
                f"unknown"
            )

    def train(
        self, reader: nn.Module, steps: int, learning_rate: float = 2e-2, seed: int = 0
    ) -> list[Record]:
        """Train by the book's recipe, with batches of 32 in the seed's order.

        Returns:
            A record every 50 steps, with the accuracy on the validation set.
        """
        batches = Shuffled(
            self.training_questions, self.collate, batch_size=32, seed=seed
        )
        return recipe.train(
            reader,
            answer_loss,
            batches,
            steps,
            learning_rate,
            lambda reader: {
                "accuracy": self.accuracy(reader, self.validation_questions)
            },
        )

    def accuracy(
        self, reader: nn.Module, questions: Sequence[Question] | None = None
    ) -> float:
        """The fraction of questions whose most probable candidate is the answer.

        Args:
            reader: from documents and questions to the weights of the documents'
                positions.
            questions: by default the test questions.
        """
        asked = self.test_questions if questions is None else questions
        device, correct = next(reader.parameters()).device, 0
        with evaluating(reader):
            for batch in batches_in_order(asked, self.collate, _AT_ONCE):
                batch = to_device(batch, device)
                weights = reader(batch.document, batch.question)
                scores = pointer_sum(weights, batch.document, batch.candidates)
                best = scores.argmax(-1, keepdim=True)
                correct += int(
                    (batch.candidates.gather(-1, best) == batch.answer).sum()
                )
        return correct / len(asked)
