"""The captioning task: its losses against the formulas, its batches, its measures and its recipe."""

import math

import pytest
import torch
from torch import nn

from attention_course.data.scenes import (
    WORDS,
    Box,
    Digits,
    Scenes,
    handwritten_digits,
    sample_scenes,
)
from attention_course.data.vocabulary import BOS, EOS, PAD
from attention_course.tasks import (
    Captioning,
)
from attention_course.training import (
    CaptionBatch,
    CaptionerTrace,
    HardAttentionLoss,
    SoftAttentionLoss,
    start_captions,
)
from companion.attention import Additive, HardAttention, SampledAttention
from companion.decoding import DecoderStep
from companion.models import Captioner, HardCaptioner, ImageEncoder
from tests.reference import xu_2015

SIZE, HIDDEN = 6, 8
VOCABULARY = 4 + len(WORDS)


@pytest.fixture(scope="module")
def digits() -> Digits:
    return handwritten_digits()


@pytest.fixture(scope="module")
def task(digits) -> Captioning:
    torch.manual_seed(0)
    return Captioning(
        ImageEncoder(SIZE),
        sample_scenes(digits, 200, seed=0),
        sample_scenes(digits, 30, seed=2),
        sample_scenes(digits, 60, seed=1),
    )


def soft():
    torch.manual_seed(0)
    return Captioner(VOCABULARY, 5, HIDDEN, SIZE, Additive(HIDDEN, SIZE, 7))


def hard():
    torch.manual_seed(0)
    return HardCaptioner(
        VOCABULARY, 5, HIDDEN, SIZE, HardAttention(Additive(HIDDEN, SIZE, 7))
    )


# Losses


class FixedTrace(nn.Module):
    """Returns the same logits and attention for any batch."""

    def __init__(self, target):
        super().__init__()
        torch.manual_seed(1)
        b, t = target.shape
        self.logits = nn.Parameter(torch.randn(b, t - 1, VOCABULARY))
        self.scores = nn.Parameter(torch.randn(b, t - 1, 3))
        alpha = self.scores.softmax(-1)
        self.attended = SampledAttention(
            alpha, alpha[..., 0].log(), -(alpha * alpha.log()).sum(-1)
        )

    def forward(self, batch):
        return self.logits, self.attended


TARGET = torch.tensor([[BOS, 5, 7, 4, EOS], [BOS, 9, EOS, PAD, PAD]])
BATCH = CaptionBatch(torch.zeros(2, 3, SIZE), TARGET)
LENGTHS = (4, 2)


def rewards(model):
    log_probs = model.logits.log_softmax(-1)
    return [
        [log_probs[row, t, TARGET[row, t + 1]].item() for t in range(length)]
        for row, length in enumerate(LENGTHS)
    ]


@pytest.mark.parametrize("penalty", [0.0, 0.7])
def test_the_soft_loss_is_equation_14_summed_over_the_captions(penalty):
    model = FixedTrace(TARGET)
    expected = sum(
        xu_2015.doubly_stochastic(
            model.attended.weights[row, :length].tolist(), penalty
        )
        - sum(reward)
        for row, (length, reward) in enumerate(
            zip(LENGTHS, rewards(model), strict=True)
        )
    )
    loss = SoftAttentionLoss(penalty)(model, BATCH)
    assert loss.total.item() == pytest.approx(expected, rel=1e-5)
    assert loss.count == sum(LENGTHS)


def test_the_hard_loss_adds_reinforce_and_moves_its_baseline():
    model, loss = (
        FixedTrace(TARGET),
        HardAttentionLoss(policy_weight=0.3, entropy_weight=0.05),
    )
    baseline = [0.0] * 4
    for _ in range(3):
        expected, to_go = 0.0, [[], [], [], []]
        for row, reward in enumerate(rewards(model)):
            length = LENGTHS[row]
            log_prob, entropy = (
                part[row, :length].tolist() for part in model.attended[1:]
            )
            expected += xu_2015.reinforce(
                log_prob, reward, baseline, entropy, 0.3, 0.05
            ) - sum(reward)
            for t in range(length):
                to_go[t].append(sum(reward[t:]))
        assert loss(model, BATCH).total.item() == pytest.approx(expected, rel=1e-4)
        means = [sum(r) / len(r) for r in to_go]
        baseline = [
            0.9 * b + 0.1 * mean for b, mean in zip(baseline, means, strict=True)
        ]


def test_the_baseline_changes_only_in_training_mode():
    loss = HardAttentionLoss()
    loss(FixedTrace(TARGET).eval(), BATCH)
    assert not loss.baseline.value.any()
    loss(FixedTrace(TARGET), BATCH)
    assert loss.baseline.value.any()


def test_a_caption_longer_than_the_baseline_is_an_error():
    target = torch.cat([TARGET[:, :1], TARGET[:, 1:2].expand(-1, 24), TARGET[:, 1:]], 1)
    batch = BATCH._replace(target=target)
    with pytest.raises(
        ValueError,
        match=rf"the batch has {target.shape[1] - 1} steps, but the baseline 20",
    ):
        HardAttentionLoss()(FixedTrace(target), batch)


def test_losses_of_float64_logits_are_computed_in_float64():
    model = FixedTrace(TARGET).double()
    expected = -sum(map(sum, rewards(model)))
    assert SoftAttentionLoss()(model, BATCH).total.item() == pytest.approx(
        expected, rel=1e-13
    )


def test_the_reward_has_no_gradient():
    model = FixedTrace(TARGET)
    HardAttentionLoss(policy_weight=1.0)(model, BATCH).total.backward(retain_graph=True)
    words = model.logits.grad.clone()
    model.zero_grad()
    SoftAttentionLoss()(model, BATCH).total.backward()
    torch.testing.assert_close(model.logits.grad, words)


# The task


def test_batches_depend_on_the_step_alone_and_an_epoch_has_each_image_once(task):
    batches = task.batches(batch_size=64, seed=0)
    epoch = [batches[step] for step in range(4)]
    assert [len(batch.target) for batch in epoch] == [64, 64, 64, 8]
    annotations = torch.cat([batch.annotations for batch in epoch])
    order = task.training.annotations.flatten(1).sum(1).sort().values
    torch.testing.assert_close(annotations.flatten(1).sum(1).sort().values, order)
    assert torch.equal(task.batches(64, 0)[2].target, epoch[2].target)
    assert not torch.equal(batches[4].annotations, epoch[0].annotations)
    for batch in epoch:
        assert (batch.target != PAD).any(0).all()


def test_images_and_captions_stay_together(task, digits):
    torch.manual_seed(0)
    encoder, scenes = ImageEncoder(SIZE), sample_scenes(digits, 60, seed=1)
    torch.testing.assert_close(
        task.test.annotations[7], encoder(scenes.images[7:8])[0][0]
    )
    row = task.test.target[7].tolist()
    assert tuple(task.vocabulary.decode(row)) == scenes.captions[7]
    assert row[0] == BOS
    assert EOS in row


class Oracle(nn.Module):
    """Writes the true caption of each image, and attends to one region only."""

    def __init__(self, task, region, forgets=0):
        super().__init__()
        self.task, self.region, self.size = (
            task,
            region,
            nn.Parameter(torch.zeros(VOCABULARY)),
        )
        self.known = {
            image.sum().item(): row for image, row in zip(*task.test, strict=True)
        }
        for key in list(self.known)[:forgets]:
            self.known[key] = torch.tensor([BOS, EOS])

    def start(self, annotations, mask):
        assert mask.all()
        rows = [self.known[image.sum().item()].tolist() for image in annotations]
        longest = max(map(len, rows))
        return torch.tensor(
            [row + [EOS] * (longest - len(row)) for row in rows]
        ), torch.zeros(len(rows), dtype=torch.long)

    def step(self, token, state):
        script, position = state
        word = script[
            torch.arange(len(script)), (position + 1).clamp(max=script.shape[1] - 1)
        ]
        word = word.masked_fill(word == PAD, EOS)
        return DecoderStep(
            nn.functional.one_hot(word, VOCABULARY).float() * 9,
            (script, position + 1),
            None,
        )

    def trace(self, target, state):
        weights = torch.zeros(*target.shape, 64)
        weights[..., self.region] = 1
        return torch.zeros(*target.shape, VOCABULARY), SampledAttention(
            weights, weights[..., 0], weights[..., 0]
        )


def test_exact_match_counts_correct_captions(task):
    assert task.captions(Oracle(task, 0)) == task.test_scenes.captions
    assert task.exact_match(Oracle(task, 0)) == 1
    assert task.exact_match(Oracle(task, 0, forgets=15)) == 0.75


def test_localisation_uses_the_box_of_the_next_word():
    scenes = Scenes(
        torch.rand(2, 1, 32, 32),
        [("one", "below", "two"), ("three", "four")],
        [(Box(0, 0, 8, 8), Box(20, 0, 28, 8)), (Box(3, 3, 11, 11), Box(1, 14, 9, 22))],
    )
    torch.manual_seed(0)
    task = Captioning(ImageEncoder(SIZE), scenes, scenes, scenes)
    found = task.localisation(Oracle(task, region=0))  # the pixels 0 to 3 each way
    assert found.inside == pytest.approx((1 + 0 + 1 / 16 + 0) / 4)
    assert found.near == pytest.approx((1 + 0 + 9 / 16 + 0) / 4)
    assert found.hits == pytest.approx(2 / 4)


@pytest.mark.parametrize(
    ("make", "loss"), [(soft, SoftAttentionLoss(0.1)), (hard, HardAttentionLoss(0.3))]
)
def test_training_lowers_the_loss_and_keeps_the_annotations(task, make, loss):
    captioner, before = make(), task.training.annotations.clone()
    history = task.train(captioner, loss, steps=100)
    assert [record["step"] for record in history] == [50, 100]
    assert history[-1]["held_out_loss"] < math.log(VOCABULARY) - 0.3
    assert torch.equal(task.training.annotations, before)
    assert captioner.training


def test_a_captioner_trace_returns_logits_and_attention(task):
    captioner = soft()
    batch = CaptionBatch(task.test.annotations[:5], task.test.target[:5])
    logits, attended = CaptionerTrace(captioner)(batch)
    expected, _ = captioner.trace(
        batch.target[:, :-1], start_captions(captioner, batch.annotations)
    )
    torch.testing.assert_close(logits, expected)
    assert attended.weights.shape == (5, batch.target.shape[1] - 1, 64)
