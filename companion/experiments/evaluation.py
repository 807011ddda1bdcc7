"""The figures of a translation model on the test set."""

from typing import Any

from sacrebleu.metrics.bleu import BLEU

from companion.data.batching import in_order
from companion.decoding.beam import beam_search
from companion.decoding.hypotheses import Hypotheses
from companion.decoding.sampling import greedy
from companion.decoding.state import map_state
from companion.experiments.corpus import TEST, Corpus
from companion.tasks.translation import Search, translate
from companion.training.losses import free_running_loss, loss_and_perplexity

_MAX_LENGTH = 60


def evaluate(
    model: Any, corpus: Corpus, batch_size: int, beam: int, length_penalty: float
) -> tuple[dict[str, Any], list[str]]:
    """Loss, perplexity and BLEU on the test set.

    Args:
        model: an encoder and decoder.
        corpus: the data.
        batch_size: the sentences in a batch for the losses.
        beam: the width of the beam search.
        length_penalty: that of the beam search.

    Returns:
        The figures, and the translations by beam search. ``free_running`` is
        :func:`~companion.training.losses.free_running_loss`, which the best-known
        tutorials report.

    Raises:
        ValueError: the batch size or the beam is below 1, or the length penalty below
            0.
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
    return loss_and_perplexity(model, batches) | free_running | bleu, widely


def translate_test(model: Any, corpus: Corpus, search: Search) -> list[str]:
    """The translation of each test sentence: its tokens, joined by spaces."""
    found = translate(
        model, [source for source, _ in corpus.pairs[TEST]], search, _MAX_LENGTH
    )
    return [" ".join(corpus.target.decode(tokens)) for tokens, _ in found]


def best_of_beam(width: int, length_penalty: float) -> Search:
    """A beam search that returns the best sentence only."""

    def search(step: Any, state: Any, max_length: int) -> Hypotheses:
        found = beam_search(step, state, max_length, width, length_penalty)
        return map_state(lambda tensor: tensor[:, 0], found)

    return search


def score(translations: list[str], references: list[str]) -> dict[str, Any]:
    """BLEU of lower-case spaCy tokens, as in the tutorials, with its signature."""
    metric = BLEU(lowercase=True, tokenize="none", force=True)
    bleu = metric.corpus_score(translations, [references]).score
    return {"bleu": bleu, "signature": str(metric.get_signature())}
