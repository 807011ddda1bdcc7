"""What the drawings of chapter 1 compute: a beam search, and sentences in one vector."""

import re

import pytest

from attention_course.data import numbers
from attention_course.diagrams import seq2seq
from tests.course.diagrams.test_drawing import elements, texts


def test_the_words_are_the_task_s():
    shown = texts(seq2seq.encoder_decoder())
    assert {*numbers.english_words(180), *numbers.french_words(180)} <= set(shown)
    shown = texts(seq2seq.sutskever())
    reading = [word for word in shown if word in numbers.english_words(97)]
    assert reading == list(reversed(numbers.english_words(97)))
    assert set(numbers.french_words(97)) <= set(shown)


def test_the_sentences_have_5_and_25_words():
    drawing = seq2seq.bottleneck()
    shown = " ".join(texts(drawing))
    assert "5 words: 2 components each" in shown
    assert "25 words: 0.4 components each" in shown
    shapes = elements(drawing, "rect")
    assert sum(rect.get("width") == "6" for rect in shapes) == 30  # a bar for each word


def probabilities(text):
    return [float(number) for number in re.findall(r"\d+\.\d+", text)]


@pytest.mark.parametrize(("row", "tokens"), [(-1, "S B E K"), (-2, "S A C H")])
def test_the_product_is_that_of_the_factors(row, tokens):
    shown = texts(seq2seq.beam_tree())
    first, second, third, product = probabilities(shown[3 * row + 2])
    assert shown[3 * row + 1] == tokens
    assert product == pytest.approx(first * second * third, rel=1e-3)


def test_the_beam_keeps_the_two_best_of_each_step():
    drawing = seq2seq.beam_tree()
    kept = [rect for rect in elements(drawing, "rect") if rect.get("width") == "62"]
    dashed = [rect for rect in kept if rect.get("stroke-dasharray")]
    assert len(kept) - len(dashed) == 1 + 3 * 2
    assert "finds S B E K, with 0.288" in drawing.description
    assert "follows S A C H, with probability 0.198" in drawing.description
