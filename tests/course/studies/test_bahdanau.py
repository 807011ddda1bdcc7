"""The study of chapter 2: its models, its lengths, and that a run can be repeated."""

import pytest
import torch

from attention_course.studies import bahdanau
from attention_course.studies.bahdanau import (
    COPIER_LENGTHS,
    COPIERS,
    TRANSLATOR_LENGTHS,
    TRANSLATORS,
    build,
)
from attention_course.tasks.letter_copying import two_letters
from attention_course.tasks.translation import TranslationTask


@pytest.mark.parametrize("ranges", [COPIER_LENGTHS, TRANSLATOR_LENGTHS])
def test_the_ranges_divide_all_lengths(ranges):
    (shortest, longest), *parts = ranges
    divided = [n for first, last in parts for n in range(first, last + 1)]
    assert divided == list(range(shortest, longest + 1))


@pytest.fixture(scope="module")
def small():
    """A task with few pairs, for every model."""
    task = two_letters(1_000)
    long = [p for p in task.test_pairs if len(p.target) < 13]
    return TranslationTask(task.training_pairs[:64], task.validation_pairs[:4], long)


@pytest.mark.parametrize("model", [*TRANSLATORS, *COPIERS])
def test_every_model_has_its_encoder_and_its_decoder_and_repeats_by_its_seed(
    model, small
):
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
    with pytest.raises(
        ValueError, match=r"model must be one of 'without attention', 'Bah.*, not 'dot'"
    ):
        build("dot", small)


def test_a_run_is_measured_as_it_is_recorded(monkeypatch, small):
    monkeypatch.setattr(bahdanau, "study_task", lambda model: small)
    monkeypatch.setattr(bahdanau, "COPIER_LENGTHS", ((10, 12),))
    setting = {"model": "additive", "steps": 2, "learning_rate": 0.01}
    found = bahdanau.measure(**setting, seed=0)
    assert set(found) == {"validation", "test"}
    assert len(found["validation"]) == len(found["test"]) == 1
    assert found == bahdanau.measure(**setting, seed=0)
    assert found != bahdanau.measure(**setting, seed=1)
