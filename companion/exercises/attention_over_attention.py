"""The exercises of chapter 10: attention over attention, a word's probability, and the loss of an answer."""

import torch
from torch import Tensor

from companion.attention.attention_over_attention import (
    attention_over_attention,
    pointer_sum,
)
from companion.attention.base import masked_softmax
from companion.attention.pooling import mean_pooling
from companion.exercises.exercise import Exercise, Inputs, normal


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


def _weigh(alpha: Tensor, shares: Tensor) -> Tensor:
    return (shares[:, None] @ alpha)[:, 0]


def _over_document(scores: Tensor, document: Tensor, question: Tensor) -> Tensor:
    """The question's shares from a softmax over the document, as if it were the one over the question."""
    shares = _alpha(scores, document).mT * question[:, None]
    return _weigh(_alpha(scores, document), mean_pooling(shares, document))


def _averaged_over_all(scores: Tensor, document: Tensor, question: Tensor) -> Tensor:
    real = _beta(scores, question) * document[..., None]
    return _weigh(_alpha(scores, document), real.mean(1))


def _with_padding(scores: Tensor, document: Tensor, question: Tensor) -> Tensor:
    return _weigh(_alpha(scores, document), _beta(scores, question).mean(1))


def _without_masks(scores: Tensor, document: Tensor, question: Tensor) -> Tensor:
    return _weigh(scores.softmax(1).mT, scores.softmax(2).mean(1))


ATTENTION_OVER_ATTENTION = Exercise(
    inputs=_matrix(),
    solution=attention_over_attention,
    mistakes={
        "β is a softmax over the document: it runs over the question's words, the last axis.": _over_document,
        "Both softmaxes run over the question: α runs over the document's words, axis 1.": lambda s, d, q: (
            _weigh(_beta(s, q).mT, mean_pooling(_beta(s, q), d))
        ),
        "β is divided by the length with padding: it is a mean over the document's own words.": (
            _averaged_over_all
        ),
        "β is averaged over the padding too: a mean over the document's own words is wanted.": _with_padding,
        "The masks are ignored: padding gets a share in both softmaxes.": _without_masks,
        "Only the document's mask is used: the question's padding gets a share of β.": lambda s, d, q: (
            attention_over_attention(s, d, torch.ones_like(q))
        ),
        "Only the question's mask is used: the document's padding gets a share.": lambda s, d, q: (
            attention_over_attention(s, torch.ones_like(d), q)
        ),
        "All words of the question count alike: weigh them by β.": lambda s, d, q: (
            mean_pooling(_alpha(s, d), q)
        ),
        "The shares are added up over the question and not weighed by β.": lambda s, d, q: (
            (_alpha(s, d) * q[..., None]).sum(1)
        ),
        "This is β, the shares of the question's words: weigh the α by it.": lambda s, d, q: (
            mean_pooling(_beta(s, q), d)
        ),
        "These are the α: weigh them by β, and add them up over the question.": lambda s, d, q: (
            _alpha(s, d)
        ),
    },
    hints={
        "must match|size mismatch|cannot be multiplied|Expected size": (
            "The scores are (b, n, m), the masks (b, n) and (b, m): give a mask the axis that it lacks."
        )
    },
)


def _found(document: Tensor, words: Tensor) -> Tensor:
    return words[..., None] == document[:, None]


PROBABILITY = Exercise(
    inputs={
        "shares": normal(3, 7, seed=102).softmax(-1),
        "document": torch.tensor(
            [[4, 5, 4, 6, 4, 7, 5], [8, 8, 6, 4, 9, 6, 8], [5, 6, 7, 8, 9, 9, 0]]
        ),
        "words": torch.tensor([[4, 5, 6, 7, 8], [8, 6, 4, 9, 5], [9, 5, 4, 6, 7]]),
    },
    solution=pointer_sum,
    mistakes={
        "Only the first place of a word counts: its probability is the sum over all.": lambda s, d, w: (
            s.gather(1, _found(d, w).int().argmax(-1)) * _found(d, w).any(-1)
        ),
        "Only the first place of a word counts, and a word that is in no place gets the share of place 0.": (
            lambda s, d, w: s.gather(1, _found(d, w).int().argmax(-1))
        ),
        "Only the largest share of a word counts: its probability is the sum over all.": lambda s, d, w: (
            (_found(d, w) * s[:, None]).amax(-1)
        ),
        "It is the mean over a word's places: a word that stands twice has both shares.": lambda s, d, w: (
            (_found(d, w) * s[:, None]).sum(-1) / _found(d, w).sum(-1).clamp(min=1)
        ),
        "It is the mean over a word's places, and 0 / 0 where there is none: sum the shares.": (
            lambda s, d, w: (_found(d, w) * s[:, None]).sum(-1) / _found(d, w).sum(-1)
        ),
        "The places are counted: add up their shares.": lambda s, d, w: (
            _found(d, w).sum(-1).to(s)
        ),
        "It is divided by the sum over these words: the document has others, which keep their share.": (
            lambda s, d, w: (
                pointer_sum(s, d, w) / pointer_sum(s, d, w).sum(-1, keepdim=True)
            )
        ),
    },
    hints={
        "must match": "Compare each word with each place: words[:, :, None] with document[:, None].",
        "out of bounds": "A word's number is no place: compare it with the document's numbers.",
    },
)


def _chance(shares: Tensor, document: Tensor, answer: Tensor) -> Tensor:
    return pointer_sum(shares, document, answer[:, None])[:, 0]


def _loss(shares: Tensor, document: Tensor, answer: Tensor) -> Tensor:
    return -_chance(shares, document, answer).log().mean()


def _twice(shares: Tensor, document: Tensor, answer: Tensor) -> Tensor:
    """Cross-entropy, which takes logits, of the probabilities of ten words."""
    words = torch.arange(10).expand(len(document), -1)
    return torch.nn.functional.cross_entropy(
        pointer_sum(shares, document, words), answer
    )


ANSWER_LOSS = Exercise(
    inputs={
        "shares": (2 * normal(3, 7, seed=103)).softmax(-1),
        "document": PROBABILITY.inputs["document"],
        "answer": torch.tensor([4, 6, 9]),
    },
    solution=_loss,
    mistakes={
        "Cross-entropy takes logits, and these are probabilities: −log P is all that is left to do.": _twice,
        "The logarithms of the places are added up: add up the shares first, then take the logarithm.": (
            lambda s, d, a: -(s.log() * (d == a[:, None])).sum(-1).mean()
        ),
        "The mean over the questions comes before the logarithm: it comes after it.": lambda s, d, a: (
            -(_chance(s, d, a).mean().log())
        ),
        "The logarithm is missing: this is one less the probability.": lambda s, d, a: (
            1 - _chance(s, d, a)
        ).mean(),
        "The logarithm is missing, it is −log P.": lambda s, d, a: (
            -_chance(s, d, a).mean()
        ),
        "Only the first place of the answer counts: its probability is the sum over all.": lambda s, d, a: (
            -s.gather(1, (d == a[:, None]).int().argmax(-1, keepdim=True)).log().mean()
        ),
        "Only the largest share of the answer counts: its probability is the sum over all.": (
            lambda s, d, a: -((d == a[:, None]) * s).amax(-1).log().mean()
        ),
        "Each question has its own loss: the mean over them is wanted.": lambda s, d, a: (
            -(_chance(s, d, a).log())
        ),
    },
    hints={
        "must match": "The answers are (b,), the document (b, n): give them an axis of size 1, [:, None]."
    },
)
EXERCISES = {"10.1": ATTENTION_OVER_ATTENTION, "10.2": PROBABILITY, "10.3": ANSWER_LOSS}
