"""The study of captioners: what each kind is, and that a run can be repeated."""

import pytest
import torch

from attention_course.data import scenes
from attention_course.studies import captioners, recorded
from attention_course.tasks import Captioning
from attention_course.training import recipe
from companion.attention import (
    Additive,
    HalfAndHalf,
    HardAttention,
    StraightThroughGumbel,
)
from companion.models import ImageEncoder


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Few scenes, an encoder that is not trained, and six steps, of which two are warm."""
    torch.manual_seed(0)
    digits = scenes.handwritten_digits()
    sets = (scenes.sample_scenes(digits, n, seed=n) for n in (200, 20, 30))
    task = Captioning(ImageEncoder(64), *sets)
    monkeypatch.setattr(captioners, "study_task", lambda: task)
    monkeypatch.setattr(captioners, "STEPS", 6)
    monkeypatch.setattr(captioners, "WARM", 2)
    captioners._warm.cache_clear()
    yield
    captioners._warm.cache_clear()


@pytest.mark.parametrize("kind", captioners.KINDS)
def test_a_run_is_measured_as_it_is_recorded(kind):
    found = captioners.measure(kind, 0.01, 0.005, seed=0)
    assert set(found) == {
        *("validation_loss", "exact_match", "inside", "near", "hits"),
        "largest_weight",
    }
    captioners._warm.cache_clear()
    assert found == captioners.measure(kind, 0.01, 0.005, seed=0)
    assert found == captioners.measure(
        kind, 0.01, 0.005, seed=0
    )  # from the same warm start
    assert found != captioners.measure(kind, 0.01, 0.005, seed=1)


@pytest.mark.parametrize("kind", captioners.KINDS)
def test_a_kind_is_what_its_name_says(monkeypatch, kind):
    steps, weights, run = [], [], recipe.train

    def noted(model, loss, batches, count, *rest):
        steps.append(count)
        weights.append(
            (loss.policy_weight, loss.entropy_weight)
            if hasattr(loss, "baseline")
            else None
        )
        return run(model, loss, batches, count, *rest)

    monkeypatch.setattr(recipe, "train", noted)
    model = captioners.train(kind, 0.01, entropy_weight=0.05, seed=0)
    expected = {
        "straight-through": StraightThroughGumbel,
        "soft": Additive,
        "equal weights": Additive,
        "from scratch, half soft": HalfAndHalf,
    }.get(kind, HardAttention)
    assert type(model.attention) is expected
    assert steps == {
        "hard": [2, 4],
        "hard, words alone": [2, 4],
        "hard, at step 200": [2],
    }.get(kind, [6])
    assert weights[-1] == {
        "hard": (0.3, 0.05),
        "from scratch": (0.3, 0.05),
        "from scratch, half soft": (0.3, 0.05),
        "hard, words alone": (0, 0),
    }.get(kind)
    if kind == "equal weights":
        assert not model.attention.v.any()


def test_the_figures_of_a_recorded_run_agree_with_one_another():
    for run in recorded("captioners"):
        assert 0 <= run["inside"] <= run["near"] <= 1
        if run["kind"] == "equal weights":
            assert run["largest_weight"] == pytest.approx(1 / 64, abs=1e-4)
        if run["kind"] == "straight-through":
            assert run["largest_weight"] == 1
