"""The study of chapter 2: its file has the runs that its settings name, and one can be repeated."""

import pytest
import torch

from companion.tasks import bahdanau_study
from companion.tasks.bahdanau_study import (
    COPIER_LENGTHS,
    COPIERS,
    TRANSLATOR_LENGTHS,
    TRANSLATORS,
    build,
    two_letters,
)
from companion.tasks.studies import recorded
from companion.tasks.translation import TranslationTask


def lengths(model):
    return COPIER_LENGTHS if model in COPIERS else TRANSLATOR_LENGTHS


def test_the_recorded_runs_are_those_of_the_settings():
    settings, runs = bahdanau_study.settings(), recorded("bahdanau")
    for setting, run in zip(settings, runs, strict=True):
        assert setting.items() <= run.items()
        only = setting.get("only")
        measured = {only} if only else {"validation", "test"}
        assert set(run) - set(setting) == measured
        losses, matches = run.get("validation", [1]), run.get("test", [1])
        if not only:
            assert len(losses) == run["steps"] / 50
            assert len(matches) == len(lengths(run["model"]))
        assert all(loss >= 0 for loss in losses)
        assert all(0 <= match <= 1 for match in matches)


def test_no_setting_is_there_twice():
    found = [tuple(setting.items()) for setting in bahdanau_study.settings()]
    assert len(set(found)) == len(found)


def test_letters_are_copied_and_no_test_sequence_was_trained_on():
    task = two_letters()
    sets = task.training_pairs, task.validation_pairs, task.test_pairs
    assert len(task.training_pairs) == 20_000
    assert all(pair.source == pair.target for pairs in sets for pair in pairs)
    ranges = [(min(n), max(n)) for n in ([len(p.target) for p in s] for s in sets)]
    assert [longest for _, longest in ranges] == [25, 25, 40]
    assert COPIER_LENGTHS[0] == (10, 40)
    seen = {pair.source for pair in task.training_pairs}
    assert not seen & {
        pair.source for pair in (*task.validation_pairs, *task.test_pairs)
    }


@pytest.mark.parametrize("ranges", [COPIER_LENGTHS, TRANSLATOR_LENGTHS])
def test_the_ranges_divide_all_lengths(ranges):
    (shortest, longest), *parts = ranges
    divided = [n for first, last in parts for n in range(first, last + 1)]
    assert divided == list(range(shortest, longest + 1))


@pytest.fixture(scope="module")
def small():
    """A task with few pairs, for every model."""
    task = two_letters()
    long = [p for p in task.test_pairs if len(p.target) < 13]
    return TranslationTask(task.training_pairs[:64], task.validation_pairs[:4], long)


@pytest.mark.parametrize("model", [*TRANSLATORS, *COPIERS])
def test_every_model_differs_from_the_others_in_one_thing(model, small):
    first, again, other = (build(model, small, seed) for seed in (0, 0, 1))
    weights = [
        next(one.decoder.attention.parameters()) for one in (first, again, other)
    ]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])
    assert type(first.encoder).__name__ == (
        "FixedVectorEncoder" if model == "without attention" else "BahdanauEncoder"
    )
    decoders = {
        "previous state and token": "StateAndWordDecoder",
        "new state": "CurrentStateDecoder",
        "location-sensitive": "LocationSensitiveDecoder",
    }
    name = decoders.get(model, "BahdanauDecoder")
    assert type(first.decoder).__name__ == name


def test_an_unknown_model_is_an_error(small):
    with pytest.raises(ValueError, match="no model 'dot', only without attention, Bah"):
        build("dot", small)


def test_a_run_is_measured_as_it_is_recorded(monkeypatch, small):
    monkeypatch.setattr(bahdanau_study, "study_task", lambda model: small)
    monkeypatch.setattr(bahdanau_study, "COPIER_LENGTHS", ((10, 12),))
    setting = {"model": "additive", "steps": 2, "learning_rate": 0.01}
    found = bahdanau_study.measure(**setting, seed=0)
    assert set(found) == {"validation", "test"}
    assert len(found["validation"]) == len(found["test"]) == 1
    assert found == bahdanau_study.measure(**setting, seed=0)
    assert found != bahdanau_study.measure(**setting, seed=1)
    for only, digits in found.items():
        last = [round(digits[-1], 3)]
        assert bahdanau_study.measure(**setting, seed=0, only=only) == {only: last}
