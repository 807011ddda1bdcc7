"""The study of extrapolation: where its Transformers know positions, and that a run can be repeated."""

import pytest
import torch

from attention_course.studies import extrapolation, positions, recorded
from attention_course.tasks import TranslationTask
from companion.attention import ALiBi, Rotary
from companion.layers.positional_encoding import NoPositionalEncoding


@pytest.mark.parametrize("kind", extrapolation.ATTENTIONS)
def test_positions_are_in_self_attention_only(kind):
    model = extrapolation.build(kind)
    expected = {"rotary": Rotary, "ALiBi": ALiBi}[kind]
    for part in (model.encoder, model.decoder):
        assert isinstance(part.position, NoPositionalEncoding)
        assert all(type(layer.attention.attention) is expected for layer in part.layers)
    for layer in model.decoder.layers:
        assert not isinstance(layer.source_attention.attention, Rotary | ALiBi)
        assert layer.attention.attention.causal
    assert not any(layer.attention.attention.causal for layer in model.encoder.layers)


@pytest.mark.parametrize("kind", extrapolation.ATTENTIONS)
def test_the_order_of_the_source_is_known(kind):
    model = extrapolation.build(kind).eval()
    source, target = torch.tensor([[5, 6, 7, 2]]), torch.tensor([[1, 5, 6]])
    turned = source[:, [1, 0, 2, 3]]
    assert not torch.allclose(model(source, target), model(turned, target))


def test_the_sizes_are_those_of_chapter_6():
    counts = {
        kind: sum(x.numel() for x in extrapolation.build(kind).parameters())
        for kind in extrapolation.KINDS
    }
    assert counts["rotary"] == counts["ALiBi"] == counts["sinusoids"]


@pytest.mark.parametrize("kind", positions.POSITIONS)
def test_the_models_of_chapter_6_are_the_same(kind):
    ours, theirs = extrapolation.build(kind, seed=2), positions.build(kind, seed=2)
    for name, parameter in theirs.named_parameters():
        assert torch.equal(parameter, ours.get_parameter(name))


@pytest.mark.parametrize("kind", ["sinusoids", "learned"])
def test_a_model_of_chapter_6_translates_the_trained_lengths_here_too(kind):
    ours = recorded("extrapolation", kind=kind)
    theirs = recorded("positions", model=kind, steps=900, longest=12)
    for run in [*ours, *theirs]:
        assert min(run["test"][:3]) > 0.9


@pytest.mark.parametrize("kind", extrapolation.KINDS)
def test_a_run_is_measured_as_it_is_recorded(monkeypatch, kind):
    whole = positions.short_targets()
    few = [
        next(p for p in whole.test_pairs if low <= len(p.target) <= high)
        for low, high in extrapolation.LENGTH_RANGES
    ]
    small = TranslationTask(whole.training_pairs[:200], whole.validation_pairs[:4], few)
    for module in (positions, extrapolation):
        monkeypatch.setattr(module, "short_targets", lambda longest=12: small)
    setting = {"kind": kind, "steps": 1, "learning_rate": 0.005}
    found = extrapolation.measure(**setting, seed=0)
    assert found == extrapolation.measure(**setting, seed=0)
    assert len(found["test"]) == len(extrapolation.LENGTH_RANGES)
    first, again, other = (extrapolation.build(kind, seed) for seed in (0, 0, 1))
    for name, parameter in first.named_parameters():
        assert torch.equal(parameter, again.get_parameter(name))
    assert any(
        not torch.equal(parameter, other.get_parameter(name))
        for name, parameter in first.named_parameters()
    )
