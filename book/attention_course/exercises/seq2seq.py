"""The exercises of chapter 1, sequence to sequence: reversal and log-probabilities."""

import torch
from torch import Tensor
from torch.nn import functional

from attention_course.data.vocabulary import PAD
from attention_course.exercises.exercise import Exercise, Inputs, normal
from attention_course.exercises.search import NUCLEUS, SCORE
from companion.layers import recurrent


def _reverse_up_to(tokens: Tensor, length: int) -> Tensor:
    """Every row reversed up to the same length."""
    return torch.cat([tokens[:, :length].flip(1), tokens[:, length:]], 1)


def _reverse_except(tokens: Tensor, first: bool) -> Tensor:
    """Reversed except for the first word, or the last."""
    lengths = (tokens != 0).sum(1).tolist()
    result = tokens.clone()
    for row, length in zip(result, lengths, strict=True):
        words = slice(1, length) if first else slice(0, length - 1)
        row[words] = row[words].flip(0)
    return result


_TOKENS = [[7, 5, 9, 2, 0, 0, 0], [4, 11, 8, 3, 6, 2, 0], [10, 2, 0, 0, 0, 0, 0]]
REVERSE = Exercise(
    inputs={"tokens": torch.tensor(_TOKENS)},
    solution=lambda tokens: recurrent.reverse(tokens, PAD),
    mistakes={
        "The padding is reversed, too, and precedes the words: it must stay at the end.": (
            lambda t: t.flip(1)
        ),
        "The order of the sentences is reversed, not that of the words: use the other axis.": lambda t: (
            t.flip(0)
        ),
        "The order of the sentences is reversed, too: reverse the words only.": lambda t: (
            recurrent.reverse(t.flip(0), PAD)
        ),
        "Both axes are reversed: reverse the words of each sentence only.": lambda t: (
            t.flip(0, 1)
        ),
        "Nothing is reversed.": lambda t: t,
        "Each sentence is reversed as if it were as long as the longest: use its own length.": (
            lambda t: _reverse_up_to(t, 6)
        ),
        "Each sentence is reversed as if it were as long as the first: use its own length.": (
            lambda t: _reverse_up_to(t, 4)
        ),
        "Each sentence is reversed as if it were as long as the shortest: use its own length.": (
            lambda t: _reverse_up_to(t, 2)
        ),
        "The last word is not moved: it must come first, even if it is <eos>.": lambda t: (
            _reverse_except(t, first=False)
        ),
        "The first word is not moved: it must come last, before the padding.": lambda t: (
            _reverse_except(t, first=True)
        ),
        "The words are sorted by their ids: reverse the order of the sentence.": lambda t: (
            t.sort(1, descending=True).values
        ),
        "Padding comes first and the last word is lost: position j gets the word at length − 1 − j.": (
            lambda t: functional.pad(recurrent.reverse(t, PAD), (1, -1))
        ),
        "The padding at the end is cut off: the shape must stay the same.": lambda t: (
            recurrent.reverse(t, PAD)[:, :6]
        ),
    },
    hints={
        "out of bounds|out of range": "Position j gets the word at length − 1 − j, which is negative "
        "at padding: there, keep position j."
    },
)


def _logits_and_target() -> Inputs:
    """Logits that make some sentences improbable.

    In the first, two words have probabilities of about exp(−400), whose product underflows.
    In the last, one word has about exp(−1000), which underflows even with 64 bits.
    """
    logits = normal(3, 5, 7, seed=31)
    target = torch.tensor([[4, 6, 1, 3, 2], [3, 5, 2, 0, 0], [6, 1, 4, 2, 0]])
    logits[0, 1, 6] = logits[0, 3, 3] = -400
    logits[2, 1, 1] = -1000
    return {"logits": logits, "target": target}


def _pick(scores: Tensor, target: Tensor) -> Tensor:
    return scores.gather(-1, target[..., None]).squeeze(-1)


def _words(logits: Tensor, target: Tensor, axis: int = -1) -> Tensor:
    """The log-probability of every token, with a softmax over the given axis."""
    return _pick(logits.log_softmax(axis), target)


def _kept(words: Tensor, target: Tensor) -> Tensor:
    return words.masked_fill(target == 0, 0).sum(1)


def _sentences(logits: Tensor, target: Tensor, axis: int = -1) -> Tensor:
    return _kept(_words(logits, target, axis), target)


_AXIS = "The softmax runs over {}. It must run over the vocabulary, the last axis."
LOG_PROB = Exercise(
    inputs=_logits_and_target(),
    solution=_sentences,
    mistakes={
        "The padding is counted: token 0 after the end is not a word.": lambda x, y: (
            _words(x, y).sum(1)
        ),
        "This is the mean over the words: the log-probability of the sentence is their sum.": lambda x, y: (
            _sentences(x, y) / (y != 0).sum(1)
        ),
        "It is divided by the number of all steps, including padding: take the sum.": (
            lambda x, y: _sentences(x, y) / y.shape[1]
        ),
        "This is the mean over all steps, including padding: sum over the words only.": lambda x, y: (
            _words(x, y).mean(1)
        ),
        "This is the loss, −log p: return the log-probability, which is negative.": lambda x, y: (
            -_sentences(x, y)
        ),
        "This is one loss, the mean −log p of all words: cross_entropy needs reduction='none', then sum.": (
            lambda x, y: -_sentences(x, y).sum() / (y != 0).sum()
        ),
        "This is one loss averaged over all steps, including padding: return one sum per sentence.": (
            lambda x, y: -_words(x, y).mean()
        ),
        "There is no softmax: logits are not log-probabilities.": lambda x, y: _kept(
            _pick(x, y), y
        ),
        _AXIS.format("the steps (axis 1)"): lambda x, y: _sentences(x, y, 1),
        _AXIS.format("the batch (axis 0)"): lambda x, y: _sentences(x, y, 0),
        "The probabilities are summed: take their logarithms first.": lambda x, y: (
            _kept(_words(x, y).exp(), y)
        ),
        "This is the logarithm of a sum of probabilities: take the sum of their logarithms.": lambda x, y: (
            _kept(_words(x, y).exp(), y).log()
        ),
        "This is the probability: return its logarithm.": lambda x, y: _sentences(
            x, y
        ).exp(),
        "The probabilities are multiplied first, and their product underflows: sum logarithms.": (
            lambda x, y: _sentences(x, y).exp().log()
        ),
        "A probability underflows before its logarithm is taken: use log_softmax.": lambda x, y: (
            _kept(_words(x, y).exp().log(), y)
        ),
        "This is the most probable word of each step: take the probability of the target's word.": (
            lambda x, y: _kept(x.log_softmax(-1).amax(-1), y)
        ),
        "The target is shifted: here the logits of step i already belong to target[:, i].": lambda x, y: (
            _sentences(x[:, :-1], y[:, 1:])
        ),
        "The first word is left out: it is predicted, too.": lambda x, y: _sentences(
            x[:, 1:], y[:, 1:]
        ),
        "The last step is left out, but in a sentence without padding it is a word.": lambda x, y: (
            _sentences(x[:, :-1], y[:, :-1])
        ),
        "The words are not summed: return one number per sentence.": lambda x, y: (
            _words(x, y).masked_fill(y == 0, 0)
        ),
        "All sentences are summed: return one number per sentence.": lambda x, y: (
            _sentences(x, y).sum()
        ),
    },
    hints={
        "same number of dimensions": "gather needs an index with as many axes: target[..., None].",
        "target size": "cross_entropy expects the vocabulary on axis 1: logits.mT is (b, vocabulary, t).",
    },
)
EXERCISES = {
    "1.1": REVERSE,
    "1.2": LOG_PROB,
    "1.3": SCORE,
    "1.4": NUCLEUS,
}
