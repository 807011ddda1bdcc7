"""The exercises of chapter 10: its probability in logarithms, how β learns, another second attention."""

from math import log

import torch
from torch import Tensor

from attention_course.exercises.exercise import Exercise, normal
from companion.attention.base import masked_softmax


def _log_answer(scores: Tensor, answer: Tensor) -> Tensor:
    alpha = scores.log_softmax(0)
    beta = scores.log_softmax(1).logsumexp(0) - log(len(scores))
    return (alpha + beta)[answer].flatten().logsumexp(0)


def _direct(scores: Tensor, answer: Tensor) -> Tensor:
    return (scores.softmax(0) @ scores.softmax(1).mean(0))[answer].sum().log()


def _distant() -> Tensor:
    """Scores whose softmaxes round the answer's weights to 0, in 64 bits, too."""
    scores = normal(7, 5, seed=101)
    scores[torch.tensor([1, 4])] -= 1000
    return scores


_ANSWER = torch.tensor([False, True, False, False, True, False, False])
LOG_ANSWER = Exercise(
    inputs={"scores": _distant(), "answer": _ANSWER},
    solution=_log_answer,
    mistakes={
        "The probability is rounded to 0 before its logarithm: use log_softmax and logsumexp.": _direct,
        "The probability is rounded to 0, and a floor hides it: use log_softmax and logsumexp.": (
            lambda M, a: (
                (M.softmax(0) @ M.softmax(1).mean(0))[a]
                .sum()
                .clamp_min(torch.finfo(M.dtype).tiny)
                .log()
            )
        ),
        "β is a mean over the document's words: subtract the logarithm of their number.": lambda M, a: (
            _log_answer(M, a) + log(len(M))
        ),
        "The logarithms of the positions are added: their probabilities are, so take logsumexp over them.": (
            lambda M, a: (
                (M.log_softmax(0) + M.log_softmax(1).logsumexp(0) - log(len(M)))
                .logsumexp(1)[a]
                .sum()
            )
        ),
        "The mean of log β(i) is not the log of their mean: take logsumexp over the document's words.": (
            lambda M, a: (
                (M.log_softmax(0) + M.log_softmax(1).mean(0))[a].flatten().logsumexp(0)
            )
        ),
        "Both softmaxes run over the question: α runs over the document's words, axis 0.": lambda M, a: (
            (M.log_softmax(1) + M.log_softmax(1).logsumexp(0) - log(len(M)))[a]
            .flatten()
            .logsumexp(0)
        ),
        "This is −log P: return log P.": lambda M, a: -_log_answer(M, a),
    },
    hints={
        "must match": "α has the shape (n, m), and β (m,): one of its entries for each column."
    },
)


def _beta_gradient(scores: Tensor, answer: Tensor) -> Tensor:
    alpha, rows = scores.softmax(0), scores.softmax(1)
    found = alpha[answer].sum(0)  # (m,), P_t(a)
    probability = rows.mean(0) @ found
    average = (rows @ found)[:, None]
    return rows * (found - average) / (len(scores) * probability)


BETA_GRADIENT = Exercise(
    inputs={"scores": 2 * normal(7, 5, seed=102), "answer": _ANSWER},
    solution=_beta_gradient,
    mistakes={
        "The sign is wrong: return −∂L/∂M, positive where a score should rise.": lambda M, a: (
            -_beta_gradient(M, a)
        ),
        "Each row is one of n in a mean: divide by the number of the document's words.": lambda M, a: (
            len(M) * _beta_gradient(M, a)
        ),
        "This is the derivative of P: that of log P is divided by P.": lambda M, a: (
            _beta_gradient(M, a) * (M.softmax(1).mean(0) @ M.softmax(0)[a].sum(0))
        ),
        "The row's average is missing: what a word gains, the other words of its row lose.": lambda M, a: (
            M.softmax(1)
            * M.softmax(0)[a].sum(0)
            / (len(M) * (M.softmax(1).mean(0) @ M.softmax(0)[a].sum(0)))
        ),
        "The average is P(a), the one of all rows: each row has its own, under its β(i).": lambda M, a: (
            M.softmax(1)
            * (M.softmax(0)[a].sum(0) - M.softmax(1).mean(0) @ M.softmax(0)[a].sum(0))
            / (len(M) * (M.softmax(1).mean(0) @ M.softmax(0)[a].sum(0)))
        ),
    },
    hints={"must match": "P_t(a) has one entry for each word of the question, (m,)."},
)


def _masks() -> tuple[Tensor, Tensor]:
    """Documents of 7, 4 and 6 words, questions of 5, 3 and 2."""
    document = torch.arange(7) < torch.tensor([[7], [4], [6]])
    return document, torch.arange(5) < torch.tensor([[5], [3], [2]])


def _strongest(scores: Tensor, document: Tensor, question: Tensor) -> Tensor:
    best = scores.masked_fill(~question[:, None], -torch.inf).amax(2)  # (b, n)
    return masked_softmax(best, document)


STRONGEST = Exercise(
    inputs={
        "scores": 2 * normal(3, 7, 5, seed=103),
        "document": _masks()[0],
        "question": _masks()[1],
    },
    solution=_strongest,
    mistakes={
        "The maximum includes the question's padding: mask it with −∞ first.": lambda s, d, q: (
            masked_softmax(s.amax(2), d)
        ),
        "The question's padding is masked with 0, which wins where all scores are negative: use −∞.": (
            lambda s, d, q: masked_softmax((s * q[:, None]).amax(2), d)
        ),
        "The softmax gives weight to the document's padding: mask it.": lambda s, d, q: (
            s.masked_fill(~q[:, None], -torch.inf).amax(2).softmax(1)
        ),
        "Both masks are missing.": lambda s, d, q: s.amax(2).softmax(1),
        "The softmax is still to come: these are the maxima.": lambda s, d, q: (
            s.masked_fill(~q[:, None], -torch.inf).amax(2)
        ),
        "The maximum is over the document: it runs over the question's words, axis 2.": lambda s, d, q: (
            masked_softmax(s.masked_fill(~d[:, :, None], -torch.inf).amax(1), q)
        ),
        "The mean over the question is taken: take the maximum.": lambda s, d, q: (
            masked_softmax((s * q[:, None]).sum(2) / q.sum(1, keepdim=True), d)
        ),
    },
    hints={
        "must match|size of tensor": (
            "The scores are (b, n, m), the masks (b, n) and (b, m): give a mask its missing axis."
        )
    },
)
EXERCISES = {"10.1": LOG_ANSWER, "10.2": BETA_GRADIENT, "10.3": STRONGEST}
