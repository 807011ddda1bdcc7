"""The study of film reviews: what is removed, and what is averaged."""

import pytest
import torch

from attention_course.data.vocabulary import UNK, pad_documents
from attention_course.studies import reviews as study
from companion.models.hierarchical import HierarchicalAttention

REVIEWS = [[[4, 5, 6], [7, 8]], [[9], [4, 4, UNK], [5]]]


@pytest.fixture
def model():
    torch.manual_seed(0)
    return HierarchicalAttention(11, 6, 8, 2, pad=0).eval()


def test_a_review_is_read_without_each_of_its_sentences(model):
    found = study.read(model, REVIEWS[1])
    assert found.words.shape == (3, 3)
    assert found.sentences.sum().item() == pytest.approx(1)
    with torch.no_grad():
        for i, without in enumerate(found.without):
            rest = [s for j, s in enumerate(REVIEWS[1]) if j != i]
            expected = model(pad_documents([rest])).softmax(-1)[0, 1]
            assert without.item() == pytest.approx(expected.item(), abs=1e-6)


def test_without_masks_padding_has_weight(model):
    (one,), padded = REVIEWS[:1], torch.zeros(1, 4, 5, dtype=torch.long)
    padded[0, :2, :3] = pad_documents([one])[0]
    equal = [[4, 5], [6, 7]]  # nothing to mask
    with torch.no_grad():
        expected = model(pad_documents([equal]))
        masked = model(padded), model(pad_documents([one]))
    torch.testing.assert_close(study.unmasked(model, pad_documents([equal])), expected)
    torch.testing.assert_close(*masked)
    assert (study.unmasked(model, padded) - masked[0]).abs().max() > 1e-3
    assert set(study.beside_a_longer_one(model, one)) <= {0, 1}


def test_effects_are_those_of_the_sentences_with_the_most_and_the_least_weight():
    one = study.Read(
        torch.ones(3, 1),
        torch.tensor([0.1, 0.7, 0.2]),
        0.6,
        torch.tensor([0.5, 0.4, 0.9]),
    )
    other = study.Read(
        torch.ones(2, 1), torch.tensor([0.9, 0.1]), 0.2, torch.tensor([0.3, 0.8])
    )
    found = study.effects([one, other])
    assert found["most"] == pytest.approx([0.15, 0.5])
    assert found["least"] == pytest.approx([0.35, 1])
    assert found["any"] == pytest.approx([0.275, (2 / 3 + 1 / 2) / 2])
    assert found["same"] == 0
    assert found["chance"] == pytest.approx((1 / 3 + 1 / 2) / 2)
    assert found["weight"] == pytest.approx(0.8)


def test_a_word_gains_what_it_has_over_a_uniform_weight():
    found = [
        study.Read(
            torch.tensor([[0.5, 0.3, 0.2], [0.4, 0.6, 0]]),
            torch.ones(2),
            0,
            torch.ones(2),
        ),
        study.Read(
            torch.tensor([[1.0, 0, 0], [0.2, 0.5, 0.3], [1, 0, 0]]),
            torch.ones(3),
            0,
            torch.ones(3),
        ),
    ]
    gains = study.gains(REVIEWS, found, least=2)
    assert gains.keys() == {4, 5}
    assert gains[4] == pytest.approx((1.5 + 0.6 + 1.5) / 3)
    assert gains[5] == pytest.approx((0.9 + 1) / 2)
