"""The second study of chapter 11: which decoder layers attend, on real sentences.

Two ConvS2S of four layers, of which all or only the first attend to the source, translate
Multi30k from German to English. Of each:

- the perplexity, and BLEU with greedy decoding;
- the perplexity without the context of one layer, in the trained model;
- how often the source word with the largest weight is the word that decides. For every token
  of the reference, each source word is replaced by ``<unk>``. If that makes the token half as
  probable or less, the word whose replacement hurts most *decides* the token.

Both runs take about twelve minutes on one CPU core.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from attention_course.data.batching import Batches, Encoded, in_order
from attention_course.data.vocabulary import BOS, EOS, UNK
from attention_course.studies.convs2s import build, parameter_count
from attention_course.studies.recording import check_choice, grid
from attention_course.training.losses import loss_and_perplexity, sequence_loss
from attention_course.training.recipe import train
from companion.attention.recording import record_weights
from companion.decoding.sampling import greedy
from companion.models.seq2seq import EncoderDecoder

TITLE = "Chapter 11: Multi30k, with attention in all layers of the decoder or in one"
LAYERS = 4  # on each side
ATTENDING = ("1 2 3 4", "1")


@contextmanager
def without_context(model: EncoderDecoder, layer: int) -> Iterator[None]:
    """A model one of whose layers, counted from 1, adds no context: W_c is zero."""
    norms = model.decoder.layers[layer - 1].W_c.g
    before = norms.detach().clone()
    with torch.no_grad():
        norms.zero_()
    try:
        yield
    finally:
        with torch.no_grad():
            norms.copy_(before)


@torch.no_grad()
def weights_and_effects(
    model: EncoderDecoder, source: Sequence[int], target: Sequence[int]
) -> tuple[Float[Tensor, "l t k"], Float[Tensor, "t k"]]:
    """The weights of all attending layers, and what each source word does to each token.

    The effect is how much the logarithm of a token's probability falls if the word is
    replaced by ``<unk>``.
    """
    sources = torch.tensor([source] * (len(source) + 1))
    sources[1:].fill_diagonal_(UNK)
    fed = torch.tensor([[BOS, *target]]).expand(len(sources), -1)
    labels = torch.tensor([*target, EOS]).expand(len(sources), -1)[..., None]
    with record_weights(model.eval().decoder) as maps:
        logits = model(sources, fed)
    found = logits.log_softmax(-1).gather(-1, labels)[..., 0]  # (k + 1, t)
    weights = torch.stack([layer[0][0] for layer in maps.values() if layer])
    return weights, (found[0] - found[1:]).T


def agreement(
    model: EncoderDecoder, pairs: Sequence[Encoded]
) -> dict[str, float | list[float]]:
    """How often the largest weight is on the word that decides.

    Returns:
        the proportion of ``decided`` tokens; and among these, of each ``layer``, of the
        ``mean`` of the layers' weights, of ``any`` layer, and of a random word (``chance``).
    """
    decided, tokens, chance = 0, 0, 0.0
    right = torch.zeros(sum(layer.attends for layer in model.decoder.layers))
    averaged, somewhere = 0, 0
    for source, target in pairs:
        weights, effects = weights_and_effects(model, source, target)
        largest, word = effects.max(-1)
        chosen = largest >= math.log(2)
        hits = weights.argmax(-1)[:, chosen] == word[chosen]  # (l, decided)
        right += hits.sum(1)
        somewhere += int(hits.any(0).sum())
        averaged += int((weights.mean(0).argmax(-1) == word)[chosen].sum())
        decided, tokens = decided + int(chosen.sum()), tokens + len(chosen)
        chance += int(chosen.sum()) / len(source)
    return {
        "decided": decided / tokens,
        "layer": (right / decided).tolist(),
        "mean": averaged / decided,
        "any": somewhere / decided,
        "chance": chance / decided,
    }


def measure(
    attending: str, dim: int, steps: int, learning_rate: float, seed: int
) -> dict[str, Any]:
    """Train one model, and look inside.

    Args:
        attending: which layers of the decoder attend, one of :data:`ATTENDING`.
        dim: of embeddings and layers.
        steps, learning_rate: of the training, in batches of 64 pairs.

    Returns:
        ``parameters``; the perplexity of the ``validation`` set; ``perplexity`` and ``bleu``
        of the test set; ``without``, the perplexity without the context of each attending
        layer; and the :func:`agreement`.
    """
    check_choice("attending", attending, ATTENDING)
    from attention_course.experiments import corpus as corpora
    from attention_course.experiments.evaluation import score, translate_test

    corpus = corpora.load_corpus(None)
    layers = [int(layer) for layer in attending.split()]
    words = len(corpus.source), len(corpus.target)
    model = build(*words, dim, LAYERS, LAYERS, layers, seed, dropout=0.2)
    validation, test = (
        [batch for _, batch in in_order(corpus.pairs[split], 64)]
        for split in (corpora.VALIDATION, corpora.TEST)
    )
    batches = Batches(corpus.pairs[corpora.TRAINING], 64, seed)
    train(model, sequence_loss, batches, steps, learning_rate)
    model.eval()
    removed = []
    for layer in layers:
        with without_context(model, layer):
            removed.append(loss_and_perplexity(model, test)["perplexity"])
    translations = translate_test(model, corpus, greedy)
    return {
        "parameters": parameter_count(model),
        "validation": loss_and_perplexity(model, validation)["perplexity"],
        "perplexity": loss_and_perplexity(model, test)["perplexity"],
        "bleu": score(translations, corpus.references)["bleu"],
        "without": removed,
        "agreement": agreement(model, corpus.pairs[corpora.TEST]),
    }


def settings() -> list[dict[str, Any]]:
    """The settings of all runs: what :func:`measure` is called with."""
    return grid(attending=ATTENDING, dim=128, steps=1362, learning_rate=0.002, seed=0)
