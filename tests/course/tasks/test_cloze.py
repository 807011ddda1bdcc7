from math import log

import pytest
import torch
from torch import nn

from attention_course.data.facts import Fact, Question, questions
from attention_course.tasks import Cloze, ClozeBatch, answer_loss
from companion.attention import attention_over_attention
from companion.models import AttentionMean, AttentionOverAttention, AttentionSum

SQUARE = [
    Fact("A", "USD", "en"),
    Fact("B", "USD", "fr"),
    Fact("C", "EUR", "en"),
    Fact("D", "EUR", "fr"),
]
READERS = [AttentionSum, AttentionMean, AttentionOverAttention]
TWO = [
    Question(("a", "x", "b", "a"), ("x", "?"), "a", ("a", "b"), ("", "")),
    Question(("b", "a"), ("y",), "b", ("a", "b"), ("", "")),
]


class Fixed(nn.Module):
    """Returns the same weights, whatever the document."""

    def __init__(self, *rows):
        super().__init__()
        self.weights = nn.Parameter(torch.tensor(rows))

    def forward(self, document, question):
        return self.weights[: len(document), : document.shape[1]]


def test_a_batch_is_padded_token_ids():
    batch = Cloze(TWO, TWO, TWO).collate(TWO)
    assert (batch.document.shape, batch.question.shape) == ((2, 4), (2, 2))
    assert batch.document[1, 2:].tolist() == [0, 0]
    assert batch.candidates.tolist() == [batch.document[0, [0, 2]].tolist()] * 2
    assert batch.answer[:, 0].tolist() == [batch.document[0, 0], batch.document[1, 0]]


def test_the_loss_sums_over_all_positions_of_the_answer():
    reader = Fixed([0.1, 0.2, 0.3, 0.4], [0.7, 0.3, 0.0, 0.0])
    loss = answer_loss(reader, Cloze(TWO, TWO, TWO).collate(TWO))
    assert loss.total.item() == pytest.approx(-log(0.1 + 0.4) - log(0.7))
    assert loss.count == 2


@pytest.mark.parametrize("weight", [0.0, 1e-45, 1e-38, 1e-30])
def test_a_probability_that_underflows_keeps_loss_and_gradient_finite(weight):
    reader = Fixed([0.0, 1.0, 0.0, weight])
    loss = answer_loss(reader, Cloze(TWO, TWO, TWO).collate(TWO[:1]))
    loss.total.backward()
    assert loss.total.isfinite()
    assert loss.total > 60
    assert reader.weights.grad.isfinite().all()


@pytest.mark.parametrize("apart", [50.0, 95.0, 1000.0])
def test_a_reader_that_is_certain_of_a_wrong_position_has_a_finite_gradient(apart):
    class Certain(nn.Module):
        def __init__(self):
            super().__init__()
            self.scores = nn.Parameter(
                torch.tensor(
                    [[[-apart, -apart], [apart, -apart], [0.0, 0.0], [-apart, apart]]]
                )
            )

        def forward(self, document, question):
            return attention_over_attention(self.scores, document != 0, question != 0)

    reader, question = Certain(), TWO[0]._replace(document=("a", "x", "b", "x"))
    loss = answer_loss(reader, Cloze(TWO, TWO, TWO).collate([question]))
    loss.total.backward()
    assert loss.total > 80
    assert loss.total.isfinite()
    assert reader.scores.grad.isfinite().all()


def test_the_loss_is_at_least_float32():
    reader = Fixed([0.1, 0.2, 0.3, 0.4]).to(torch.bfloat16)
    assert (
        answer_loss(reader, Cloze(TWO, TWO, TWO).collate(TWO[:1])).total.dtype
        == torch.float32
    )


def test_accuracy_compares_candidates_only():
    task = Cloze(TWO, TWO, TWO)
    assert (
        task.accuracy(Fixed([0.3, 0.5, 0.1, 0.1], [0.6, 0.4, 0.0, 0.0])) == 1
    )  # x is no candidate
    assert (
        task.accuracy(Fixed([0.3, 0.0, 0.4, 0.2], [0.6, 0.4, 0.0, 0.0])) == 1
    )  # a is at two positions
    assert task.accuracy(Fixed([0.1, 0.0, 0.9, 0.0], [0.6, 0.4, 0.0, 0.0])) == 0.5


@pytest.mark.parametrize(
    ("document", "answer"), [(("a", "b"), "c"), ((), "a"), (("a", "b", "x"), "x")]
)
def test_an_answer_outside_document_or_candidates_is_an_error(document, answer):
    wrong = TWO[0]._replace(document=document, answer=answer)
    with pytest.raises(
        ValueError, match=rf"answer '{answer}' of question 1 .* {len(document)} words"
    ):
        Cloze(TWO, TWO, TWO).collate([TWO[0], wrong])


def test_an_unknown_candidate_is_an_error():
    new = Question(("a", "new"), ("x",), "a", ("a", "new"), ("", ""))
    with pytest.raises(
        ValueError, match=r"\('a', 'new'\) of question 0 .* one is unknown"
    ):
        Cloze(TWO, TWO, [new]).accuracy(Fixed([0.5, 0.5]))


@pytest.mark.parametrize("kind", READERS)
def test_a_question_without_words_is_an_error(kind):
    empty = TWO[1]._replace(question=())
    task = Cloze(TWO, TWO, [TWO[0], empty])
    with pytest.raises(ValueError, match=r"rows \[1\] .* are empty"):
        task.accuracy(kind(len(task.words), 3, 4, pad=0))


def test_training_is_reproducible():
    examples = questions(SQUARE, SQUARE, 40, seed=0)
    task, found = Cloze(examples, examples, examples), []
    for _ in range(2):
        torch.manual_seed(0)
        reader = AttentionSum(len(task.words), 8, 8, pad=0)
        history = task.train(reader, steps=3)
        found.append((history, task.accuracy(reader)))
    assert found[0] == found[1]
    assert found[0][0][-1]["accuracy"] == found[0][1]


def test_training_records_the_accuracy_on_the_validation_set():
    examples = questions(SQUARE, SQUARE, 40, seed=0)
    task = Cloze(examples, examples[:8], examples[8:])
    torch.manual_seed(0)
    reader = AttentionSum(len(task.words), 8, 8, pad=0)
    found = task.train(reader, steps=1)[-1]["accuracy"]
    assert found == task.accuracy(reader, examples[:8])
    assert task.accuracy(reader) == task.accuracy(reader, examples[8:])


def test_a_batch_is_a_tuple_that_training_can_shard():
    assert isinstance(Cloze(TWO, TWO, TWO).collate(TWO), ClozeBatch)
