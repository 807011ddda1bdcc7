"""The study of chapter 5: when local-p learns number words and when not, and longer copies.

All runs take about nine minutes on one CPU core. Besides general and local-p with the
radius 4 there are two controls: windows with the radius 16, and a centre that moves
slowly.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attention_course.data.vocabulary import BOS, PAD, pad
from attention_course.studies.attentions import LETTERS
from attention_course.studies.recording import check_choice, grid
from attention_course.tasks.letter_copying import two_letters
from attention_course.tasks.number_translation import short_numbers
from attention_course.tasks.translation import TranslationTask
from companion.attention.base import Attention
from companion.attention.local import LocalP
from companion.attention.scores import Bilinear
from companion.attention.types import Positions
from companion.layers.recurrent import run_lstm
from companion.models.luong import InputFeedingDecoder, LuongDecoder, LuongEncoder
from companion.models.seq2seq import EncoderDecoder

TITLE = "Chapter 5: number words from English to French, and copies of two letters"
#: The ranges by which exact match is split.
RANGES = {"numbers": [(1, 20)], "copying": LETTERS}
_HIDDEN = 64
_AT_AN_END = 0.02  # of the sentence's length


class SlowLocalP(LocalP):
    """Local-p whose centre moves slowly: the sigmoid's argument is a tenth.

    Adam changes a parameter by about the learning rate, whatever the scale of its
    gradient, so that the argument changes ten times as slowly, too.
    """

    def centre(
        self,
        query: Float[Tensor, "*b q d"],
        lengths: Int[Tensor, "..."] | int,
        query_position: Positions = None,
    ) -> Float[Tensor, "*b q"]:
        """A fraction of the sequence's length, which begins and stays near the middle."""
        logit = torch.tanh(self.W_p(query)) @ self.v_p
        return lengths * (0.1 * logit).sigmoid()


#: The attention of each model; the score is always *general*.
ATTENTIONS: dict[str, Callable[[], Attention]] = {
    "general": lambda: Bilinear(_HIDDEN, _HIDDEN),
    "general, fed": lambda: Bilinear(_HIDDEN, _HIDDEN),
    "local-p": lambda: LocalP(Bilinear(_HIDDEN, _HIDDEN), 4, _HIDDEN),
    "local-p, radius 16": lambda: LocalP(Bilinear(_HIDDEN, _HIDDEN), 16, _HIDDEN),
    "local-p, slow centre": lambda: SlowLocalP(Bilinear(_HIDDEN, _HIDDEN), 4, _HIDDEN),
}


@cache
def _task(name: str) -> TranslationTask:
    return two_letters(600) if name == "copying" else short_numbers()


def build(
    task: str, attention: str, embedding: float, deviation: float, seed: int
) -> EncoderDecoder:
    """An untrained model; the settings are those of :func:`measure`."""
    check_choice("task", task, RANGES)
    check_choice("attention", attention, ATTENTIONS)
    check_choice("embedding", embedding, [0.1, 1.0])
    check_choice("deviation", deviation, [0.2, 0.07])
    data = _task(task)
    torch.manual_seed(seed)
    encoder = LuongEncoder(len(data.source), 32, _HIDDEN, layers=1, pad=PAD)
    kind = InputFeedingDecoder if attention.endswith("fed") else LuongDecoder
    chosen = ATTENTIONS[attention]()
    decoder = kind(len(data.target), 32, _HIDDEN, chosen, layers=1)
    if deviation == 0.07:
        decoder.output.reset_parameters()
    with torch.no_grad():
        for side in (encoder, decoder):
            side.embedding.weight *= embedding / side.embedding.initial_std
    return EncoderDecoder(encoder, decoder)


@torch.no_grad()
def relative_centres(model: Any, data: TranslationTask) -> Float[Tensor, " n"]:
    """The centres of local-p, p_t / S, before each target token of the test set, and before ``<eos>``."""
    source = pad([data.source.encode(pair.source) for pair in data.test_pairs])
    target = pad([[BOS, *data.target.encode(pair.target)] for pair in data.test_pairs])
    decoder, state = model.decoder, model.start(source)
    embedded = decoder.embedding(target)
    hidden, *_ = run_lstm(decoder.rnn, embedded, state.hidden, state.cell)
    lengths = (source != PAD).sum(1, keepdim=True)
    centres = decoder.attention.centre(hidden, lengths)
    return (centres / lengths)[target != PAD]


def measure(
    task: str,
    attention: str,
    embedding: float,
    deviation: float,
    learning_rate: float,
    steps: int,
    seed: int,
) -> dict[str, Any]:
    """Train one model.

    Args:
        task: ``numbers`` or ``copying``.
        attention: one of :data:`ATTENTIONS`.
        embedding: the standard deviation of the initial embeddings: 0.1, as in
            :class:`~companion.layers.embedding.Embedding`, or 1, as in
            ``torch.nn.Embedding``.
        deviation: that of the initial output layer: 0.2, as in
            :class:`~companion.models.luong.LuongDecoder`, or 0.07, as in
            ``torch.nn.Linear``.

    Returns:
        ``test``, the exact match on the test set for each of :data:`RANGES`, the
        ``validation_loss``, and ``ends``, the fraction of the windows of local-p whose
        centre is at an end of the source, within 2 % of its length.
    """
    model, data = build(task, attention, embedding, deviation, seed), _task(task)
    history = data.train(model, steps, learning_rate)
    ends = None
    if isinstance(model.decoder.attention, LocalP):
        found = relative_centres(model, data)
        ends = ((found - 0.5).abs() > 0.5 - _AT_AN_END).float().mean().item()
    return {
        "test": data.exact_match(model, RANGES[task]),
        "validation_loss": history[-1]["held_out_loss"],
        "ends": ends,
    }


def settings() -> list[dict[str, Any]]:
    """The settings of all runs: what :func:`measure` is called with."""
    local = [name for name in ATTENTIONS if name.startswith("local-p")]
    numbers = [
        run
        for attentions, embedding, steps, hyperparameters in [
            (
                ["general", *local],
                0.1,
                250,
                [(0.2, 0.015), (0.2, 0.03), (0.07, 0.015), (0.07, 0.03)],
            ),
            (["general", "local-p"], 1.0, 250, [(0.2, 0.03), (0.07, 0.015)]),
            (["general", "local-p"], 0.1, 500, [(0.2, 0.03), (0.07, 0.015)]),
        ]
        for deviation, rate in hyperparameters
        for run in grid(
            task="numbers",
            attention=attentions,
            embedding=embedding,
            deviation=deviation,
            learning_rate=rate,
            steps=steps,
            seed=range(3),
        )
    ]
    copying = grid(
        task="copying",
        attention=["general", "general, fed"],
        embedding=0.1,
        deviation=0.2,
        learning_rate=0.015,
        steps=1000,
        seed=range(3),
    )
    return numbers + copying
