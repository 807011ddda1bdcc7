"""Writing a sentence word by word: greedy and beam search, for any model that takes steps.

``step(token, state) -> Step`` is all that a search knows of a model, and ``state`` is whatever the model
returned last, its batch axis first. All sentences of a batch are searched together.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from companion.data.vocabulary import BOS, EOS, PAD
from companion.state import Step, map_state, tensors

StepFunction = Callable[[Tensor, Any], Step]


class Hypotheses(NamedTuple):
    """What a search found: ``*b`` is the batch, and after a beam search the beam, the best first.

    ``tokens`` leave out ``<bos>``, end with ``<eos>`` unless the length ran out, and go on with padding.
    ``log_probs`` are whole sentences'. ``weights`` say where each step looked; ``None`` for a model that
    does not look.
    """

    tokens: Int[Tensor, "*b t"]
    log_probs: Float[Tensor, "*b"]
    weights: Float[Tensor, "*b t k"] | None


@torch.no_grad()
def greedy(step: StepFunction, state: Any, max_length: int) -> Hypotheses:
    """Take the most probable word at each step, until every sentence has ended or is ``max_length`` long.

    A model with dropout must be in evaluation mode (``model.eval()``).

    Raises:
        ValueError: ``max_length`` is below 1, or the state holds no sentence.
        FloatingPointError: the model gives a sentence no probability.
    """
    token = _first_tokens(state, max_length)
    ended, total = torch.zeros_like(token, dtype=torch.bool), torch.zeros(token.shape, device=token.device)
    tokens: list[Tensor] = []
    weights: list[Any] = []
    while len(tokens) < max_length and not ended.all():
        logits, state, looked = step(token, state)
        log_prob, best = _log_probs(logits).max(-1)
        token = best.masked_fill(ended, PAD)
        total = total + log_prob.masked_fill(ended, 0)
        tokens.append(token)
        weights.append(looked if looked is None else looked.masked_fill(ended[:, None], 0))
        ended = ended | (token == EOS)
    _require_possible(total)
    return Hypotheses(torch.stack(tokens, 1), total, None if weights[0] is None else torch.stack(weights, 1))


@torch.no_grad()
def beam_search(
    step: StepFunction, state: Any, max_length: int, width: int, length_penalty: float = 0.0
) -> Hypotheses:
    """Keep the ``width`` most probable beginnings at each step; return the ``width`` best sentences found.

    A sentence Y competes with its log-probability divided by GNMT's length penalty::

        score(Y) = log p(Y) / ((5 + length of Y) / 6)^length_penalty

    where the length counts the words and ``<eos>``. The search of a sentence ends when no beginning can still
    overtake its ``width`` best. At ``max_length`` what has not ended competes as it is. Without length
    penalty a beam of width 1 is greedy search; one as wide as the space of sentences is exhaustive. If fewer
    sentences than ``width`` exist, the rest have log-probability −∞ and hold padding alone. A model with
    dropout must be in evaluation mode (``model.eval()``).

    Source: Wu et al. 2016, section 7, equation (14), without the coverage penalty.

    Raises:
        ValueError: ``width`` or ``max_length`` is below 1, ``length_penalty`` is negative or not finite, or
            the state holds no sentence.
        FloatingPointError: the model gives a sentence no probability.
    """
    if width < 1 or not 0 <= length_penalty < math.inf:
        raise ValueError(f"need width ≥ 1 and a finite length_penalty ≥ 0, not {width} and {length_penalty}")

    def penalty(words: int) -> float:
        return ((5 + words) / 6) ** length_penalty

    first = _first_tokens(state, max_length)
    state = map_state(lambda x: x.repeat_interleave(width, 0), state)
    alive, finished = _start(first, width), None
    for length in range(1, max_length + 1):
        logits, state, looked = step(alive.tokens[..., -1].flatten(), state)
        candidates, parents = _extend(alive, logits, looked)
        ended = candidates.tokens[..., -1] == EOS
        within = ended & (torch.arange(ended.shape[1], device=ended.device) < width)

        finished, _ = _best(_join(finished, _only(candidates, within, penalty(length))), width)
        alive, kept = _best(_only(candidates, ~ended), width)
        rows = parents.gather(1, kept) + width * torch.arange(len(first), device=first.device)[:, None]
        state = _rows(state, rows.flatten())

        hope = alive.scores[:, 0] / penalty(max_length)
        if (finished.scores[:, -1] >= hope).all():
            break
    else:
        cut = alive._replace(scores=alive.scores / penalty(max_length))
        finished, _ = _best(_join(finished, cut, grow=0), width)
    _require_possible(finished.log_probs[:, 0])
    return _hypotheses(finished)


class _Beam(NamedTuple):
    """Sentences in the making, ``n`` for each of the batch, with the scores by which they compete."""

    scores: Float[Tensor, "b n"]
    log_probs: Float[Tensor, "b n"]
    tokens: Int[Tensor, "b n t"]
    weights: Float[Tensor, "b n t k"] | None


def _start(first: Int[Tensor, " b"], width: int) -> _Beam:
    """``<bos>`` alone, in the first place of each beam; the other places are impossible."""
    log_probs = torch.full((len(first), width), -torch.inf, device=first.device)
    log_probs[:, 0] = 0
    return _Beam(log_probs, log_probs, first[:, None, None].expand(-1, width, 1), None)


def _extend(alive: _Beam, logits: Tensor, looked: Tensor | None) -> tuple[_Beam, Int[Tensor, "b n"]]:
    """The best continuations by one word, twice as many as the beam is wide, and what each continues."""
    sentences, width = alive.log_probs.shape
    log_probs = _log_probs(logits).unflatten(0, (sentences, width)) + alive.log_probs[..., None]
    vocabulary = log_probs.shape[-1]
    best, places = log_probs.flatten(1).topk(width * min(2, vocabulary))
    parents, tokens = places // vocabulary, places % vocabulary
    weights = None
    if looked is not None:
        looked = looked.unflatten(0, (sentences, width))[:, :, None]
        weights = looked if alive.weights is None else torch.cat([alive.weights, looked], 2)
    family = _take(alive._replace(weights=weights), parents)
    return family._replace(log_probs=best, tokens=torch.cat([family.tokens, tokens[..., None]], -1)), parents


def _only(beam: _Beam, which: Bool[Tensor, "b n"], penalty: float = 1.0) -> _Beam:
    """Only ``which`` sentences, competing by log-probability over penalty; the others become impossible."""
    log_probs = beam.log_probs.masked_fill(~which, -torch.inf)
    return beam._replace(scores=log_probs / penalty, log_probs=log_probs)


def _take(beam: _Beam, places: Int[Tensor, "b n"]) -> _Beam:
    sentences = torch.arange(len(places), device=places.device)[:, None]
    return map_state(lambda x: x[sentences, places], beam)


def _best(beam: _Beam, n: int) -> tuple[_Beam, Int[Tensor, "b n"]]:
    places = beam.scores.sort(descending=True, stable=True).indices[:, :n]
    return _take(beam, places), places


def _join(old: _Beam | None, new: _Beam, grow: int = 1) -> _Beam:
    """Both beams side by side, the sentences of the old one padded by one place to the new one's length."""
    if old is None:
        return new
    tokens = functional.pad(old.tokens, (0, grow), value=PAD)
    weights = None if old.weights is None else functional.pad(old.weights, (0, 0, 0, grow))
    padded = old._replace(tokens=tokens, weights=weights)
    sides: list[Any] = [
        None if a is None or b is None else torch.cat([a, b], 1) for a, b in zip(padded, new, strict=True)
    ]
    return _Beam(*sides)


def _hypotheses(beam: _Beam) -> Hypotheses:
    """Without ``<bos>``, without places that all leave empty, and with padding for impossible sentences."""
    possible = beam.log_probs > -torch.inf
    tokens = beam.tokens[..., 1:].masked_fill(~possible[..., None], PAD)
    ends = tokens == EOS
    lengths = torch.where(ends.any(-1), ends.int().argmax(-1) + 1, tokens.shape[-1])
    longest = int(lengths[possible].max())
    weights = beam.weights
    if weights is not None:
        weights = weights[:, :, :longest].masked_fill(~possible[..., None, None], 0)
    return Hypotheses(tokens[..., :longest], beam.log_probs, weights)


def _log_probs(logits: Float[Tensor, "n v"]) -> Float[Tensor, "n v"]:
    return logits.log_softmax(-1, dtype=torch.promote_types(logits.dtype, torch.float32))


def _require_possible(log_probs: Float[Tensor, " b"]) -> None:
    if not (log_probs > -torch.inf).all():
        rows = (~(log_probs > -torch.inf)).nonzero().flatten().tolist()
        raise FloatingPointError(
            f"the sentences {rows} have no probability: are their logits NaN, or all −∞?"
        )


def _rows(state: Any, rows: Int[Tensor, " n"]) -> Any:
    return map_state(lambda x: x[rows], state)


def _first_tokens(state: Any, max_length: int) -> Int[Tensor, " b"]:
    """``<bos>`` for each sentence, on the device of the state, after a look at what was asked."""
    if max_length < 1:
        raise ValueError(f"the maximum length must be at least 1, not {max_length}")
    held = tensors(state)
    if not held or len(held[0]) == 0:
        raise ValueError(f"the state holds {len(held)} tensors and no sentence, so there is nothing to write")
    return torch.full(held[0].shape[:1], BOS, device=held[0].device)
