"""The studies of overwriting and of selection: every run is there, and can be repeated."""

import pytest

from attention_course.studies import overwriting, recorded, selection


@pytest.mark.parametrize("study", [overwriting, selection])
def test_every_model_is_recorded_with_every_seed_and_rate(study):
    name = study.__name__.rsplit(".", 1)[1]
    for model in study.MODELS:
        runs = recorded(name, model=model)
        found = {(run["learning_rate"], run["seed"]) for run in runs}
        assert found == {(rate, seed) for rate in study.RATES for seed in range(3)}
        for run in runs:
            assert len(run["test"]) == len(study.FACTS)
            assert len(run["validation"]) == run["steps"] / 50


@pytest.mark.parametrize("study", [overwriting, selection])
def test_a_run_can_be_repeated(study, monkeypatch):
    name = "overwritten" if study is overwriting else "lookups"
    whole = getattr(study, name)
    monkeypatch.setattr(study, name, lambda texts, facts, seed: whole(3, facts, seed))
    for model in study.MODELS:
        setting = {"model": model, "steps": 1, "learning_rate": 0.01}
        found = study.measure(**setting, seed=0)
        assert found == study.measure(**setting, seed=0)
        assert len(found["test"]) == len(study.FACTS)


def test_a_write_gate_is_the_delta_rule_without_what_it_takes_away():
    gate, delta = overwriting.build("write gate"), overwriting.build("delta")
    once = overwriting.overwritten(2, 1, 0)
    for place, same in ((1, True), (2, False)):  # the second statement is of one city
        outputs = [
            m(once.city[:, :place], once.digit[:, :place]) for m in (gate, delta)
        ]
        assert outputs[0].allclose(outputs[1], atol=1e-5) is same
