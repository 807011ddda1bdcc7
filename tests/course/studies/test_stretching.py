"""The study of slower rotations: its ways, and that a run can be repeated."""

import torch

from attention_course.studies import longer_texts, stretching
from companion.attention import rotary_frequencies


def angles(way):
    """The frequencies of a way."""
    attention = stretching.stretched(way)
    if attention.frequencies is not None:
        return torch.tensor(attention.frequencies, dtype=torch.float64)
    return rotary_frequencies(16, attention.base)


def test_all_ways_but_one_slow_the_slowest_pair_by_the_scale():
    trained = rotary_frequencies(16)
    assert torch.equal(angles("unchanged"), trained)
    for way in stretching.WAYS[1:]:
        ratio = trained / angles(way)
        torch.testing.assert_close(ratio[-1].item(), float(stretching.SCALE))
        assert (ratio >= 1).all()
    assert (angles("YaRN")[:2] == trained[:2]).all()  # more than four turns
    assert angles("interpolation")[0] < angles("YaRN, fast = 32")[0] < 1


def test_a_run_is_measured_as_it_is_recorded(monkeypatch):
    whole = longer_texts.passages_for_test
    monkeypatch.setattr(
        stretching, "passages_for_test", lambda length: whole(length)[:2]
    )
    monkeypatch.setattr(stretching, "WAYS", ("unchanged", "YaRN"))
    setting = {"steps": 1, "more": 1, "learning_rate": 0.005, "slower_rate": 0.001}
    found = stretching.measure(**setting, seed=0)
    assert found == stretching.measure(**setting, seed=0)
    assert found != stretching.measure(**setting, seed=1)
    assert found["test"].keys() == found["tuned"].keys() == {"unchanged", "YaRN"}
    assert found["test"] != found["tuned"]
