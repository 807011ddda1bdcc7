"""The study of chapter 4 on captions: soft, straight-through and hard attention.

All runs take about half an hour on one CPU core.
"""

from functools import cache
from typing import Any

import torch

from attention_course.data import scenes
from attention_course.data.vocabulary import PAD
from attention_course.studies.recording import check_choice, grid
from attention_course.tasks.captioning import Captioning
from attention_course.tasks.digit_pretraining import pretrain_encoder
from attention_course.training.caption_losses import (
    CaptionerTrace,
    HardAttentionLoss,
    SoftAttentionLoss,
)
from companion.attention.additive import Additive
from companion.attention.gumbel_softmax import StraightThroughGumbel
from companion.attention.hard import HalfAndHalf
from companion.attention.recording import record_weights
from companion.models.show_attend_tell import Captioner, ImageEncoder, to_hard_attention

TITLE = "Chapter 4: captions of digits"
#: The captioners: the second line has the hard one and its controls, from a warm start; the
#: third those without one, of which the last reads the expectation half the time, as in the paper.
KINDS = (
    *("soft", "straight-through"),
    *("hard", "hard, at step 200", "hard, words alone"),
    *("from scratch", "from scratch, half soft"),
    "equal weights",
)
#: The steps of a training, and those of the warm start, which are the first of them.
STEPS, WARM = 600, 200
_CONTROLS = ("at step 200", "words alone")
_ANNOTATION, _EMBEDDING, _HIDDEN, _ATTENTION = 64, 32, 96, 32


@cache
def study_task() -> Captioning:
    """The scenes as an encoder represents them that was trained to detect digits."""
    digits = scenes.split(scenes.handwritten_digits(), fraction=0.2, seed=0)
    sizes = zip(digits, (8_000, 500, 500), (1, 3, 2), strict=True)
    train, validation, test = (scenes.sample_scenes(*one) for one in sizes)
    torch.manual_seed(0)
    encoder = ImageEncoder(_ANNOTATION)
    pretrain_encoder(encoder, digits[0], steps=700)
    return Captioning(encoder, train, validation, test)


def build(kind: str, seed: int) -> Captioner:
    """An untrained captioner; a hard one begins as a soft one."""
    check_choice("kind", kind, KINDS)
    torch.manual_seed(seed)
    additive = Additive(_HIDDEN, _ANNOTATION, _ATTENTION)
    if kind == "equal weights":
        additive.v.requires_grad_(False).zero_()
    attention = StraightThroughGumbel(additive) if "through" in kind else additive
    words = len(study_task().vocabulary)
    return Captioner(words, _EMBEDDING, _HIDDEN, _ANNOTATION, attention)


def train(
    kind: str, learning_rate: float, entropy_weight: float, seed: int
) -> Captioner:
    """A trained captioner.

    Args:
        learning_rate: of the steps after the warm start, which has 0.01.
        entropy_weight: λ_e of ``hard`` and those from scratch; the others have none.
    """
    task, model = study_task(), build(kind, seed)
    if kind in ("soft", "straight-through", "equal weights"):
        task.train(model, SoftAttentionLoss(), STEPS, learning_rate)
        return model
    steps = STEPS
    if not kind.startswith("from scratch"):
        model, steps = _warm(seed), STEPS - WARM
    model = to_hard_attention(model)
    if "half soft" in kind:
        model.attention = HalfAndHalf(model.attention.attention)
    if kind != "hard, at step 200":
        torch.manual_seed(seed)
        weights = (0.0, 0.0) if "alone" in kind else (0.3, entropy_weight)
        task.train(model, HardAttentionLoss(*weights), steps, learning_rate)
    return model


@cache
def _warm(seed: int) -> Captioner:
    """The warm start: soft attention."""
    model = build("hard", seed)
    study_task().train(model, SoftAttentionLoss(), WARM)
    return model


def largest_weight(model: Captioner) -> float:
    """The mean over the words of the test captions, under teacher forcing.

    With hard attention it is the largest probability; with straight-through, whose weights
    are one-hot, it is 1.
    """
    batch = study_task().test
    with record_weights(model.eval()) as maps, torch.no_grad():
        CaptionerTrace(model)(batch)
    (recorded,) = filter(None, maps.values())
    largest = torch.cat(recorded, 1).amax(-1)
    return largest[batch.target[:, 1:] != PAD].mean().item()


def measure(
    kind: str, learning_rate: float, entropy_weight: float, seed: int
) -> dict[str, float]:
    """Train one captioner; its captions, and where its attention is.

    Returns:
        ``validation_loss``, per word; and on the test set ``exact_match``, the fraction of
        captions that are right, ``inside``, ``near`` and ``hits``, as
        :class:`~attention_course.tasks.captioning.Localisation` explains them, and
        ``largest_weight``.
    """
    check_choice("kind", kind, KINDS)  # before the task is made, which takes a while
    task, model = study_task(), train(kind, learning_rate, entropy_weight, seed)
    return {
        "validation_loss": task.validation_loss(model)["held_out_loss"],
        "exact_match": task.exact_match(model),
        **task.localisation(model)._asdict(),
        "largest_weight": largest_weight(model),
    }


def settings() -> list[dict[str, Any]]:
    """The settings of all runs: what :func:`measure` is called with."""
    soft, controls = ["soft", "straight-through"], [f"hard, {x}" for x in _CONTROLS]
    return [
        *_runs([*soft, "equal weights"], 0.01, 0.0),
        *_runs("hard", 0.005, 0.005),
        *_runs(controls, 0.005, 0.0),
        *_runs("from scratch", [0.0025, 0.005, 0.01, 0.02], 0.005),
        *_runs("from scratch", 0.01, 0.05),
        *_runs(soft, [0.005, 0.02], 0.0),
        *_runs("hard", [0.0025, 0.01, 0.02], 0.005),
        *_runs("from scratch, half soft", [0.005, 0.01], 0.005),
    ]


def _runs(kind: Any, rate: Any, entropy_weight: float) -> list[dict[str, Any]]:
    return grid(
        kind=kind,
        learning_rate=rate,
        entropy_weight=entropy_weight,
        seed=range(3),
    )
