"""The study of chapter 5: its models, where their windows are, and that a run can be repeated."""

import pytest
import torch

from attention_course.studies import luong
from attention_course.tasks import (
    TranslationTask,
    luong_general,
    short_numbers,
    two_letters,
)
from companion.attention import LocalP

SETTING = {"embedding": 0.1, "deviation": 0.2}


def few(task):
    """The task with a few pairs of each set, and all words."""
    return TranslationTask(
        task.training_pairs[:200], task.validation_pairs[:2], task.test_pairs[:10]
    )


@pytest.fixture
def small(monkeypatch):
    tasks = {"numbers": few(short_numbers()), "copying": few(two_letters(600))}
    monkeypatch.setattr(luong, "_task", tasks.__getitem__)
    return tasks


@pytest.mark.parametrize("attention", luong.ATTENTIONS)
@pytest.mark.parametrize("task", luong.RANGES)
def test_a_run_is_measured_as_it_is_recorded(small, task, attention):
    setting = {"task": task, "attention": attention, "learning_rate": 0.01, "steps": 1}
    found = luong.measure(**setting, **SETTING, seed=3)
    assert set(found) == {"test", "validation_loss", "ends"}
    assert len(found["test"]) == len(luong.RANGES[task])
    assert (found["ends"] is not None) == attention.startswith("local-p")
    assert found == luong.measure(**setting, **SETTING, seed=3)
    losses = {
        luong.measure(**setting, **SETTING | other)["validation_loss"]
        for other in (
            {"seed": 3},
            {"seed": 4},
            {"seed": 3, "deviation": 0.07},
            {"seed": 3, "embedding": 1.0},
        )
    }
    assert len(losses) == 4


def test_general_is_the_model_of_the_chapter():
    model = luong.build("numbers", "general", **SETTING, seed=1)
    expected = luong_general(short_numbers(), seed=1)
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter, expected.get_parameter(name))


def test_embeddings_have_the_standard_deviation_and_padding_is_zero():
    model = luong.build("numbers", "general", embedding=1.0, deviation=0.2, seed=1)
    assert model.encoder.embedding.weight.std().item() == pytest.approx(1, abs=0.1)
    assert not model.encoder.embedding.weight[0].any()


def test_centres_are_those_of_the_steps(small):
    model = luong.build("numbers", "local-p, radius 16", **SETTING, seed=0)
    with torch.no_grad():
        model.decoder.attention.v_p.mul_(100)
    found = luong.relative_centres(model, small["numbers"])
    pair, attention = small["numbers"].test_pairs[0], model.decoder.attention
    expected, state = (
        [],
        model.start(torch.tensor([small["numbers"].source.encode(pair.source)])),
    )
    for token in (1, *small["numbers"].target.encode(pair.target)):
        _, state, _ = model.step(torch.tensor([token]), state)
        expected.append(attention.centre(state.hidden[:, -1:], 1).item())
    count = len(pair.target) + 1
    assert found[:count].tolist() == pytest.approx(expected[:count], abs=1e-4)
    assert found.min() < 0.3 or found.max() > 0.7


def test_a_slow_centre_differs_in_its_argument_alone():
    slow = luong.build("numbers", "local-p, slow centre", **SETTING, seed=0)
    usual = luong.build("numbers", "local-p", **SETTING, seed=0)
    query = torch.randn(1, 3, 64)
    logits = [
        model.decoder.attention.centre(query, 1).logit() for model in (slow, usual)
    ]
    torch.testing.assert_close(10 * logits[0], logits[1], atol=1e-4, rtol=1e-3)
    assert isinstance(slow.decoder.attention, LocalP)
    assert slow.decoder.attention.radius == usual.decoder.attention.radius == 4
