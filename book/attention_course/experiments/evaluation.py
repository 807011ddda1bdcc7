"""The figures of a translation model on the test set."""

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from attention_course.data.batching import in_order
from attention_course.data.vocabulary import BOS, UNK, pad
from attention_course.experiments.corpus import TEST, Corpus
from attention_course.experiments.sentences import TEXTS, packed
from attention_course.tasks.translation import Search, translate
from attention_course.training.losses import (
    evaluating,
    free_running_loss,
    loss_and_perplexity,
)
from companion._checks import needs_extra
from companion.attention.recording import record_weights
from companion.decoding.beam import beam_search
from companion.decoding.hypotheses import Hypotheses
from companion.decoding.sampling import greedy
from companion.decoding.state import map_state

with needs_extra("experiments"):
    from sacrebleu.metrics.bleu import BLEU

_MAX_LENGTH = 60
_Rule = Callable[[Sequence[str]], bool]

#: For each rule the first test sentence without unknown words is shown. There are rules
#: for six lengths, a German compound, and a clause that has its verb at the end.
RULES: tuple[_Rule, ...] = (
    *((lambda words, n=n: len(words) == n) for n in (5, 7, 10, 13, 16, 25)),
    lambda words: len(words) <= 12 and max(map(len, words), default=0) >= 16,
    lambda words: len(words) <= 12 and "während" in words,
)


def evaluate(
    model: Any, corpus: Corpus, batch_size: int, beam: int, length_penalty: float
) -> tuple[dict[str, Any], list[str], list[dict[str, Any]]]:
    """Loss, perplexity and BLEU on the test set, and some of its sentences.

    Args:
        model: an encoder and decoder.
        batch_size: the sentences in a batch for the losses.
        beam: the width of the beam search.
        length_penalty: that of the beam search.

    Returns:
        The figures, the translations by beam search, and the sentences that
        :func:`describe` describes. ``free_running`` is
        :func:`~attention_course.training.losses.free_running_loss`, which the best-known
        tutorials report.
    """
    batches = [batch for _, batch in in_order(corpus.pairs[TEST], batch_size)]
    greedily = translate_test(model, corpus, greedy)
    widely = translate_test(model, corpus, best_of_beam(beam, length_penalty))
    bleu = {
        "greedy": score(greedily, corpus.references),
        "beam": score(widely, corpus.references),
    }
    free_running = {
        "free_running": loss_and_perplexity(model, batches, free_running_loss)
    }
    figures = loss_and_perplexity(model, batches) | free_running | bleu
    return figures, widely, describe(model, corpus, greedily, widely)


def translate_test(model: Any, corpus: Corpus, search: Search) -> list[str]:
    """The translation of each test sentence: its tokens, joined by spaces."""
    found = translate(
        model, [source for source, _ in corpus.pairs[TEST]], search, _MAX_LENGTH
    )
    return [" ".join(corpus.target.decode(tokens)) for tokens, _ in found]


def best_of_beam(width: int, length_penalty: float) -> Search:
    """A beam search that returns the best sentence only."""

    def search(step: Any, state: Any, max_length: int, **marks: Any) -> Hypotheses:
        found = beam_search(step, state, max_length, width, length_penalty, **marks)
        return map_state(lambda tensor: tensor[:, 0], found)

    return search


def score(translations: list[str], references: list[str]) -> dict[str, Any]:
    """BLEU of lower-case spaCy tokens, as in the tutorials, with its signature."""
    metric = BLEU(lowercase=True, tokenize="none", force=True)
    bleu = metric.corpus_score(translations, [references]).score
    return {"bleu": bleu, "signature": str(metric.get_signature())}


def choose(sentences: Sequence[Sequence[str]]) -> list[int]:
    """The indices of the sentences to show: for each of :data:`RULES` the first new one.

    A rule that no sentence satisfies is left out.
    """
    chosen: list[int] = []
    for rule in RULES:
        fitting = (
            index
            for index, words in enumerate(sentences)
            if index not in chosen and rule(words)
        )
        chosen.extend(islice(fitting, 1))
    return chosen


def describe(
    model: Any, corpus: Corpus, greedily: Sequence[str], widely: Sequence[str]
) -> list[dict[str, Any]]:
    """The chosen test sentences, their translations, and the weights of the greedy ones.

    Args:
        model: an encoder and decoder.
        greedily, widely: the translation of each test sentence by greedy search and by
            beam search.

    Returns:
        For each sentence its index in the test set; ``source``, ``reference``,
        ``greedy`` and ``beam``, tokens with spaces between them; and ``weights`` as
        :func:`~attention_course.experiments.sentences.weights_of`
        reads them, or ``None`` for a model without attention.
    """
    pairs = corpus.pairs[TEST]
    known = [
        [] if UNK in [*source, *target] else corpus.source.decode(source)
        for source, target in pairs
    ]
    described = []
    for index in choose(known):
        written = corpus.target.encode(greedily[index].split())
        weights = attended(model, pairs[index][0], written)
        texts = " ".join(known[index]), corpus.references[index]
        described.append(
            {"index": index}
            | dict(zip(TEXTS, (*texts, greedily[index], widely[index]), strict=True))
            | {"weights": None if weights is None else packed(weights)}
        )
    return described


@torch.no_grad()
def attended(
    model: Any, source: Sequence[int], target: Sequence[int]
) -> Float[Tensor, "l h t k"] | None:
    """The weights over the source, in each layer and head, for each word and the end."""
    device = next(model.parameters()).device
    fed = pad([[BOS, *target]]).to(device)
    with evaluating(model), record_weights(model.decoder) as maps:
        model(pad([source]).to(device), fed)
    layers = [
        torch.cat(maps[name], -2).flatten(0, -3).cpu()
        for name, module in model.decoder.named_modules()
        if maps.get(name) and not module.causal
    ]
    return torch.stack(layers) if layers else None
