"""The study of chapter 1: what limits a translator that reads the source through one vector.

Its size, the lengths of the training pairs, or the training? All runs take about fifteen
minutes on one CPU core.
"""

from functools import cache
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attention_course.studies.recording import check_choice, grid
from attention_course.studies.seq2seq import LENGTHS
from attention_course.tasks.number_translation import (
    SCORING_UNITS,
    bahdanau_translator,
    french_numbers,
)
from attention_course.tasks.translation import TranslationTask
from companion.attention.additive import Additive
from companion.models.bahdanau import (
    BahdanauDecoder,
    BahdanauEncoder,
    BahdanauState,
    FixedVectorEncoder,
)
from companion.models.seq2seq import EncoderDecoder

TITLE = "Chapter 1: what limits a translator that reads the source through one vector"
#: Units of each direction of the encoder, and of the decoder.
SIZES = (8, 16, 32, 64)
#: The most words of a target in training: all of the task's, or those of four ranges.
LONGEST, SHORTER = 27, 16


class OneVectorDecoder(BahdanauDecoder):
    """Bahdanau's decoder for a source of one vector, which every step reads.

    The function is the same. But no step has to wait for the weights of attention, so that
    one call of a GRU trains all of them, almost twice as fast.
    """

    def forward(
        self, target: Int[Tensor, "b t"], state: BahdanauState
    ) -> Float[Tensor, "b t vocabulary"]:
        """The logits after each token of ``target`` (teacher forcing)."""
        embedded = self.embedding(target)
        context = state.memory.value.expand(-1, target.shape[1], -1)
        inputs, first = torch.cat([embedded, context], -1), state.hidden[None]
        weights: list[Tensor] = [*self.cell.parameters()]
        after, _ = torch.gru(
            inputs, first, weights, True, 1, 0.0, self.training, False, True
        )
        before = torch.cat([state.hidden[:, None], after[:, :-1]], 1)
        return self.output(before, embedded, context)


#: What the decoder reads of the source, and the two networks for it.
NETWORKS = {
    "one vector": (FixedVectorEncoder, OneVectorDecoder),
    "attention": (BahdanauEncoder, BahdanauDecoder),
}


@cache
def _task(longest: int) -> TranslationTask:
    """The numbers of the chapter, without longer targets in training and validation."""
    task = french_numbers()
    training, validation = (
        [pair for pair in pairs if len(pair.target) <= longest]
        for pairs in (task.training_pairs, task.validation_pairs)
    )
    return TranslationTask(training, validation, task.test_pairs)


def build(reads: str, units: int, seed: int) -> EncoderDecoder:
    """An untrained model.

    Args:
        reads: what the decoder reads of the source, one of :data:`NETWORKS`.
        units: of each direction of the encoder and of the decoder; a vector has twice as
            many numbers.
    """
    check_choice("reads", reads, NETWORKS)
    torch.manual_seed(seed)
    source, target = len(_task(LONGEST).source), len(_task(LONGEST).target)
    attention = Additive(units, 2 * units, SCORING_UNITS)
    return bahdanau_translator(source, target, *NETWORKS[reads], attention, units)


def measure(
    reads: str, units: int, longest: int, steps: int, learning_rate: float, seed: int
) -> dict[str, list[float]]:
    """Train one model on targets of at most ``longest`` words.

    Args:
        reads, units, seed: as in :func:`build`.
        steps, learning_rate: of the training.

    Returns:
        ``validation``, the loss per token after every 50 steps, and ``test``, the exact
        match for each of :data:`~attention_course.studies.seq2seq.LENGTHS`.
    """
    model = build(reads, units, seed)
    history = _task(longest).train(model, steps, learning_rate)
    return {
        "validation": [one["held_out_loss"] for one in history],
        "test": _task(longest).exact_match(model, LENGTHS),
    }


def settings() -> list[dict[str, Any]]:
    """The settings of all runs: what :func:`measure` is called with."""
    one = "one vector"
    trained = {"steps": 1_600, "learning_rate": 0.02}
    chosen = [
        run
        for seed in range(2)
        for run in (
            *grid(reads=one, units=SIZES, longest=LONGEST, **trained, seed=seed),
            *grid(reads="attention", units=8, longest=LONGEST, **trained, seed=seed),
            *grid(reads=one, units=64, longest=SHORTER, **trained, seed=seed),
            *grid(reads="attention", units=8, longest=SHORTER, **trained, seed=seed),
        )
    ]
    others = [
        *grid(
            reads=one,
            units=16,
            longest=LONGEST,
            steps=1_600,
            learning_rate=[0.01, 0.04],
            seed=0,
        ),
        *grid(
            reads=one,
            units=[8, 16],
            longest=LONGEST,
            steps=4_800,
            learning_rate=0.02,
            seed=0,
        ),
    ]
    return chosen + others
