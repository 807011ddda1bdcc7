"""Losses, against plain loops over one sentence at a time."""

import math

import pytest
import torch

from attention_course.data.batching import Batch
from attention_course.training import (
    LabelSmoothing,
    free_running_loss,
    loss_and_perplexity,
    sequence_loss,
)
from tests.tiny import MODELS, SOURCE, TARGET, sentences


@pytest.mark.parametrize("name", MODELS)
def test_the_free_running_loss_reads_the_models_own_predictions(name):
    torch.manual_seed(0)
    model = MODELS[name]()
    total, count, same_tokens = 0.0, 0, True
    for source, target in zip(sentences(SOURCE), sentences(TARGET), strict=True):
        state, token = model.start(source[None]), target[:1]
        for following in target[1:]:
            logits, state, _ = model.step(token, state)
            total -= logits.log_softmax(-1)[0, following].item()
            count, token = count + 1, logits.argmax(-1)
            same_tokens &= bool(token == following)
    loss = free_running_loss(model, Batch(SOURCE, TARGET))
    assert not same_tokens
    assert loss.total.item() == pytest.approx(total, rel=1e-9)
    assert loss.count.item() == count


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("loss", [sequence_loss, free_running_loss])
def test_tokens_may_be_integers_of_32_bits(loss):
    model = MODELS["transformer"]()
    expected = loss(model, Batch(SOURCE, TARGET)).total
    found = loss(model, Batch(SOURCE.int(), TARGET.int())).total
    torch.testing.assert_close(found, expected)


def test_the_loss_of_a_set_is_over_all_tokens_of_all_batches():
    torch.manual_seed(0)
    model = MODELS["cho"]()
    whole = loss_and_perplexity(model, [Batch(SOURCE, TARGET)], free_running_loss)
    parts = [
        Batch(SOURCE[row : row + 1, :2], TARGET[row : row + 1, :3]) for row in (1,)
    ]
    parts.append(Batch(SOURCE[[0, 2]], TARGET[[0, 2]]))
    found = loss_and_perplexity(model, parts, free_running_loss)
    assert found == pytest.approx(whole, rel=1e-9)
    assert whole["perplexity"] == pytest.approx(math.exp(whole["held_out_loss"]))
    assert whole != pytest.approx(
        loss_and_perplexity(model, [Batch(SOURCE, TARGET)], sequence_loss)
    )


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.75])
def test_label_smoothing_mixes_the_target_with_the_uniform_distribution(epsilon):
    model = MODELS["transformer"]()
    total, count = 0.0, 0
    for source, target in zip(sentences(SOURCE), sentences(TARGET), strict=True):
        log_probs = model(source[None], target[None, :-1])[0].log_softmax(-1)
        for log_prob, following in zip(
            log_probs.tolist(), target[1:].tolist(), strict=True
        ):
            for word, number in enumerate(log_prob):
                total -= (
                    (1 - epsilon) * (word == following) + epsilon / len(log_prob)
                ) * number
            count += 1
    loss = LabelSmoothing(epsilon)(model, Batch(SOURCE, TARGET))
    assert loss.total.item() == pytest.approx(total, rel=1e-9)
    assert loss.count.item() == count
