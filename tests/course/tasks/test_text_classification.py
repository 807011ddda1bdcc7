import pytest
import torch
from torch import nn

from attention_course.data.examples import Labelled
from attention_course.tasks import (
    Classification,
    DocumentClassification,
    Example,
    accuracy,
    evaluate,
    predict,
)
from attention_course.training import label_loss
from companion.attention import mean_pooling
from companion.models import Classifier, WordEncoder

TRAIN = [
    Example((("a", "good", "film"),), "yes"),
    Example((("good",),), "yes"),
    Example((("a", "bad", "film", "a"),), "no"),
    Example((("bad",),), "no"),
]
TEST = [Example((("good", "good", "new"),), "yes"), Example((("bad", "film"),), "no")]


class Fixed(nn.Module):
    """Returns its input, times a parameter of 1."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, logits):
        return self.scale * logits


def test_batches_are_token_ids_and_class_indices():
    task = Classification(TRAIN, TEST)
    assert task.labels == ("no", "yes")
    (batch,) = task.test()
    assert batch.labels.tolist() == [1, 0]
    assert [task.words.decode(row) for row in batch.inputs[0]] == [
        ["good", "good", "<unk>"],
        ["bad", "film"],
    ]


def test_rare_words_are_unknown():
    task = Classification(TRAIN, TEST, minimum_frequency=3)
    assert task.words.tokens[4:] == ("a",)


def test_a_pair_becomes_two_tensors():
    pairs = [
        Example((("a", "b"), ("c",)), "yes"),
        Example((("a",), ("b", "c", "c")), "no"),
    ]
    left, right = Classification(pairs, pairs).inputs(pairs)
    assert (left.shape, right.shape) == ((2, 2), (2, 3))
    assert left[1, 0] == left[0, 0] != left[0, 1] == right[1, 0]


def test_a_document_becomes_one_tensor_of_sentences():
    documents = [Example((("a", "b"), ("c",)), "yes"), Example((("b",),), "no")]
    task = DocumentClassification(documents, documents)
    (tokens,) = task.inputs(documents)
    a, b, c = task.words.encode("abc")
    assert tokens.tolist() == [[[a, b], [c, 0]], [[b, 0], [0, 0]]]


def test_a_class_without_training_examples_is_an_error():
    task = Classification(TRAIN, [Example((("a",),), "perhaps")])
    with pytest.raises(
        ValueError, match=r"\['perhaps'\] are not among \('no', 'yes'\)"
    ):
        task.test()


def test_training_learns_and_is_reproducible():
    task, found = Classification(TRAIN, TEST), []
    for _ in range(2):
        torch.manual_seed(0)
        model = Classifier(WordEncoder(len(task.words), 3, pad=0), mean_pooling, 3, 2)
        history = task.train(model, steps=60)
        found.append((history, [p.tolist() for p in model.parameters()]))
        assert task.accuracy(model) == 1
    assert found[0] == found[1]
    assert [record["step"] for record in history] == [50, 60]
    assert history[-1]["accuracy"] == 1
    assert history[-1]["loss"] < history[0]["loss"]


def test_the_loss_is_the_sum_over_the_examples():
    logits = torch.tensor([[0.0, 1.0], [2.0, -1.0], [0.5, 0.5]])
    loss = label_loss(Fixed(), Labelled((logits,), torch.tensor([1, 0, 1])))
    expected = -sum(
        row.log_softmax(0)[label] for row, label in zip(logits, (1, 0, 1), strict=True)
    )
    assert loss.total.item() == pytest.approx(expected.item())
    assert loss.count == 3


def test_the_loss_has_the_device_of_the_model_and_at_least_float32():
    batch = Labelled(
        (torch.zeros(3, 2, device="meta"),),
        torch.zeros(3, dtype=torch.int64, device="meta"),
    )
    loss = label_loss(Fixed().to("meta"), batch)
    assert loss.total.device == loss.count.device == batch.labels.device
    for dtype, expected in (
        (torch.bfloat16, torch.float32),
        (torch.float64, torch.float64),
    ):
        model, logits = Fixed().to(dtype), torch.zeros(3, 2, dtype=dtype)
        batch = Labelled((logits,), torch.tensor([1, 0, 1]))
        assert (
            label_loss(model, batch).total.dtype
            == predict(model, [batch]).dtype
            == expected
        )


@pytest.mark.cuda
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_model_and_batches_may_be_on_different_devices(device):
    batch = Labelled(
        (torch.tensor([[0.0, 1.0]], device=device),),
        torch.ones(1, dtype=torch.int64, device=device),
    )
    assert accuracy(Fixed().cuda(), [batch]) == accuracy(Fixed(), [batch]) == 1


def test_predictions_loss_and_accuracy_are_over_all_batches():
    batches = [
        Labelled((torch.tensor([[0.0, 1.0], [2.0, -1.0]]),), torch.tensor([1, 1])),
        Labelled((torch.tensor([[1.0, 0.0]]),), torch.tensor([0])),
    ]
    found = predict(Fixed(), batches)
    torch.testing.assert_close(
        found, torch.cat([batch.inputs[0] for batch in batches]).softmax(-1)
    )
    assert accuracy(Fixed(), batches) == pytest.approx(2 / 3)
    correct = torch.stack([found[0, 1], found[1, 1], found[2, 0]])
    expected = {"held_out_loss": -correct.log().mean().item(), "accuracy": 2 / 3}
    assert evaluate(Fixed(), batches) == pytest.approx(expected)
