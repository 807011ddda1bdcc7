"""The study of recall: its models, and that a run can be repeated."""

from itertools import product

import pytest
import torch

from attention_course.studies import recall, recorded


def test_all_models_without_gates_have_the_same_parameters():
    counts = {
        sum(parameter.numel() for parameter in recall.build(*model).parameters())
        for model in recall.MODELS
        if model[0] != "delta"
    }
    assert len(counts) == 1


@pytest.mark.parametrize("heads", [1, 4, 16])
def test_more_heads_have_a_smaller_state(heads):
    model = recall.build("linear", heads)
    attention = model.layer.attention
    state = attention.start(torch.zeros(1, 0, recall.D_MODEL))
    assert state.S.numel() == recall.D_MODEL**2 // heads


def test_a_question_never_depends_on_another():
    model = recall.build("softmax", 4).eval()
    batch = recall.lookups(2, facts=5, seed=0)
    turned = batch.city.clone()
    turned[:, -1] = turned[:, 0]
    one, other = (model(city, batch.digit)[:, 5:-1] for city in (batch.city, turned))
    torch.testing.assert_close(one, other)


def test_every_model_is_recorded_with_every_seed():
    for attention, heads in recall.MODELS:
        runs = recorded("recall", attention=attention, heads=heads)
        seeds = range(recall.SEEDS.get((attention, heads), 3))
        made = sorted((run["learning_rate"], run["seed"]) for run in runs)
        wanted = product(recall.RATES[attention, heads], seeds)
        assert made == sorted(wanted)
        for run in runs:
            assert len(run["test"]) == len(recall.PAIRS)
            assert len(run["validation"]) == run["steps"] / 50


def test_a_run_is_measured_as_it_is_recorded(monkeypatch):
    whole = recall.lookups
    monkeypatch.setattr(
        recall, "lookups", lambda texts, facts, seed: whole(3, facts, seed)
    )
    setting = {"attention": "linear", "heads": 4, "steps": 1, "learning_rate": 0.01}
    found = recall.measure(**setting, seed=0)
    assert found == recall.measure(**setting, seed=0)
    assert found != recall.measure(**setting, seed=2)
    assert len(found["test"]) == len(recall.PAIRS)
