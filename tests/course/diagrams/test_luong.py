"""Weights on the drawings of chapter 5."""

import pytest
import torch

from attention_course.diagrams.luong import _gaussian, _local_weights, window
from companion.attention import Dot, LocalM, LocalP
from tests.course.diagrams.test_drawing import elements, texts


def attended(attention, scores, t):
    """The weights of a mechanism of the package, with these scores."""
    return attention.weights(
        scores[None], torch.eye(len(scores)), query_position=torch.tensor([t])
    )[0]


def test_windows_are_those_of_local_m():
    scores = torch.randn(10)
    expected = attended(LocalM(Dot(), 2), scores, 4)
    torch.testing.assert_close(_local_weights(scores, 4), expected)


def test_gaussians_are_those_of_local_p():
    scores, attention = torch.randn(10), LocalP(Dot(), 2, 10)
    centre = attention.centre(scores[None], 10).item()
    drawn = _local_weights(scores, centre) * _gaussian(torch.arange(10), centre)
    torch.testing.assert_close(drawn, attended(attention, scores, 4))


def written_sums():
    sums = [text for text in texts(window()) if text.startswith("Σ")]
    return [float(text.split("=")[1]) for text in sums]


def test_only_the_weights_of_local_m_sum_to_one():
    assert written_sums()[::2] == pytest.approx([1, 1, 1])
    assert max(written_sums()[1::2]) < 0.9


def test_the_bars_have_the_written_sums():
    heights = [
        float(rect.get("height"))
        for rect in elements(window(), "rect")
        if rect.get("class") == "fill-key"
    ]
    sums = torch.tensor(heights).view(6, 10).sum(-1)
    assert (sums / sums[0]).tolist() == pytest.approx(written_sums(), abs=0.01)
