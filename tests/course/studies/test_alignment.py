"""The study of chapter 2 on attention weights: encoders, two kinds of French, and *cent*."""

import pytest
import torch

from attention_course.data.vocabulary import PAD
from attention_course.studies import alignment
from attention_course.studies.alignment import (
    ENCODERS,
    EmbeddingEncoder,
    build,
    numbers_in,
    weights_of_cent,
)
from attention_course.tasks.translation import Translation, TranslationTask


@pytest.fixture(scope="module")
def small():
    """A task with few pairs."""
    task = numbers_in("usual")
    return TranslationTask(
        task.training_pairs[:64], task.validation_pairs[:4], task.test_pairs[:20]
    )


def test_a_word_s_state_depends_on_no_neighbour():
    encoder = EmbeddingEncoder(9, 6)
    states, mask = encoder(torch.tensor([[4, 5, 6], [7, 5, PAD]]))
    assert mask.tolist() == [[True] * 3, [True, True, False]]
    assert torch.equal(states[0, 1], states[1, 1])
    assert not torch.equal(states[0, 0], states[1, 0])
    again, _ = encoder(torch.tensor([[5, 4, 6]]))
    assert not torch.equal(again[0, 0], states[0, 1])  # another position


def test_french_without_plurals_differs_in_plurals_alone():
    usual, singular = (
        [pair.target for pair in numbers_in(french).test_pairs]
        for french in alignment.FRENCH
    )
    changed = {
        words
        for one, other in zip(usual, singular, strict=True)
        for words in zip(one, other, strict=True)
        if words[0] != words[1]
    }
    assert dict(changed) == alignment._SINGULAR


def test_cent_is_measured_on_hundred_and_on_the_three_words_after_it():
    source = ("two", "hundred", "and", "ninety", "seven")
    target = ("deux", "cent", "quatre", "vingt", "dix", "sept")
    weights = torch.zeros(7, 5)
    weights[1] = torch.tensor([0.1, 0.2, 0.3, 0.15, 0.25])
    found = weights_of_cent([Translation(source, target, weights)])
    torch.testing.assert_close(found, torch.tensor([[0.2, 0.7]]))


def test_a_hundred_at_the_end_is_not_measured():
    middle = Translation(("hundred", "and", "forty", "two"), ("cent",), torch.eye(1, 4))
    end = Translation(("two", "hundred"), ("deux", "cents"), torch.eye(2))
    assert len(weights_of_cent([middle, end])) == 1


@pytest.mark.parametrize("encoder", ENCODERS)
def test_a_model_repeats_by_its_seed(encoder, small):
    first, again, other = (
        build(encoder, small, seed).decoder.attention.v for seed in (0, 0, 1)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
