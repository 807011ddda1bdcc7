from math import log2

import pytest
import torch
from torch import nn

from attention_course.data import manual
from attention_course.tasks import BitsPerCharacter, Copying

TRAIN, TEST = ["abcab", "bbaca", "cabba"], ["ccaba", "abcbc"]
VALIDATION = ["bcbca"]


class Copier(nn.Module):
    """Predicts the character ``distance`` positions before the target, and otherwise all equally."""

    def __init__(self, words, distance):
        super().__init__()
        self.words, self.distance = words, distance
        self.anything = nn.Parameter(torch.zeros(()))

    def forward(self, tokens):
        logits = torch.zeros(*tokens.shape, self.words) + self.anything
        found = tokens[:, : tokens.shape[1] + 1 - self.distance]
        logits[:, self.distance - 1 :].scatter_(-1, found[..., None], 50.0)
        return logits


@pytest.mark.parametrize("gap", [1, 3])
def test_a_passage_is_followed_by_its_copy(gap):
    task = Copying(TRAIN, VALIDATION, TEST, gap)
    tokens = task.collate(TRAIN[:2])
    assert tokens.shape == (2, 10 + gap)
    text = task.characters.decode(tokens[0])
    assert text == [*"abcab", *["<again>"] * gap, *"abcab"]


def test_bits_of_new_and_copied_characters():
    task = Copying(TRAIN, VALIDATION, TEST, gap=2)
    words = len(task.characters)
    new, copied = task.bits_per_character(Copier(words, distance=7))
    assert new == pytest.approx(log2(words))
    assert copied == pytest.approx(0, abs=1e-6)
    assert task.bits_per_character(Copier(words, distance=6)).copied > 10


def test_bits_are_measured_without_dropout():
    task = Copying(TRAIN, VALIDATION, TEST)
    model = nn.Sequential(Copier(len(task.characters), distance=6), nn.Dropout(0.9))
    assert task.bits_per_character(model) == task.bits_per_character(model[0])
    assert model.training


def test_the_history_has_the_validation_bits_of_both_parts():
    task = Copying(TRAIN, VALIDATION, TEST)
    model = nn.Sequential(
        nn.Embedding(len(task.characters), 8), nn.Linear(8, len(task.characters))
    )
    record = task.train(model, steps=2)[-1]
    measured = task.bits_per_character(model, VALIDATION)
    assert BitsPerCharacter(record["new"], record["copied"]) == measured
    assert measured != task.bits_per_character(model)


def test_passages_of_different_lengths_are_an_error():
    with pytest.raises(ValueError, match=r"one length, .* not \[4, 5\]"):
        Copying(TRAIN, VALIDATION, ["abca"])
    with pytest.raises(ValueError, match=r"one length, .* not \[4, 5\]"):
        Copying(TRAIN, ["abca"], TEST)


@pytest.mark.parametrize("length", [0, 1])
def test_passages_of_fewer_than_two_characters_are_an_error(length):
    """Nothing predicts the first character, so there must be a second."""
    with pytest.raises(ValueError, match=rf"at least 2, not \[{length}\]"):
        Copying(["a" * length], ["c" * length], ["b" * length])


def test_passages_are_whole_and_do_not_overlap():
    assert manual.passages(["abcdefgh", "ijk", "lm"], 3) == ["abc", "def", "ijk"]


def test_the_manual_has_one_line_a_text_and_is_long():
    texts = manual.texts()
    assert sum(map(len, texts)) > 300_000
    assert all(text == " ".join(text.split()) for text in texts)
