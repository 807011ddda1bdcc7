"""The study of chapter 6: small Transformers on number words, and what each head is worth.

All runs take about two minutes on one CPU core.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from attention_course.data.vocabulary import PAD, pad
from attention_course.studies.recording import grid
from attention_course.tasks.number_translation import (
    exact_match_by_length,
    short_numbers,
)
from attention_course.tasks.translation import TranslationTask
from companion.attention.multihead import MultiHeadAttention
from companion.attention.recording import record_weights
from companion.models.seq2seq import EncoderDecoder
from companion.models.transformer import Transformer

TITLE = "Chapter 6: Transformers translate number words, whole and without one head"
_LAYERS, _HEADS = 2, 4


@cache
def _task() -> TranslationTask:
    return short_numbers()


def build(task: TranslationTask, seed: int) -> Transformer:
    """An untrained Transformer with two layers on each side and four heads."""
    torch.manual_seed(seed)
    return Transformer(
        len(task.source),
        len(task.target),
        d_model=64,
        heads=_HEADS,
        d_ff=256,
        layers=_LAYERS,
        dropout=0.0,
        pad=PAD,
    )


@torch.no_grad()
def weight_on_the_ten(
    task: TranslationTask, model: EncoderDecoder
) -> Float[Tensor, "layers heads"]:
    """Of each head: mean weight on the English ten, before *quatre* of *quatre-vingt*."""
    found = []
    for pair in [*task.validation_pairs, *task.test_pairs]:
        tens = [j for j, word in enumerate(pair.source) if word in ("eighty", "ninety")]
        quatres = [
            i
            for i in range(len(pair.target) - 1)
            if pair.target[i : i + 2] == ("quatre", "vingt")
        ]
        if tens and len(tens) == len(quatres):
            target = task.target.encode(("<bos>", *pair.target))
            with record_weights(model.eval()) as maps:
                model(pad([task.source.encode(pair.source)]), pad([target]))
            layers = torch.stack(
                [
                    maps[f"decoder.layers.{i}.source_attention.attention"][0][0]
                    for i in range(_LAYERS)
                ]
            )  # (layers, heads, target, source)
            found += [layers[:, :, i, j] for i, j in zip(quatres, tens, strict=True)]
    return torch.stack(found).mean(0)


@contextmanager
def without(attention: MultiHeadAttention, head: int) -> Iterator[None]:
    """Meanwhile one head adds nothing: its rows of W^O, columns of ``W_O.weight``, are zero."""
    size = attention.W_O.in_features // attention.heads
    columns = attention.W_O.weight.data[:, size * head : size * (head + 1)]
    before = columns.clone()
    columns.zero_()
    try:
        yield
    finally:
        columns.copy_(before)


def match_without(
    task: TranslationTask, model: EncoderDecoder, layer: int, head: int
) -> float:
    """The exact match on the test set without one head of cross-attention."""
    with without(model.decoder.layers[layer].source_attention, head):
        return task.exact_match(model, [(1, 20)])[0]


def measure(seed: int) -> dict[str, list[Any]]:
    """Train one model for 450 steps, and examine its heads of cross-attention.

    Returns:
        ``history``, the validation loss after every 50 steps; ``test``, the exact match of
        all numbers and by their length; and for each layer and head the weight
        ``on_the_ten`` and the exact match ``without`` it.
    """
    task, model = _task(), build(_task(), seed)
    history = task.train(model, 450, 0.005)
    return {
        "history": [{x: one[x] for x in ("step", "held_out_loss")} for one in history],
        "test": exact_match_by_length(task, model),
        "on_the_ten": weight_on_the_ten(task, model).tolist(),
        "without": [
            [match_without(task, model, layer, head) for head in range(_HEADS)]
            for layer in range(_LAYERS)
        ],
    }


def settings() -> list[dict[str, Any]]:
    """The settings of all runs: what :func:`measure` is called with."""
    return grid(seed=range(3))
