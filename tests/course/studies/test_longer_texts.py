"""The study of longer texts: its passages, its kinds of positions, and that a run can be repeated."""

import math

import pytest
import torch

from attention_course.studies import longer_texts
from companion.attention import ALiBi, CausalAttention, Rotary
from companion.layers.positional_encoding import NoPositionalEncoding


def test_no_article_of_the_test_is_read_in_training():
    """One short article has two names, but only long ones are cut into passages."""
    training, test = longer_texts.articles(False), longer_texts.articles(True)
    long = [text for text in test if len(text) > longer_texts.LONGEST]
    assert len(long) > 3
    assert not set(training) & set(long)


def test_passages_overlap_by_all_but_the_stride():
    passages = longer_texts.passages_for_test(64, stride=16)
    assert passages.shape[1] == 65
    assert torch.equal(passages[0, 16:], passages[1, :-16])


def test_batches_depend_on_the_step_and_the_seed():
    batches = longer_texts.Passages(20, rows=3)
    assert batches[4].shape == (3, 21)
    assert torch.equal(batches[4], longer_texts.Passages(20, rows=3)[4])
    assert not torch.equal(batches[4], batches[5])
    assert not torch.equal(batches[4], longer_texts.Passages(20, rows=3, seed=1)[4])


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("rotary", Rotary), ("ALiBi", ALiBi), ("no positions", CausalAttention)],
)
def test_positions_are_in_the_attention_or_nowhere(kind, expected):
    model = longer_texts.build(kind)
    assert isinstance(model.position, NoPositionalEncoding)
    assert all(type(layer.attention.attention) is expected for layer in model.layers)


def test_bits_are_counted_by_position():
    class Uniform(torch.nn.Module):
        def forward(self, tokens):
            return torch.zeros(*tokens.shape, 8)

    passages = torch.randint(8, (5, 12))
    bits = longer_texts.bits_by_position(Uniform(), passages, at_once=2)
    torch.testing.assert_close(bits, torch.full((11,), math.log2(8)))


@pytest.mark.parametrize("kind", ["learned", "rotary"])
def test_a_run_is_measured_as_it_is_recorded(monkeypatch, kind):
    whole = longer_texts.passages_for_test
    monkeypatch.setattr(
        longer_texts, "passages_for_test", lambda length: whole(length)[:2]
    )
    setting = {"kind": kind, "length": 32, "steps": 1, "learning_rate": 0.005}
    found = longer_texts.measure(**setting, seed=0)
    assert found == longer_texts.measure(**setting, seed=0)
    assert found != longer_texts.measure(**setting, seed=1)
    assert len(found["test"]) == len(longer_texts.SPANS)
