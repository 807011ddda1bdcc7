"""The figures of a translator on the test split."""

from typing import Any

from sacrebleu.metrics import BLEU

from companion.data.batching import in_order
from companion.decoding.beam import beam_search
from companion.decoding.hypotheses import Hypotheses
from companion.decoding.sampling import greedy
from companion.decoding.state import map_state
from companion.experiments.corpus import TEST, Corpus
from companion.tasks.translation import Search, translate
from companion.training.losses import free_running_loss, held_out

_MAX_LENGTH = 60


def evaluate(
    model: Any, corpus: Corpus, batch_size: int, beam: int, length_penalty: float
) -> tuple[dict[str, Any], list[str]]:
    """Losses and perplexities, BLEU of greedy and of beam search; and the translations of the latter.

    ``free_running`` is :func:`companion.training.losses.free_running_loss`, which the best-known tutorials report.

    Raises:
        ValueError: the batch size or the beam is below 1, or the length penalty below 0.
    """
    batches = [batch for _, batch in in_order(corpus.pairs[TEST], batch_size)]
    greedily = translate_test(model, corpus, greedy)
    widely = translate_test(model, corpus, best_of_beam(beam, length_penalty))
    bleu = {
        "greedy": score(greedily, corpus.references),
        "beam": score(widely, corpus.references),
    }
    free_running = {"free_running": held_out(model, batches, free_running_loss)}
    return held_out(model, batches) | free_running | bleu, widely


def translate_test(model: Any, corpus: Corpus, search: Search) -> list[str]:
    """The model's translation of each test sentence, its tokens with spaces between."""
    found = translate(
        model, [source for source, _ in corpus.pairs[TEST]], search, _MAX_LENGTH
    )
    return [" ".join(corpus.target.decode(tokens)) for tokens, _ in found]


def best_of_beam(width: int, length_penalty: float) -> Search:
    """Beam search that returns the best sentence alone."""

    def search(step: Any, state: Any, max_length: int) -> Hypotheses:
        found = beam_search(step, state, max_length, width, length_penalty)
        return map_state(lambda tensor: tensor[:, 0], found)

    return search


def score(translations: list[str], references: list[str]) -> dict[str, Any]:
    """BLEU over spaCy's tokens in lower case, as in the tutorials, and sacrebleu's signature of it."""
    metric = BLEU(lowercase=True, tokenize="none", force=True)
    bleu = metric.corpus_score(translations, [references]).score
    return {"bleu": bleu, "signature": str(metric.get_signature())}
