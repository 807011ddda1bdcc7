"""The study of attention in every layer: what decides a token, and what points to it."""

import pytest
import torch

from attention_course.data.vocabulary import BOS, EOS, UNK
from attention_course.studies import every_layer as study
from attention_course.studies.convs2s import build

SOURCE, TARGET = [5, 6, 7, 8], [4, 9]


@pytest.fixture
def model():
    return build(12, 10, 8, 2, 2, [1, 2], seed=0).eval()


def test_an_effect_is_the_loss_of_log_probability_without_the_word(model):
    weights, effects = study.weights_and_effects(model, SOURCE, TARGET)
    assert weights.shape == (2, 3, 4)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 3))
    fed = torch.tensor([[BOS, *TARGET]])
    with torch.no_grad():
        before, after = (
            model(torch.tensor([words]), fed)[0].log_softmax(-1)
            for words in (SOURCE, [5, 6, UNK, 8])
        )
    for i, token in enumerate([*TARGET, EOS]):
        expected = before[i, token] - after[i, token]
        torch.testing.assert_close(effects[i, 2], expected)


def test_the_largest_weights_are_compared_with_the_words_that_decide(
    model, monkeypatch
):
    weights = torch.zeros(2, 3, 4)
    weights[0, :, 1] = 0.9  # the first layer is at word 1
    weights[1, :, 3], weights[1, 2, 0] = 0.8, 0.85  # the second at 3, at last at 0
    effects = torch.zeros(3, 4)
    effects[0, 1], effects[1, 3], effects[2, 0] = 1.0, 2.0, 0.1  # the last is too small
    monkeypatch.setattr(study, "weights_and_effects", lambda *_: (weights, effects))
    found = study.agreement(model, [(SOURCE, TARGET)])
    assert found == {
        "decided": pytest.approx(2 / 3),
        "layer": [0.5, 0.5],
        "mean": 0.5,  # 0.9 / 2 at word 1 both times
        "any": 1.0,
        "chance": 0.25,
    }


def test_without_its_context_a_layer_attends_in_vain(model):
    source, fed = torch.tensor([SOURCE]), torch.tensor([[BOS, *TARGET]])
    usual = model(source, fed)
    with study.without_context(model, 2):
        removed = model(source, fed)
        with torch.no_grad():
            model.decoder.layers[1].W_d.bias += 1
        torch.testing.assert_close(model(source, fed), removed)
        with torch.no_grad():
            model.decoder.layers[1].W_d.bias -= 1
    assert not torch.allclose(removed, usual)
    torch.testing.assert_close(model(source, fed), usual)
