"""Beam search, for any model that takes steps; see :mod:`companion.decoding.sampling`."""

import math
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.utils.parametrize import cached

from companion.data.vocabulary import EOS, PAD
from companion.decoding.hypotheses import (
    Hypotheses,
    StepFunction,
    first_tokens,
    next_log_probs,
    require_possible,
)
from companion.decoding.state import map_state, tensors


@torch.no_grad()
@cached()
def beam_search(
    step: StepFunction,
    state: Any,
    max_length: int,
    width: int,
    length_penalty: float = 0.0,
    coverage_penalty: float = 0.0,
    mask: Bool[Tensor, "b k"] | None = None,
) -> Hypotheses:
    """Keep the ``width`` most probable beginnings at each step; return the ``width`` best sentences found.

    A sentence Y competes with a score, GNMT's, for the source X whose position j got the weight α_ij when
    word i was written::

        score(Y) = log p(Y | X) / ((5 + length of Y) / 6)^length_penalty
                 + coverage_penalty · Σ_j log min(Σ_i α_ij, 1)

    where the length counts the words and ``<eos>``, and j runs over the words of the source: the positions
    that ``mask`` names, or all. The beginnings in the beam, all equally long, are compared by their
    log-probability alone.

    The search of a sentence ends when no beginning can still overtake its ``width`` best. At ``max_length``
    what has not ended competes as it is. Without penalties a beam of width 1 is greedy search, unless two
    words are equally probable, of which either may be taken; one as wide as the space of sentences is
    exhaustive. A beam may be wider than the vocabulary: it fills up as the sentences grow. If fewer sentences
    than ``width`` exist, the rest have log-probability −∞ and hold padding alone.

    Source: Wu et al. 2016, section 7, equation (14). Deviation: a position without any weight, whose
    logarithm would be −∞, counts as one with the smallest positive number.

    Raises:
        ValueError: ``width`` or ``max_length`` is below 1, a penalty is negative or not finite, the one for
            the length is so great that scores would vanish, the state holds no sentence, or there is a
            coverage penalty for a model that does not look, or with a mask of another shape than its weights.
        FloatingPointError: the model gives a sentence no probability.
    """
    if width < 1:
        raise ValueError(f"a beam must be at least 1 wide, not {width}")
    if not (0 <= length_penalty < math.inf and 0 <= coverage_penalty < math.inf):
        raise ValueError(
            f"penalties must be finite and at least 0, but are {length_penalty} for the length "
            f"and {coverage_penalty} for the coverage"
        )
    if (
        length_penalty * math.log((5 + max(max_length, 1)) / 6) > 80
    ):  # e^80 still divides in float32
        raise ValueError(
            f"a length penalty of {length_penalty} is too great for {max_length} words"
        )
    first = first_tokens(state, max_length)
    state = map_state(lambda x: x.repeat_interleave(width, 0), state)
    given = tensors(state)
    alive, ended = _start(first, width), None
    covered, coverage = None, torch.zeros_like(alive.scores)
    history: list[_Written] = []
    for length in range(1, max_length + 1):
        logits, state, looked = step(alive.tokens.flatten(), state)
        looked = looked if looked is None else looked.unflatten(0, (-1, width))
        if coverage_penalty:
            covered = _cover(covered, looked, mask)
            coverage = coverage_penalty * covered.clamp(
                torch.finfo(covered.dtype).tiny, 1
            ).log().sum(-1)
        candidates = _extend(alive, logits, length)
        ends = candidates.tokens == EOS
        within = ends & (torch.arange(ends.shape[1], device=ends.device) < width)
        ended = _best(
            _join(ended, _only(_score(candidates, coverage, length_penalty), within)),
            width,
        )
        alive = _best(_only(candidates, ~ends), width)
        history.append(_Written(alive.tokens, alive.parents, looked))
        hope = alive.log_probs[:, 0] / _gnmt(max_length, length_penalty)
        if (ended.scores[:, -1] >= hope).all():
            break
        state = _reorder(state, alive.parents, given)
        covered = covered if covered is None else _take(covered, alive.parents)
    else:
        ended = _best(_join(ended, _score(alive, coverage, length_penalty)), width)
    require_possible(ended.log_probs[:, 0])
    return _hypotheses(ended, history)


class _Beam(NamedTuple):
    """Sentences, ``n`` for each of the batch, by their last words and the places of what these continue."""

    scores: Float[Tensor, "b n"]
    log_probs: Float[Tensor, "b n"]
    tokens: Int[Tensor, "b n"]
    parents: Int[Tensor, "b n"]
    lengths: Int[Tensor, "b n"]


class _Written(NamedTuple):
    """A step: the words it wrote, the places in the beam that they continue, and where each place looked."""

    tokens: Int[Tensor, "b n"]
    parents: Int[Tensor, "b n"]
    looked: Float[Tensor, "b n k"] | None


def _start(first: Int[Tensor, " b"], width: int) -> _Beam:
    """``<bos>`` alone, in the first place of each beam; the other places are impossible."""
    log_probs = torch.full((len(first), width), -torch.inf, device=first.device)
    log_probs[:, 0] = 0
    tokens = first[:, None].expand(-1, width)
    return _Beam(
        log_probs, log_probs, tokens, torch.zeros_like(tokens), torch.zeros_like(tokens)
    )


def _extend(alive: _Beam, logits: Float[Tensor, "bn v"], length: int) -> _Beam:
    """The most probable continuations by one word, twice as many as the beam is wide."""
    sentences, width = alive.log_probs.shape
    log_probs, words = next_log_probs(logits).topk(min(2 * width, logits.shape[-1]))
    continued = (
        log_probs.unflatten(0, (sentences, width)) + alive.log_probs[..., None]
    ).flatten(1)
    log_probs, places = continued.topk(min(2 * width, continued.shape[1]))
    tokens, parents = (
        words.view(sentences, -1).gather(1, places),
        places // words.shape[-1],
    )
    return _Beam(log_probs, log_probs, tokens, parents, torch.full_like(places, length))


def _gnmt(length: Any, length_penalty: float) -> Any:
    return ((5 + length) / 6) ** length_penalty


def _score(beam: _Beam, coverage: Float[Tensor, "b n"], length_penalty: float) -> _Beam:
    """The same sentences, competing by GNMT's score; ``coverage`` belongs to what they continue."""
    penalty = _gnmt(beam.lengths.to(beam.log_probs.dtype), length_penalty)
    return beam._replace(
        scores=beam.log_probs / penalty + coverage.gather(1, beam.parents)
    )


def _cover(
    covered: Float[Tensor, "b n k"] | None,
    looked: Float[Tensor, "b n k"] | None,
    mask: Tensor | None,
) -> Float[Tensor, "b n k"]:
    """The weight that each position has got so far, with 1, which costs nothing, where there is no word."""
    if looked is None:
        raise ValueError(
            "a coverage penalty needs a model that looks: this one's steps have no weights"
        )
    if mask is None:
        mask = looked.new_ones(len(looked), looked.shape[-1], dtype=torch.bool)
    if mask.shape != (len(looked), looked.shape[-1]):
        raise ValueError(
            f"the mask's shape is {tuple(mask.shape)}, that of the weights {tuple(looked.shape)}"
        )
    looked = looked.masked_fill(~mask[:, None], 1).to(
        torch.promote_types(looked.dtype, torch.float32)
    )
    return looked if covered is None else covered + looked


def _only(beam: _Beam, which: Bool[Tensor, "b n"]) -> _Beam:
    """Only ``which`` sentences; the others become impossible."""
    scores, log_probs = (
        x.masked_fill(~which, -torch.inf) for x in (beam.scores, beam.log_probs)
    )
    return beam._replace(scores=scores, log_probs=log_probs)


def _take(
    x: Float[Tensor, "b n k"], places: Int[Tensor, "b n"]
) -> Float[Tensor, "b n k"]:
    return x[torch.arange(len(places), device=places.device)[:, None], places]


def _best(beam: _Beam, n: int) -> _Beam:
    places = beam.scores.sort(descending=True, stable=True).indices[:, :n]
    return map_state(lambda x: x.gather(1, places), beam)


def _join(old: _Beam | None, new: _Beam) -> _Beam:
    return (
        new
        if old is None
        else _Beam(*(torch.cat(pair, 1) for pair in zip(old, new, strict=True)))
    )


def _reorder(state: Any, parents: Int[Tensor, "b n"], given: list[Tensor]) -> Any:
    """The state of each beam, place by place that of its parent.

    A tensor that the model has returned untouched since the start, such as the projected source, is the same
    at all places of a beam. It stays where it is.
    """
    width = parents.shape[1]
    rows = (
        parents + width * torch.arange(len(parents), device=parents.device)[:, None]
    ).flatten()
    return map_state(
        lambda x: x if any(x is same for same in given) else x[rows], state
    )


def _hypotheses(ended: _Beam, history: list[_Written]) -> Hypotheses:
    """Read each sentence backwards, from its last word along the parents."""
    lengths = ended.lengths.masked_fill(ended.log_probs == -torch.inf, 0)
    place = torch.zeros_like(lengths)
    tokens: list[Tensor] = []
    weights: list[Any] = []
    for position in reversed(range(int(lengths.max()))):
        words, parents, looked = history[position]
        last, beyond = lengths == position + 1, lengths <= position
        tokens.append(
            torch.where(last, ended.tokens, words.gather(1, place)).masked_fill(
                beyond, PAD
            )
        )
        place = torch.where(last, ended.parents, parents.gather(1, place))
        weights.append(
            looked
            if looked is None
            else _take(looked, place).masked_fill(beyond[..., None], 0)
        )
    looks = None if weights[0] is None else torch.stack(weights[::-1], 2)
    return Hypotheses(torch.stack(tokens[::-1], 2), ended.log_probs, looks)
