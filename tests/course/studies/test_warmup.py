"""The study of warm-up: its variants, and that a run can be repeated."""

from contextlib import nullcontext

import pytest
import torch

from attention_course.studies import warmup
from attention_course.tasks import TranslationTask
from attention_course.training import Trainer
from companion.layers import PostNorm, PreNorm


@pytest.fixture(autouse=True)
def few_pairs(monkeypatch):
    whole = warmup.few_words()
    small = TranslationTask(whole.training_pairs[:64], whole.validation_pairs[:4], [])
    monkeypatch.setattr(warmup, "few_words", lambda: small)
    short = {
        name: (kind, min(n, 2), min(held, 2))
        for name, (kind, n, held) in warmup.VARIANTS.items()
    }
    monkeypatch.setattr(warmup, "VARIANTS", short)


@pytest.mark.parametrize("variant", warmup.VARIANTS)
def test_a_run_is_measured_as_it_is_recorded(variant):
    setting = {"variant": variant, "steps": 2, "learning_rate": 0.01}
    found = warmup.measure(**setting, seed=0)
    assert set(found) == {"validation_loss"}
    assert found == warmup.measure(**setting, seed=0)
    assert found != warmup.measure(**setting, seed=1)


@pytest.mark.parametrize("variant", warmup.VARIANTS)
def test_a_variant_is_what_its_name_says(variant):
    model, _ = warmup.train(variant, steps=2, learning_rate=0.01, seed=0)
    kinds = {type(part) for part in model.modules()} & {PostNorm, PreNorm}
    assert kinds == {PreNorm if variant.startswith("pre-norm") else PostNorm}
    _, steps, held = warmup.VARIANTS[variant]
    assert (steps > 1) == variant.endswith(", warm-up")
    assert (held > 0) == variant.endswith("averages first")
    assert len(model.encoder.layers) == len(model.decoder.layers) == 6


def test_steps_at_a_rate_of_0_change_averages_and_no_weight(monkeypatch):
    task, weights, averages, make = warmup.few_words(), [], [], torch.optim.Adam
    model = warmup.narrow_transformer(task, layers=1, d_model=8, seed=0)

    def note(optimizer, *_):
        weights.append([parameter.detach().clone() for parameter in model.parameters()])
        averages.append([one["exp_avg_sq"].max() for one in optimizer.state.values()])

    def noted(*arguments, **options):
        optimizer = make(*arguments, **options)
        optimizer.register_step_post_hook(note)
        return optimizer

    monkeypatch.setattr(torch.optim, "Adam", noted)
    note(make(model.parameters()))
    warmup.fit(task, model, steps=1, learning_rate=0.1, warmup=1, held=3)
    before, *held, after = weights
    assert len(held) == 3
    assert all(map(torch.equal, before, held[-1]))
    assert not any(map(torch.equal, before, after))
    assert averages[3]
    assert min(averages[3]) > 0


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("fails", [False, True])
def test_after_training_a_model_is_back_on_its_device(monkeypatch, fails):
    def fit(trainer, *_, **__):
        trainer.model.to("meta")
        if fails:
            raise FloatingPointError
        return []

    model, moves = torch.nn.Linear(2, 2), []
    model.to = lambda device: moves.append(torch.device(device).type)
    monkeypatch.setattr(Trainer, "fit", fit)
    with pytest.raises(FloatingPointError) if fails else nullcontext():
        warmup.fit(warmup.few_words(), model, 2, 0.01, 1)
    assert moves[-2:] == ["meta", "cpu"]
