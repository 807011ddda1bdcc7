"""The study of chapter 12 on targets that are longer than those in training, by positions.

The task, the sizes and the training are those of chapter 6's study,
:mod:`attention_course.studies.positions`; two ways to tell positions are new, both of them inside
self-attention.

All runs take about twelve minutes on one CPU core.
"""

from collections.abc import Callable
from typing import Any

import torch

from attention_course.data.vocabulary import PAD
from attention_course.studies import positions
from attention_course.studies.positions import short_targets
from attention_course.studies.recording import check_choice, grid
from attention_course.tasks.number_translation import LENGTH_RANGES
from companion.attention.base import Attention
from companion.attention.causal import CausalAttention
from companion.attention.linear_bias import ALiBi
from companion.attention.rotary import Rotary
from companion.attention.scores import ScaledDot
from companion.layers.positional_encoding import NoPositionalEncoding
from companion.models.seq2seq import EncoderDecoder
from companion.models.transformer import (
    TransformerDecoder,
    TransformerDecoderLayer,
    TransformerEncoder,
    TransformerEncoderLayer,
)

TITLE = "Chapter 12: five kinds of positions, and numbers longer than those in training"

_HEADS = 4


#: The attentions that know positions, for the encoder and for the decoder.
ATTENTIONS: dict[str, Callable[[], tuple[Attention, Attention]]] = {
    "rotary": lambda: (Rotary(ScaledDot()), Rotary(CausalAttention())),
    "ALiBi": lambda: (ALiBi(_HEADS, causal=False), ALiBi(_HEADS)),
}
#: The kinds of positions, those of chapter 6 first.
KINDS = (*positions.POSITIONS, *ATTENTIONS)


def build(kind: str, seed: int = 0) -> EncoderDecoder:
    """An untrained Transformer of chapter 6's size.

    Rotations and biases are in self-attention, on both sides. The attention over the source
    is as in chapter 6: no distance is defined between positions of two sentences.
    """
    check_choice("kind", kind, KINDS)
    if kind in positions.POSITIONS:
        return positions.build(kind, seed)
    task = short_targets()
    torch.manual_seed(seed)
    layers = [ATTENTIONS[kind]() for _ in range(2)]
    shape: dict[str, Any] = {
        "d_model": 64,
        "heads": _HEADS,
        "d_ff": 256,
        "dropout": 0.0,
    }
    encoder = [TransformerEncoderLayer(**shape, attention=both) for both, _ in layers]
    decoder = [TransformerDecoderLayer(**shape, attention=past) for _, past in layers]
    return EncoderDecoder(
        TransformerEncoder(
            len(task.source), encoder, 0.0, NoPositionalEncoding(), pad=PAD
        ),
        TransformerDecoder(
            len(task.target), decoder, 0.0, NoPositionalEncoding(), pad=PAD
        ),
    )


def measure(kind: str, steps: int, learning_rate: float, seed: int) -> dict[str, Any]:
    """Train one model; its exact match for each range of lengths.

    Returns:
        ``test``, the exact match for each of
        :data:`~attention_course.tasks.number_translation.LENGTH_RANGES`, of which the first three
        are those in training.
    """
    model = build(kind, seed)
    short_targets().train(model, steps, learning_rate)
    return {"test": short_targets().exact_match(model, LENGTH_RANGES)}


def settings() -> list[dict[str, Any]]:
    """The settings of all runs: what :func:`measure` is called with."""
    return grid(kind=[*KINDS], steps=900, learning_rate=0.005, seed=range(3))
