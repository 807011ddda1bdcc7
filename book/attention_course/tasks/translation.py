"""Translation as a task: vocabularies, batches, a training recipe, and a score."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from jaxtyping import Float
from torch import Tensor

from attention_course.data.batching import Batches, in_order
from attention_course.data.numbers import Pair
from attention_course.data.vocabulary import BOS, EOS, MARKS, PAD, Vocabulary, pad
from attention_course.training import recipe
from attention_course.training.losses import (
    Record,
    evaluating,
    loss_and_perplexity,
    sequence_loss,
)
from companion.decoding.hypotheses import Hypotheses
from companion.decoding.sampling import greedy

#: From a step function, a state and ``max_length`` to one sentence for each source.
Search = Callable[..., Hypotheses]
AT_ONCE = 256  #: the most sentences that are translated together


class Translation(NamedTuple):
    """A sentence, its translation, and the attention weights of each target token.

    The weights include a row for ``<eos>`` if the model wrote it. They are ``None`` for
    a model that reports none.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    weights: Float[Tensor, "t k"] | None


def translate(
    model: Any, sources: Sequence[Sequence[int]], search: Search, max_length: int
) -> list[tuple[list[int], Float[Tensor, "t k"] | None]]:
    """The tokens that a search finds for each source, and their attention weights.

    Args:
        model: has ``start(source)`` and ``step(token, state)``, as
            :class:`~companion.models.seq2seq.EncoderDecoder`.
        sources: the sentences as token ids, without padding.
        search: ``search(step, state, max_length, **MARKS)`` finds one sentence for each
            source, as :func:`~companion.decoding.sampling.greedy` does.
        max_length: the most tokens of a translation.

    Returns:
        For each source the tokens up to ``<eos>``, and the weights ``(t, k)`` if the
        model reports them.
    """
    device, translations = next(model.parameters()).device, []
    for first in range(0, len(sources), AT_ONCE):
        batch = sources[first : first + AT_ONCE]
        with evaluating(model):
            state = model.start(pad(batch).to(device))
            found = search(model.step, state, max_length, **MARKS)
        maps = None if found.weights is None else found.weights.cpu()
        for row, (source, tokens) in enumerate(
            zip(batch, found.tokens.tolist(), strict=True)
        ):
            tokens = _until_the_end(tokens)
            written = [t for t, token in enumerate(tokens) if token not in (PAD, BOS)]
            weights = None if maps is None else maps[row, written, : len(source)]
            translations.append((tokens, weights))
    return translations


def _until_the_end(tokens: list[int]) -> list[int]:
    return tokens[: tokens.index(EOS) + 1] if EOS in tokens else tokens


class TranslationTask:
    """Pairs of sentences for training, validation and test, and the exact match of models.

    It depends on no model. A model is anything with ``forward(source, target)``,
    ``start(source)`` and ``step(token, state)``, as
    :class:`~companion.models.seq2seq.EncoderDecoder`. ``source`` and ``target`` are the
    vocabularies, made from the training pairs.

    Args:
        validation: the pairs on which the loss is measured during training.
        test: the pairs for the exact match.
    """

    def __init__(
        self, train: Sequence[Pair], validation: Sequence[Pair], test: Sequence[Pair]
    ):
        self.source = Vocabulary.of(pair.source for pair in train)
        self.target = Vocabulary.of(pair.target for pair in train)
        self.training_pairs = train
        self.validation_pairs, self.test_pairs = validation, test

    def encode(self, pairs: Iterable[Pair]) -> list[tuple[list[int], list[int]]]:
        """The pairs as token ids."""
        return [
            (self.source.encode(pair.source), self.target.encode(pair.target))
            for pair in pairs
        ]

    def train(
        self, model: Any, steps: int, learning_rate: float = 1e-2
    ) -> list[Record]:
        """Train by the book's recipe, with batches of 64.

        Returns:
            A record every 50 steps, with the loss on the validation set.
        """
        batches = Batches(self.encode(self.training_pairs), batch_size=64, seed=0)
        validation = [
            batch for _, batch in in_order(self.encode(self.validation_pairs), AT_ONCE)
        ]
        return recipe.train(
            model,
            sequence_loss,
            batches,
            steps,
            learning_rate,
            lambda model: loss_and_perplexity(model, validation),
        )

    def translate(
        self, model: Any, sentences: Sequence[Sequence[str]], max_length: int = 60
    ) -> list[Translation]:
        """The translation of each sentence by greedy decoding."""
        sources = [self.source.encode(sentence) for sentence in sentences]
        found = translate(model, sources, greedy, max_length)
        return [
            Translation(tuple(sentence), tuple(self.target.decode(tokens)), weights)
            for sentence, (tokens, weights) in zip(sentences, found, strict=True)
        ]

    def exact_match(
        self, model: Any, lengths: Iterable[tuple[int, int]]
    ) -> list[float]:
        """The fraction of test pairs translated exactly, by range of target lengths.

        Args:
            lengths: the shortest and the longest target of each range, both included.
        """
        found = self.translate(model, [pair.source for pair in self.test_pairs])
        correct = {
            pair: pair.target == translation.target
            for pair, translation in zip(self.test_pairs, found, strict=True)
        }
        matches = []
        for shortest, longest in lengths:
            in_range = [
                hit
                for pair, hit in correct.items()
                if shortest <= len(pair.target) <= longest
            ]
            if not in_range:
                raise ValueError(f"no test pair has {shortest} to {longest} words")
            matches.append(sum(in_range) / len(in_range))
        return matches
