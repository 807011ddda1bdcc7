"""A small translation task, as the chapters use it: two vocabularies, batches, a recipe, and a score."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from jaxtyping import Float
from torch import Tensor

from companion.data.batching import Batches, in_order
from companion.data.numbers import Pair
from companion.data.vocabulary import BOS, EOS, PAD, Vocabulary, pad
from companion.decoding.hypotheses import Hypotheses
from companion.decoding.sampling import greedy
from companion.training import recipe
from companion.training.losses import Record, evaluating, held_out, sequence_loss

#: From a step function, a state and ``max_length`` to one sentence for each source.
Search = Callable[..., Hypotheses]
AT_ONCE = 256  #: sentences that are translated together, at most


class Translation(NamedTuple):
    """A sentence, what a model made of it, and where each word of that looked, and ``<eos>`` if it came."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    weights: Float[Tensor, "t k"] | None


def translate(
    model: Any, sources: Sequence[Sequence[int]], search: Search, max_length: int
) -> list[tuple[list[int], Float[Tensor, "t k"] | None]]:
    """What a search finds for each source, in numbers, up to ``<eos>``; and where each token of it looked.

    ``search(step, state, max_length)`` finds one sentence for each source, as
    :func:`companion.decoding.sampling.greedy` does.

    Raises:
        ValueError: a sentence is empty, or ``max_length`` is below 1.
    """
    device = next(model.parameters()).device
    done = []
    for first in range(0, len(sources), AT_ONCE):
        part = sources[first : first + AT_ONCE]
        with evaluating(model):
            found = search(model.step, model.start(pad(part).to(device)), max_length)
        looks = None if found.weights is None else found.weights.cpu()
        for row, (source, tokens) in enumerate(
            zip(part, found.tokens.tolist(), strict=True)
        ):
            if EOS in tokens:
                tokens = tokens[: tokens.index(EOS) + 1]
            written = [
                place for place, token in enumerate(tokens) if token not in (PAD, BOS)
            ]
            done.append(
                (tokens, None if looks is None else looks[row, written, : len(source)])
            )
    return done


class TranslationTask:
    """Sentence pairs to train on, and others to test with. It knows no model.

    A model is anything with ``forward(source, target)``, ``start(source)`` and ``step(token, state)``, as in
    :class:`companion.models.seq2seq.EncoderDecoder`. ``source`` and ``target`` are the two vocabularies.
    """

    def __init__(self, train: Sequence[Pair], test: Sequence[Pair]):
        self.source = Vocabulary.of(pair.source for pair in train)
        self.target = Vocabulary.of(pair.target for pair in train)
        self.training_pairs, self.test_pairs = train, test

    def encode(self, pairs: Iterable[Pair]) -> list[tuple[list[int], list[int]]]:
        """The pairs in numbers."""
        return [
            (self.source.encode(pair.source), self.target.encode(pair.target))
            for pair in pairs
        ]

    def train(
        self, model: Any, steps: int, learning_rate: float = 1e-2
    ) -> list[Record]:
        """Follow the book's recipe, with batches of 64; the history has the held-out loss every 50 steps.

        Raises:
            ValueError, FloatingPointError: as :func:`companion.training.recipe.train`.
        """
        batches = Batches(self.encode(self.training_pairs), batch_size=64, seed=0)
        test = [batch for _, batch in in_order(self.encode(self.test_pairs), AT_ONCE)]
        return recipe.train(
            model,
            sequence_loss,
            batches,
            steps,
            learning_rate,
            lambda model: held_out(model, test),
        )

    def translate(
        self, model: Any, sentences: Sequence[Sequence[str]], max_length: int = 60
    ) -> list[Translation]:
        """Each sentence's most probable words, one after the other (greedy decoding).

        Raises:
            ValueError: as :func:`translate`.
        """
        sources = [self.source.encode(sentence) for sentence in sentences]
        found = translate(model, sources, greedy, max_length)
        return [
            Translation(tuple(sentence), tuple(self.target.decode(tokens)), weights)
            for sentence, (tokens, weights) in zip(sentences, found, strict=True)
        ]

    def exact_match(
        self, model: Any, lengths: Iterable[tuple[int, int]]
    ) -> list[float]:
        """The share of test pairs without a mistake, for each range of target lengths, both ends included.

        Raises:
            ValueError: no test pair has a length in one of the ranges.
        """
        found = self.translate(model, [pair.source for pair in self.test_pairs])
        right = {
            pair: pair.target == f.target
            for pair, f in zip(self.test_pairs, found, strict=True)
        }
        shares = []
        for shortest, longest in lengths:
            hits = [
                hit
                for pair, hit in right.items()
                if shortest <= len(pair.target) <= longest
            ]
            if not hits:
                raise ValueError(f"no test pair has {shortest} to {longest} words")
            shares.append(sum(hits) / len(hits))
        return shares
