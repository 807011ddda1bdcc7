"""The study of idle heads: its texts, its windows, and that a run can be repeated."""

import torch

from attention_course.data.vocabulary import BOS
from attention_course.studies import idle_heads, recorded
from attention_course.studies.sinks import build
from companion.attention import Rotary, SinkAttention, SlidingWindowAttention


def test_each_passage_is_followed_by_its_copy():
    tokens = idle_heads.texts(True, rows=3, seed=5)
    assert (tokens[:, 0] == BOS).all()
    halves = tokens[:, 1:].unflatten(1, (idle_heads.PASSAGES, 2, idle_heads.LENGTH))
    assert torch.equal(halves[:, :, 0], halves[:, :, 1])
    assert not torch.equal(halves[:, 0], halves[:, 1])
    assert idle_heads.is_new().shape == tokens[0, 1:].shape
    assert idle_heads.is_new().view(-1, 2, idle_heads.LENGTH)[:, 0].all()


def test_batches_depend_on_the_step_and_the_seed():
    batches = idle_heads.PassagesAndCopies()
    assert torch.equal(batches[2], idle_heads.PassagesAndCopies()[2])
    assert not torch.equal(batches[2], batches[3])
    assert not torch.equal(batches[2], idle_heads.PassagesAndCopies(seed=1)[2])


def test_a_window_has_one_size_with_sinks_and_without():
    model = build(layers=1)
    x = torch.randn(1, 60, 64)
    for sinks in idle_heads.SINKS:
        idle_heads.with_window(model, sinks)
        attention = model.layers[0].attention.attention
        assert isinstance(attention, Rotary)
        expected = SinkAttention if sinks else SlidingWindowAttention
        assert type(attention.attention) is expected
        weights = attention.weights(x, x)[0, -1]
        assert (weights > 0).sum() == idle_heads.KEPT
        assert (weights[: max(sinks, 1)] > 0).all() == bool(sinks)


def test_figures_are_means_of_passages_and_copies():
    found = torch.arange(2 * idle_heads.LENGTH * idle_heads.PASSAGES).float()
    halves = idle_heads.by_passage(found)
    assert len(halves["new"]) == len(halves["copied"]) == idle_heads.PASSAGES
    assert halves["copied"][0] - halves["new"][0] == idle_heads.LENGTH


def test_every_window_is_recorded():
    for run in recorded("idle_heads"):
        assert list(run["window"]) == [str(sinks) for sinks in idle_heads.SINKS]
        for figures in (run["dense"], *run["window"].values()):
            assert set(figures) == {"new", "copied"}


def test_a_run_is_measured_as_it_is_recorded(monkeypatch):
    whole = idle_heads.texts
    monkeypatch.setattr(
        idle_heads, "texts", lambda held_out, rows, seed: whole(held_out, 2, seed)
    )
    found = idle_heads.measure(steps=1, learning_rate=0.005, seed=0)
    assert found == idle_heads.measure(steps=1, learning_rate=0.005, seed=0)
    assert found != idle_heads.measure(steps=1, learning_rate=0.005, seed=1)
