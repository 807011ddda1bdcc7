"""The study of chapter 11 on number words: its models, what they are without, and repeatable runs."""

import copy
import math
import pickle

import pytest
import torch
from torch import nn

from attention_course.studies import convs2s
from attention_course.tasks import TranslationTask
from companion.layers import GatedConvolution, WeightNormLinear
from companion.models import ConvS2S


@pytest.fixture(scope="module")
def task():
    whole = convs2s.number_words()
    return TranslationTask(
        whole.training_pairs[:300], whole.validation_pairs[:3], whole.test_pairs
    )


SOURCE, TARGET = torch.tensor([[5, 6, 7], [8, 9, 0]]), torch.tensor([[1, 4], [1, 5]])


def built(without="nothing", **sizes):
    arguments = {"dim": 8, "encoder_layers": 2, "decoder_layers": 2, "seed": 0}
    model = convs2s.build(12, 10, attending=(1, 2), **arguments | sizes)
    convs2s.REMOVED[without](model)
    return model


def gradients(model):
    model(SOURCE, TARGET).square().sum().backward()
    return {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


def test_with_all_layers_attending_it_is_the_model_of_the_package():
    torch.manual_seed(1)
    whole = ConvS2S(12, 10, 8, 8, layers=2, dropout=0.0, max_length=64, pad=0)
    model = built()
    model.load_state_dict(whole.state_dict())
    torch.testing.assert_close(model(SOURCE, TARGET), whole(SOURCE, TARGET))


def test_without_the_root_a_block_is_larger_by_it():
    torch.manual_seed(0)
    block = GatedConvolution(4, 3, dropout=0.0)
    x, padded = torch.randn(1, 5, 4), torch.randn(1, 7, 4)
    expected = math.sqrt(2) * block(x, padded)
    block.__class__ = convs2s.UnscaledConvolution
    torch.testing.assert_close(block(x, padded), expected)
    blocks = [x for x in built("the √½").modules() if isinstance(x, GatedConvolution)]
    assert {type(x) for x in blocks} == {convs2s.UnscaledConvolution}
    assert len(blocks) == 4


def test_without_the_gain_the_initial_variance_of_convolutions_is_a_quarter():
    usual, reduced = (built(x, dim=64) for x in ("nothing", "the gain of 4"))
    for one, other in zip(usual.encoder.blocks, reduced.encoder.blocks, strict=True):
        ratio = one.convolution.v.var() / other.convolution.v.var()
        assert ratio.item() == pytest.approx(4, rel=0.1)


def test_without_weight_normalisation_the_weights_are_the_same_parameters():
    usual, plain = built(), built("weight normalisation")
    torch.testing.assert_close(plain(SOURCE, TARGET), usual(SOURCE, TARGET))
    assert not any(isinstance(x, WeightNormLinear) for x in plain.modules())
    layers = sum(isinstance(x, WeightNormLinear) for x in usual.modules())
    assert layers == sum(isinstance(x, nn.Linear) for x in plain.modules())


def test_without_gradient_scaling_the_encoders_blocks_get_the_sum():
    usual, unscaled = built(), built("gradient scaling")
    torch.testing.assert_close(unscaled(SOURCE, TARGET), usual(SOURCE, TARGET))
    one, other = gradients(usual), gradients(unscaled)
    for name in one:
        if name.startswith("encoder.blocks"):
            torch.testing.assert_close(other[name], 2 * one[name])
        elif name.startswith("decoder.layers"):
            torch.testing.assert_close(other[name], one[name])


def test_without_the_factor_the_values_are_the_states_plus_the_embeddings():
    usual, plain = built(), built("the factor m √(1/m)")
    lengths = torch.tensor([3.0, 2.0])[:, None, None]
    one, other = (model.start(SOURCE).memory.value for model in (usual, plain))
    torch.testing.assert_close(one, lengths.sqrt() * other)


def test_without_positions_the_encoder_sees_the_order_of_near_tokens_only():
    """With windows of three, 6 7 and 8 9 may change places between pairs of fives."""
    one = torch.tensor([[5, 5, 6, 7, 5, 5, 8, 9, 5, 5]])
    other = torch.tensor([[5, 5, 8, 9, 5, 5, 6, 7, 5, 5]])
    usual = built(encoder_layers=1)
    assert not torch.allclose(usual(one, TARGET[:1]), usual(other, TARGET[:1]))
    model = built("positions", encoder_layers=1)
    torch.testing.assert_close(model(one, TARGET[:1]), model(other, TARGET[:1]))
    near = torch.tensor([[5, 5, 7, 6, 5, 5, 8, 9, 5, 5]])
    assert not torch.allclose(model(one, TARGET[:1]), model(near, TARGET[:1]))


def test_position_embeddings_of_zero_stay_zero():
    model = built("positions")
    assert not model.encoder.position.embedding.weight.any()
    trained = [name for name, p in model.named_parameters() if p.requires_grad]
    assert not any("position" in name for name in trained)


@pytest.mark.parametrize("without", convs2s.REMOVED)
def test_a_copy_computes_the_same_and_depends_on_its_own_parameters_only(without):
    model = built(without)
    expected = model(SOURCE, TARGET)
    for copied in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        torch.testing.assert_close(copied(SOURCE, TARGET), expected)
        with torch.no_grad():
            for halved in (False, True):
                for parameter in copied.parameters() if halved else ():
                    parameter.mul_(0.5)
                logits, *_ = copied.step(TARGET[:, 0], copied.start(SOURCE))
                torch.testing.assert_close(logits, copied(SOURCE, TARGET)[:, 0])
    torch.testing.assert_close(model(SOURCE, TARGET), expected)


def test_layers_that_there_are_not_are_refused():
    with pytest.raises(
        ValueError, match="layer that attends must be one of 1, 2, not 9"
    ):
        convs2s.build(12, 10, 8, 2, 2, attending=[1, 9], seed=0)
    with pytest.raises(ValueError, match="at least one of the layers must attend"):
        convs2s.build(12, 10, 8, 2, 2, attending=[], seed=0)


def test_few_words_are_those_of_the_training_set_only():
    few, all_words = convs2s.number_words(12), convs2s.number_words()
    assert max(len(pair.target) for pair in few.training_pairs) == 12
    assert max(len(pair.target) for pair in all_words.training_pairs) > 12
    assert few.test_pairs == all_words.test_pairs


@pytest.mark.parametrize("changed", [{}, {"most_words": 12}])
def test_a_run_is_measured_as_it_is_recorded(monkeypatch, task, changed):
    monkeypatch.setattr(convs2s, "number_words", lambda most_words: task)
    small = {"steps": 1, "dim": 8, "layers": 1, "attending": "1"}
    setting = convs2s.settings()[0] | small | changed
    found = convs2s.measure(**setting)
    assert found == convs2s.measure(**setting)
    assert len(found["validation_loss"]) == 1
    assert len(found["test"]) == (4 if "most_words" in changed else 6)


def test_a_loss_that_is_not_finite_is_recorded_as_infinite(monkeypatch, task):
    def fails(*_):
        raise FloatingPointError

    monkeypatch.setattr(convs2s, "number_words", lambda most_words: task)
    monkeypatch.setattr(task, "train", fails, raising=False)
    found = convs2s.measure(**convs2s.settings()[0])
    assert found["validation_loss"] == [math.inf]
    assert found["test"] == [0.0] * 6
