"""The exercises of chapter 10: attention over attention, pointer sum and its loss."""

import torch
from torch import Tensor

from attention_course.exercises.exercise import Exercise, Inputs, normal
from companion.attention.attention_over_attention import (
    attention_over_attention,
    pointer_sum,
)
from companion.attention.base import masked_softmax
from companion.attention.pooling import mean_pooling


def _matrix() -> Inputs:
    """Documents of 7, 4 and 6 words, questions of 5, 3 and 2."""
    document = torch.arange(7) < torch.tensor([[7], [4], [6]])
    question = torch.arange(5) < torch.tensor([[5], [3], [2]])
    return {
        "scores": 2 * normal(3, 7, 5, seed=101),
        "document": document,
        "question": question,
    }


def _alpha(scores: Tensor, document: Tensor) -> Tensor:
    return masked_softmax(scores.mT, document[:, None])


def _beta(scores: Tensor, question: Tensor) -> Tensor:
    return masked_softmax(scores, question[:, None])


def _average(alpha: Tensor, beta: Tensor) -> Tensor:
    return (beta[:, None] @ alpha)[:, 0]


def _over_document(scores: Tensor, document: Tensor, question: Tensor) -> Tensor:
    """β from a softmax over the document, instead of the one over the question."""
    beta = _alpha(scores, document).mT * question[:, None]
    return _average(_alpha(scores, document), mean_pooling(beta, document))


def _averaged_over_all(scores: Tensor, document: Tensor, question: Tensor) -> Tensor:
    masked = _beta(scores, question) * document[..., None]
    return _average(_alpha(scores, document), masked.mean(1))


def _with_padding(scores: Tensor, document: Tensor, question: Tensor) -> Tensor:
    return _average(_alpha(scores, document), _beta(scores, question).mean(1))


def _without_masks(scores: Tensor, document: Tensor, question: Tensor) -> Tensor:
    return _average(scores.softmax(1).mT, scores.softmax(2).mean(1))


ATTENTION_OVER_ATTENTION = Exercise(
    inputs=_matrix(),
    solution=attention_over_attention,
    mistakes={
        "β is a softmax over the document: it runs over the question's words, the last axis.": _over_document,
        "Both softmaxes run over the question: α runs over the document's words, axis 1.": lambda s, d, q: (
            _average(_beta(s, q).mT, mean_pooling(_beta(s, q), d))
        ),
        "β is divided by the padded length: it is a mean over the words of each document.": (
            _averaged_over_all
        ),
        "β is averaged over the padding, too: average over the words of each document.": _with_padding,
        "The masks are ignored: padding receives weight in both softmaxes.": _without_masks,
        "Only the document's mask is used: the question's padding receives weight in β.": lambda s, d, q: (
            attention_over_attention(s, d, torch.ones_like(q))
        ),
        "Only the question's mask is used: the document's padding receives weight.": lambda s, d, q: (
            attention_over_attention(s, torch.ones_like(d), q)
        ),
        "All words of the question count equally: weight them by β.": lambda s, d, q: (
            mean_pooling(_alpha(s, d), q)
        ),
        "The α are summed over the question without the weights β.": lambda s, d, q: (
            _alpha(s, d) * q[..., None]
        ).sum(1),
        "This is β, the weights of the question's words: average the α with them.": lambda s, d, q: (
            mean_pooling(_beta(s, q), d)
        ),
        "These are the α: weight them by β, and sum over the question.": lambda s, d, q: (
            _alpha(s, d)
        ),
    },
    hints={
        "must match|size mismatch|cannot be multiplied|Expected size": (
            "The scores are (b, n, m), the masks (b, n) and (b, m): give a mask its missing axis."
        )
    },
)


def _found(document: Tensor, words: Tensor) -> Tensor:
    return words[..., None] == document[:, None]


PROBABILITY = Exercise(
    inputs={
        "weights": normal(3, 7, seed=102).softmax(-1),
        "document": torch.tensor(
            [[4, 5, 4, 6, 4, 7, 5], [8, 8, 6, 4, 9, 6, 8], [5, 6, 7, 8, 9, 9, 0]]
        ),
        "words": torch.tensor([[4, 5, 6, 7, 8], [8, 6, 4, 9, 5], [9, 5, 4, 6, 7]]),
    },
    solution=pointer_sum,
    mistakes={
        "Only the first occurrence of a word counts: its probability is the sum over all.": lambda s, d, w: (
            s.gather(1, _found(d, w).int().argmax(-1)) * _found(d, w).any(-1)
        ),
        "Only the first occurrence of a word counts, and an absent word gets the weight of position 0.": (
            lambda s, d, w: s.gather(1, _found(d, w).int().argmax(-1))
        ),
        "Only the largest weight of a word counts: its probability is the sum over all occurrences.": (
            lambda s, d, w: (_found(d, w) * s[:, None]).amax(-1)
        ),
        "It is the mean over a word's occurrences: a word that occurs twice gets both weights.": (
            lambda s, d, w: (
                (_found(d, w) * s[:, None]).sum(-1) / _found(d, w).sum(-1).clamp(min=1)
            )
        ),
        "It is the mean over a word's occurrences, and 0 / 0 where there is none: sum the weights.": (
            lambda s, d, w: (_found(d, w) * s[:, None]).sum(-1) / _found(d, w).sum(-1)
        ),
        "The occurrences are counted: sum their weights.": lambda s, d, w: (
            _found(d, w).sum(-1).to(s)
        ),
        "It is divided by the sum over these words: the document has others, which keep their probability.": (
            lambda s, d, w: (
                pointer_sum(s, d, w) / pointer_sum(s, d, w).sum(-1, keepdim=True)
            )
        ),
    },
    hints={
        "must match": "Compare each word with each position: words[:, :, None] with document[:, None].",
        "out of bounds": "A word's id is not a position: compare it with the ids in the document.",
    },
)


def _probability(weights: Tensor, document: Tensor, answer: Tensor) -> Tensor:
    return pointer_sum(weights, document, answer[:, None])[:, 0]


def _loss(weights: Tensor, document: Tensor, answer: Tensor) -> Tensor:
    return -_probability(weights, document, answer).log().mean()


def _twice(weights: Tensor, document: Tensor, answer: Tensor) -> Tensor:
    """Cross-entropy, which takes logits, applied to the probabilities of ten words."""
    words = torch.arange(10).expand(len(document), -1)
    return torch.nn.functional.cross_entropy(
        pointer_sum(weights, document, words), answer
    )


ANSWER_LOSS = Exercise(
    inputs={
        "weights": (2 * normal(3, 7, seed=103)).softmax(-1),
        "document": PROBABILITY.inputs["document"],
        "answer": torch.tensor([4, 6, 9]),
    },
    solution=_loss,
    mistakes={
        "cross_entropy takes logits, but these are probabilities: only −log P remains to compute.": _twice,
        "The logarithms of the weights are summed: sum the weights first, then take the logarithm.": (
            lambda s, d, a: -(s.log() * (d == a[:, None])).sum(-1).mean()
        ),
        "The mean over the questions is taken before the logarithm: take it after.": lambda s, d, a: (
            -(_probability(s, d, a).mean().log())
        ),
        "The logarithm is missing: this is 1 − P; the loss is −log P.": lambda s, d, a: (
            (1 - _probability(s, d, a)).mean()
        ),
        "The logarithm is missing: the loss is −log P.": lambda s, d, a: (
            -_probability(s, d, a).mean()
        ),
        "Only the first occurrence of the answer counts: its probability is the sum over all.": (
            lambda s, d, a: (
                -s.gather(1, (d == a[:, None]).int().argmax(-1, keepdim=True))
                .log()
                .mean()
            )
        ),
        "Only the largest weight of the answer counts: its probability is the sum over all.": (
            lambda s, d, a: -((d == a[:, None]) * s).amax(-1).log().mean()
        ),
        "There is one loss per question: take their mean.": lambda s, d, a: (
            -(_probability(s, d, a).log())
        ),
    },
    hints={
        "must match": "The answers are (b,), the document (b, n): give them an axis of size 1, [:, None]."
    },
)
EXERCISES = {"10.1": ATTENTION_OVER_ATTENTION, "10.2": PROBABILITY, "10.3": ANSWER_LOSS}
