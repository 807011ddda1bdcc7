"""The study of chapter 11 on questions: their chains, its models, and that a run can be repeated."""

import pytest
import torch

from attention_course.studies import hops
from attention_course.training import recipe
from companion.losses import Loss


def followed(facts, thing, steps):
    """Where a thing is after so many look-ups, or None."""
    where = dict(zip(facts[::2], facts[1::2], strict=True))
    for _ in range(steps):
        thing = where.get(thing)
    return thing


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_the_answer_is_where_the_chain_of_the_question_ends(steps):
    facts, asked, answer = hops.questions(50, steps, seed=3)
    assert facts.shape == (50, 2 * steps * hops.CHAINS)
    for row, thing, end in zip(
        facts.tolist(), asked.flatten().tolist(), answer.tolist(), strict=True
    ):
        assert followed(row, thing, steps) == end
        assert followed(row, thing, steps + 1) is None
        assert thing not in row[1::2]
        assert {*row} <= {*range(hops.FIRST, hops.FIRST + len(hops.THINGS))}
        assert len(set(row)) == hops.CHAINS * (steps + 1)


def test_the_facts_are_in_random_order():
    facts, asked, _ = hops.questions(600, 2, seed=0)
    place = (facts[:, ::2] == asked).long().argmax(1)
    counts = torch.bincount(place, minlength=6)
    assert counts.min() > 60


def test_training_validation_and_test_have_other_questions_but_a_step_always_the_same():
    batches = hops.QuestionBatches(2, seed=0)
    assert torch.equal(batches[3].facts, batches[3].facts)
    sets = [batches[0], batches[1], hops.QuestionBatches(2, seed=1)[0]]
    sets += [hops.questions(64, 2, seed) for seed in (1, 2)]
    for number, one in enumerate(sets):
        assert not any(torch.equal(one.facts, other.facts) for other in sets[:number])


def test_the_answer_is_predicted_after_the_thing_that_is_asked_for():
    batch = hops.questions(5, 2, seed=0)
    model = hops.answering_model()
    logits = hops.answer_logits(model, batch)
    assert logits.shape == (5, hops.FIRST + len(hops.THINGS))
    log_probs = logits.log_softmax(-1).gather(1, batch.answer[:, None])
    loss = hops.answer_loss(model, batch)
    torch.testing.assert_close(loss.total, -log_probs.sum())
    assert loss.count == 5
    right = (logits.argmax(-1) == batch.answer).float().mean().item()
    assert hops.accuracy(model, batch) == pytest.approx(right)


def test_the_layers_that_attend_are_those_of_the_setting():
    for attending in ("1", "2", "1 2"):
        layers = hops.answering_model(attending).decoder.layers
        found = [number for number, x in enumerate(layers, start=1) if x.attends]
        assert found == [int(number) for number in attending.split()]


def test_a_run_is_measured_as_it_is_recorded():
    setting = next(
        one for one in hops.settings() if one["hops"] == 2 and one["attending"] == "1"
    )
    setting = setting | {"steps": 2, "dim": 8}
    found = hops.measure(**setting)
    assert found == hops.measure(**setting)
    assert found != hops.measure(**setting | {"seed": 5})
    assert len(found["validation_loss"]) == 1
    assert 0 <= found["test"] <= 1
    model = hops.answering_model(setting["attending"], 8)
    assert found["parameters"] == sum(x.numel() for x in model.parameters())


def test_questions_move_to_the_device_of_the_model(monkeypatch):
    def train(model, loss, batches, steps, learning_rate, evaluate):
        return [evaluate(model)]

    def answer_loss(model, batch):
        devices.update(x.device.type for x in batch)
        return Loss(torch.tensor(6.0), torch.tensor(2))

    devices, model = set(), hops.answering_model(dim=8).to("meta")
    monkeypatch.setattr(recipe, "train", train)
    monkeypatch.setattr(hops, "answer_loss", answer_loss)
    assert hops.train_to_answer(model) == [{"validation_loss": 3}]
    assert devices == {"meta"}


def test_the_loss_and_its_count_are_on_the_device_of_the_model():
    model = hops.answering_model(dim=8).to("meta")
    batch = hops.Questions(*(x.to("meta") for x in hops.questions(3, 2, seed=0)))
    loss = hops.answer_loss(model, batch)
    assert loss.total.device.type == loss.count.device.type == "meta"


def test_accuracy_is_measured_on_the_device_of_the_model(monkeypatch):
    def answer_logits(model, batch):
        devices.update(x.device.type for x in batch)
        return compute(model, batch)

    devices, compute = set(), hops.answer_logits
    monkeypatch.setattr(hops, "answer_logits", answer_logits)
    with pytest.raises(RuntimeError, match="meta"):  # has no numbers to return
        hops.accuracy(hops.answering_model(dim=8).to("meta"), hops.questions(5, 2, 0))
    assert devices == {"meta"}
