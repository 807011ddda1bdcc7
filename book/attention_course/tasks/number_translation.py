"""Translation of number words: the tasks and models of chapters 1, 2, 5, 6 and 11."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from attention_course.data import numbers
from attention_course.data.vocabulary import PAD
from attention_course.tasks.translation import TranslationTask
from companion.attention.additive import Additive
from companion.attention.base import Attention
from companion.attention.scores import Bilinear
from companion.layers.positional_encoding import SinusoidalPositionalEncoding
from companion.layers.residual import PostNorm, PreNorm
from companion.models.bahdanau import BahdanauDecoder, BahdanauEncoder
from companion.models.luong import LuongDecoder, LuongEncoder
from companion.models.seq2seq import EncoderDecoder
from companion.models.transformer import (
    TransformerDecoder,
    TransformerDecoderLayer,
    TransformerEncoder,
    TransformerEncoderLayer,
)

#: The ranges of French words by which exact match is split. No number below a billion
#: has more than 20.
LENGTH_RANGES = ((1, 4), (5, 8), (9, 12), (13, 16), (17, 20))
#: Features of a word, and units of the scoring network, in chapter 2.
WORD_SIZE, SCORING_UNITS = 32, 32


def french_numbers() -> TranslationTask:
    """The task of translating English numbers of up to twelve digits into French.

    Chapters 1 and 2 have it: 28,800 training pairs, 535 for validation and 534 for the
    test.
    """
    pairs = numbers.french_pairs(30_000, seed=0)
    return TranslationTask(*numbers.split(pairs, fraction=0.04, seed=0))


def short_numbers(most_words: int = 20) -> TranslationTask:
    """The task of translating English numbers below a billion into French.

    Without a limit these are 9,989 training pairs, some of them repeated, and 216 pairs
    each for validation and test.

    Args:
        most_words: the most French words that a number may have.
    """
    pairs = [
        pair for pair in numbers.french_pairs(20_000, seed=0) if pair.number < 10**9
    ]
    few_words = [pair for pair in pairs if len(pair.target) <= most_words]
    return TranslationTask(*numbers.split(few_words, 0.05, seed=0))


def bahdanau_translator(
    source: int,
    target: int,
    encoder: Callable[..., nn.Module] = BahdanauEncoder,
    decoder: type[BahdanauDecoder] = BahdanauDecoder,
    attention: Attention | None = None,
    units: int = 64,
) -> EncoderDecoder:
    """Bahdanau's model as chapter 2 trains it, or with other parts of the same sizes.

    Args:
        source, target: the sizes of the vocabularies.
        encoder, decoder: build the two from their sizes.
        attention: what the decoder attends with; additive attention by default. One that is
            given was initialised before the encoder, the default is after it.
        units: of each direction of the encoder, and of the decoder.
    """
    reader = encoder(source, WORD_SIZE, units, pad=PAD)
    if attention is None:
        attention = Additive(units, 2 * units, SCORING_UNITS)
    writer = decoder(target, WORD_SIZE, units, 2 * units, attention)
    return EncoderDecoder(reader, writer)


def luong_general(
    task: TranslationTask, seed: int = 0, hidden: int = 64
) -> EncoderDecoder:
    """Luong's general attention between two LSTMs, as in the studies of chapter 5.

    The LSTMs have one layer. With 64 features the model learns :func:`short_numbers` in
    250 steps at a learning rate of 0.015.
    """
    torch.manual_seed(seed)
    return EncoderDecoder(
        LuongEncoder(len(task.source), 32, hidden, layers=1, pad=PAD),
        LuongDecoder(len(task.target), 32, hidden, Bilinear(hidden, hidden), layers=1),
    )


def narrow_transformer(
    task: TranslationTask,
    residual: type[PostNorm | PreNorm] = PostNorm,
    position: Callable[[], nn.Module] = SinusoidalPositionalEncoding,
    layers: int = 2,
    d_model: int = 64,
    seed: int = 0,
) -> EncoderDecoder:
    """A small Transformer for number words: four heads, no dropout.

    With the default parts it is the paper's.

    Args:
        task: has the two vocabularies.
        residual: where each sub-layer normalises.
        position: makes the position encoding, one for each side.
        layers: of the encoder, and of the decoder.
        d_model: the dimensions of a token's vector; the feed-forward layers have four times
            as many.
        seed: the random seed of the initialisation.
    """
    torch.manual_seed(seed)
    shape: dict[str, Any] = {
        "d_model": d_model,
        "heads": 4,
        "d_ff": 4 * d_model,
        "dropout": 0.0,
    }
    encoder = TransformerEncoder(
        len(task.source),
        [TransformerEncoderLayer(**shape, residual=residual) for _ in range(layers)],
        0.0,
        position(),
        pad=PAD,
    )
    decoder = TransformerDecoder(
        len(task.target),
        [TransformerDecoderLayer(**shape, residual=residual) for _ in range(layers)],
        0.0,
        position(),
        pad=PAD,
    )
    return EncoderDecoder(encoder, decoder)


def exact_match_by_length(task: TranslationTask, model: nn.Module) -> list[float]:
    """The exact match on the test set: of all numbers, then of each range of lengths.

    Args:
        task: the task, with its test set.

    Returns:
        One fraction for all, and one for each of :data:`LENGTH_RANGES`.
    """
    return task.exact_match(model, [(1, 20), *LENGTH_RANGES])
