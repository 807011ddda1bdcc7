"""What chapters 5, 6 and 11 compare by: one task, one recurrent model, one table."""

from collections.abc import Mapping, Sequence

import torch
from torch import nn

from companion.attention.scores import Bilinear
from companion.data import numbers
from companion.models.luong import LuongDecoder, LuongEncoder
from companion.models.seq2seq import EncoderDecoder
from companion.tasks.translation import TranslationTask

#: Ranges of French words, by which a share is split; no number below a billion has more than 20.
LENGTH_RANGES = ((1, 4), (5, 8), (9, 12), (13, 16), (17, 20))


def short_numbers(most_words: int = 20) -> TranslationTask:
    """English numbers below a billion and the French for them, of at most so many French words.

    All of them are 9,989 pairs to learn from, some more than once, and 432 held out.

    Raises:
        ValueError: no number has so few words, or too few to hold any out.
    """
    pairs = [
        pair for pair in numbers.french_pairs(20_000, seed=0) if pair.number < 10**9
    ]
    few_words = [pair for pair in pairs if len(pair.target) <= most_words]
    return TranslationTask(*numbers.split(few_words, share=0.05, seed=0))


def luong_general(task: TranslationTask, seed: int = 0) -> EncoderDecoder:
    """Luong's general attention between two LSTMs of one layer with 64 features; chapter 5 trains it.

    It learns :func:`short_numbers` in 250 steps at a learning rate of 0.015.
    """
    torch.manual_seed(seed)
    return EncoderDecoder(
        LuongEncoder(len(task.source), 32, 64, layers=1),
        LuongDecoder(len(task.target), 32, 64, Bilinear(64, 64), layers=1),
    )


def exact_match_by_length(task: TranslationTask, model: nn.Module) -> list[float]:
    """The share of held-out numbers without a mistake: of all, then of each of :data:`LENGTH_RANGES`.

    Raises:
        ValueError: the task holds out no number of one of these lengths.
    """
    return task.exact_match(model, [(1, 20), *LENGTH_RANGES])


def exact_match_table(matches: Mapping[str, Sequence[Sequence[float]]]) -> str:
    """A row for each model, in percent: each seed's share of faultless numbers, and their mean by length.

    ``matches`` has for each model a list of what :func:`faultless` returns, one for each seed.
    """
    names = max(map(len, ("faultless, %", *matches)))
    seeds = max([len("each seed"), *(4 * len(runs) - 1 for runs in matches.values())])
    ranges = "".join(f"{f'{least}–{most}':>7}" for least, most in LENGTH_RANGES)
    lines = [
        f"{'faultless, %':>{names}}  {'each seed':<{seeds}} | mean by French words",
        f"{'':>{names}}  {'':<{seeds}} |{ranges}",
    ]
    for name, runs in matches.items():
        each = " ".join(f"{100 * run[0]:3.0f}" for run in runs)
        means = "".join(
            f"{100 * share:7.0f}" for share in torch.tensor(runs).mean(0)[1:]
        )
        lines.append(f"{name:>{names}}: {each:<{seeds}} |{means}")
    return "\n".join(lines)
