"""The study of attention sinks: its texts, its caches, and that a run can be repeated."""

import pytest
import torch

from attention_course.data.vocabulary import BOS
from attention_course.studies import recorded, sinks
from attention_course.studies.longer_texts import bits_by_position
from companion.attention import CacheRotary


def test_texts_begin_with_bos_or_not():
    passages = torch.randint(5, 20, (3, 9))
    assert sinks.begun(passages, "nothing") is passages
    first = sinks.begun(passages, "<bos>")
    assert (first[:, 0] == BOS).all()
    assert torch.equal(first[:, 1:], passages[:, :-1])


@pytest.mark.parametrize("kept", sinks.SINKS)
def test_a_cache_has_one_size_with_sinks_and_without(kept):
    model = sinks.build(layers=1).eval()
    sinks.with_cache(model, kept)
    attention = model.layers[0].attention
    assert isinstance(attention.attention, CacheRotary)
    x = torch.randn(1, 3 * sinks.CACHE, 64)
    with torch.no_grad():
        _, state = attention.extend(x, attention.start(x))
    # the newest position joins before the oldest one leaves
    assert state.key.shape[2] == sinks.CACHE - 1
    assert model.step(torch.tensor([5]), model.start(torch.tensor([[5, 6]])))


def test_within_the_cache_nothing_changes():
    model = sinks.build(layers=2).eval()
    passages = torch.randint(5, 20, (2, sinks.CACHE + 1))
    expected = bits_by_position(model, passages)
    for kept in sinks.SINKS:
        sinks.with_cache(model, kept)
        found = sinks.bits_by_step(model, passages)
        torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)


def test_weights_on_the_first_token_are_means_of_late_queries():
    model = sinks.build(layers=2)
    passages = torch.randint(5, 20, (2, sinks.CACHE + 6))
    weights = torch.tensor(sinks.weights_on_first(model, passages))
    assert weights.shape == (2, 4)
    assert 0 < weights.min() <= weights.max() < 0.5


def test_every_cache_is_recorded_for_every_model():
    for run in recorded("sinks"):
        assert list(run["kept"]) == [str(kept) for kept in sinks.SINKS]
        lengths = {len(bits) for bits in (run["full"], *run["kept"].values())}
        assert lengths == {len(sinks.SPANS)}
        assert len(run["weight"]) == run["layers"]


def test_a_run_is_measured_as_it_is_recorded(monkeypatch):
    whole = sinks.passages_for_test
    monkeypatch.setattr(
        sinks, "passages_for_test", lambda *sizes: whole(*sizes)[:2, : sinks.TRAINED]
    )
    setting = {"start": "<bos>", "layers": 1, "steps": 1, "learning_rate": 0.005}
    found = sinks.measure(**setting, seed=0)
    assert str(found) == str(sinks.measure(**setting, seed=0))
    assert str(found) != str(sinks.measure(**setting, seed=1))
