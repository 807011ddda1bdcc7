"""What is measured on sentences held out, against plain loops over one sentence at a time."""

import math

import pytest
import torch

from companion.data.batching import Batch
from companion.training import (
    LabelSmoothing,
    free_running_loss,
    held_out,
    sequence_loss,
)
from tests.tiny import MODELS, SOURCE, TARGET, sentences


@pytest.mark.parametrize("name", MODELS)
def test_the_free_running_loss_reads_the_models_own_words(name):
    torch.manual_seed(0)
    model = MODELS[name]()
    total, count, same_words = 0.0, 0, True
    for source, target in zip(sentences(SOURCE), sentences(TARGET), strict=True):
        state, token = model.start(source[None]), target[:1]
        for following in target[1:]:
            logits, state, _ = model.step(token, state)
            total -= logits.log_softmax(-1)[0, following].item()
            count, token = count + 1, logits.argmax(-1)
            same_words &= bool(token == following)
    loss = free_running_loss(model, Batch(SOURCE, TARGET))
    assert not same_words
    assert loss.total.item() == pytest.approx(total, rel=1e-9)
    assert loss.count.item() == count


def test_held_out_figures_are_of_all_words_of_all_batches():
    torch.manual_seed(0)
    model = MODELS["cho"]()
    whole = held_out(model, [Batch(SOURCE, TARGET)], free_running_loss)
    parts = [
        Batch(SOURCE[row : row + 1, :2], TARGET[row : row + 1, :3]) for row in (1,)
    ]
    parts.append(Batch(SOURCE[[0, 2]], TARGET[[0, 2]]))
    found = held_out(model, parts, free_running_loss)
    assert found == pytest.approx(whole, rel=1e-9)
    assert whole["perplexity"] == pytest.approx(math.exp(whole["held_out_loss"]))
    assert whole != pytest.approx(
        held_out(model, [Batch(SOURCE, TARGET)], sequence_loss)
    )


@pytest.mark.parametrize("share", [0.0, 0.1, 0.75])
def test_label_smoothing_spreads_a_share_over_all_words(share):
    model = MODELS["transformer"]()
    total, count = 0.0, 0
    for source, target in zip(sentences(SOURCE), sentences(TARGET), strict=True):
        log_probs = model(source[None], target[None, :-1])[0].log_softmax(-1)
        for log_prob, following in zip(
            log_probs.tolist(), target[1:].tolist(), strict=True
        ):
            for word, number in enumerate(log_prob):
                total -= (
                    (1 - share) * (word == following) + share / len(log_prob)
                ) * number
            count += 1
    loss = LabelSmoothing(share)(model, Batch(SOURCE, TARGET))
    assert loss.total.item() == pytest.approx(total, rel=1e-9)
    assert loss.count.item() == count


@pytest.mark.parametrize("share", [-0.1, 1.0, math.nan])
def test_a_share_that_is_none_is_an_error(share):
    with pytest.raises(ValueError, match=f"at least 0 and below 1, not {share}"):
        LabelSmoothing(share)
