"""The study of chapter 7 on distances: its attentions, its rule, and that a run can be repeated."""

import pytest
import torch

from attention_course.studies import offsets
from attention_course.studies.recording import recorded
from companion.attention import LocalAttention, masks


@pytest.mark.parametrize(
    ("products", "biases"), [(True, True), (True, False), (False, True)]
)
def test_a_window_computes_what_its_scores_say(products, biases):
    attention = offsets.DistanceBias(3, 5, products, biases).double()
    torch.nn.init.normal_(attention.bias)
    inputs = torch.randn(3, 2, 3, 11, 7, dtype=torch.float64)
    expected = attention.weights(*inputs[:2]) @ inputs[2]
    torch.testing.assert_close(attention(*inputs), expected)
    if not biases:
        torch.testing.assert_close(expected, LocalAttention(4, causal=True)(*inputs))


def test_a_bias_belongs_to_a_distance():
    attention = offsets.DistanceBias(1, None, products=False)
    with torch.no_grad():
        attention.bias[0, 3] = 50
    x = torch.randn(1, 1, 9, 4)
    weights = attention.weights(x, x)[0, 0]
    assert weights[5].argmax() == 2
    torch.testing.assert_close(weights[1, :3], torch.tensor([0.5, 0.5, 0]))


def test_the_few_keys_are_itself_the_original_and_two_earlier_ones():
    rule = offsets.few_keys(0)
    mask = masks.dense(rule, 257)
    assert mask.sum(1)[130:].unique().tolist() == [4]
    assert mask.diagonal().all()
    assert mask.diagonal(-128).all()
    assert not mask.triu(1).any()
    assert torch.equal(mask, masks.dense(offsets.few_keys(0), 257))
    assert not torch.equal(mask, masks.dense(offsets.few_keys(1), 257))


@pytest.mark.parametrize("model", offsets.MODELS["window"])
def test_two_layers_of_a_window_read_nine_characters(model):
    torch.manual_seed(0)
    x = torch.randn(1, 20, 64, requires_grad=True)
    y = x
    for layer in offsets.layers("window", model):
        y = layer(y)
    (gradient,) = torch.autograd.grad(y[0, 15].sum(), x)
    assert gradient[0].abs().sum(1).nonzero()[:, 0].tolist() == list(range(7, 16))


def test_a_run_is_measured_as_it_is_recorded(monkeypatch):
    task = offsets.copying_task

    def short(**kind):
        whole = task(**kind)
        for name in ("train", "validation", "test"):
            name = f"{name}_passages"
            setattr(whole, name, getattr(whole, name)[:8])
        return whole

    monkeypatch.setattr(offsets, "copying_task", short)
    for kind, models in offsets.MODELS.items():
        run = recorded("offsets", task=kind)[0]
        setting = {"task": kind, "model": models[-1], "steps": 1, "learning_rate": 0.01}
        found = offsets.measure(**setting, seed=3)
        assert found == offsets.measure(**setting, seed=3)
        assert found != offsets.measure(**setting, seed=4)
        for part in ("test", "validation"):
            assert len(found[part]) == len(run[part])
