"""Beam search, for any model that takes steps."""

from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from companion._checks import check_at_least_zero, check_positive, check_step
from companion.attention.base import at_least_float32
from companion.decoding.hypotheses import (
    Hypotheses,
    StepFunction,
    end_and_padding,
    first_tokens,
    in_inference_mode,
    next_log_probs,
    require_possible,
)
from companion.decoding.state import map_state, tensors


@in_inference_mode
def beam_search(
    step: StepFunction,
    state: Any,
    max_length: int,
    width: int,
    length_penalty: float = 0.0,
    coverage_penalty: float = 0.0,
    mask: Bool[Tensor, "b k"] | None = None,
    *,
    bos: int,
    eos: int | None = None,
    pad: int | None = None,
) -> Hypotheses:
    """Extend the ``width`` most probable partial hypotheses token by token.

    The ``width`` best sentences found are returned, by the score of GNMT::

        score(Y) = log p(Y | X) / ((5 + |Y|) / 6)^length_penalty
                 + coverage_penalty · Σ_j log min(Σ_i α_ij, 1)

    ``|Y|`` counts the tokens, ``eos`` included. α_ij is the weight of source position j
    at step i, and j runs over the positions that ``mask`` names, or over all. Partial
    hypotheses, which all have the same length, are compared by log p alone.

    The search of a sentence ends when no partial hypothesis can overtake its ``width``
    best sentences. Hypotheses that reach ``max_length`` without ``eos`` compete as
    they are. ``step`` is called with one row for each partial hypothesis that is still
    possible, never for one that has ended or has probability 0. A hypothesis whose next
    logits are all −∞ is dropped.

    Without penalties, width 1 is greedy search, except that of two equally probable
    tokens either may be taken; a beam as wide as the space of sentences is exhaustive.
    If fewer than ``width`` sentences exist, the rest have score and log-probability −∞
    and hold padding alone.

    Args:
        step, state, max_length, bos, eos, pad: as in
            :func:`~companion.decoding.sampling.greedy`; steps are of any number of rows.
        width: the number of hypotheses kept; it may exceed the vocabulary.
        length_penalty: 0 compares log-probabilities; above 0, longer sentences gain.
        coverage_penalty: above 0, sentences that attend to every source position gain.
        mask: which source positions hold tokens; used by the coverage penalty alone.

    Raises:
        ValueError: there is a coverage penalty, but the model returns no weights; or a
            penalty is so large that scores would vanish or overflow.
        FloatingPointError: a sentence has no possible hypothesis left and none that has
            ended, or logits (with a coverage penalty, weights) of a possible hypothesis
            are NaN or +∞. The message names the sentences by their rows.

    Source: Wu et al. 2016, section 7, equation (14).
    Deviation: a position without any weight, whose logarithm would be −∞, counts as one
    with the smallest positive number.

    Example:
        >>> from companion.decoding import DecoderStep
        >>> def step(token, state):  # whatever came before: p(2) = 0.6, p(3) = 0.4
        ...     p = torch.tensor([0.0, 0.0, 0.6, 0.4])
        ...     return DecoderStep(p.log().expand(len(token), -1), state, None)
        >>> found = beam_search(step, torch.zeros(1, 1), 5, width=2, bos=1, eos=2)
        >>> found.tokens[0].tolist(), found.log_probs[0].exp()
        ([[2, 2], [3, 2]], tensor([0.6000, 0.2400]))
    """
    check_positive(max_length=max_length, width=width)
    _check_penalties(max_length, length_penalty, coverage_penalty)
    eos, pad = end_and_padding(eos, pad)
    first = first_tokens(state, bos)
    alive = _start(first, width)
    ended = map_state(lambda x: x[:, :0], alive)
    asked, shared = _possible(alive), tensors(state)
    covered, coverage = None, torch.zeros_like(alive.scores)
    history: list[_Step] = []
    for length in range(1, max_length + 1):
        tokens = alive.tokens.flatten()[asked]
        logits, state, weights = step(tokens, state)
        check_step(logits, weights, tokens)
        if weights is not None:
            weights = _spread(weights, asked, alive, 0)
        if coverage_penalty:
            covered = _cover(covered, weights, mask)
            coverage = coverage_penalty * _log_coverage(covered)
        candidates = _extend(alive, logits, asked, length)
        # NaN is sorted to the front and stays there, and its sentence is refused
        ends = (candidates.tokens == eos) | candidates.log_probs.isnan()
        most = map_state(lambda x: x[:, :width], candidates)
        finished = _score(most, coverage, length_penalty)
        ended = _best(_join(ended, _only(finished, ends[:, :width])), width)
        alive = _best(_only(candidates, ~ends), width)
        history.append(_Step(alive.tokens, alive.parents, weights))
        bound = alive.log_probs[:, :1] / _gnmt(max_length, length_penalty)
        alive = _only(alive, bound > ended.scores[:, -1:])
        before, asked = asked, _possible(alive)
        if length == max_length or len(asked) == 0:
            break
        state, shared = _reorder(state, shared, before, alive, asked)
        covered = covered if covered is None else _take(covered, alive.parents)
    ended = _best(_join(ended, _score(alive, coverage, length_penalty)), width)
    require_possible(ended.scores[:, 0])
    return _hypotheses(ended, history, pad)


def _check_penalties(
    max_length: int, length_penalty: float, coverage_penalty: float
) -> None:
    """Refuse penalties below 0, and those by which all scores would be equal or infinite."""
    check_at_least_zero(
        length_penalty=length_penalty, coverage_penalty=coverage_penalty
    )
    if max(_gnmt(max_length, length_penalty), coverage_penalty) > 1e30:
        raise ValueError(
            f"with length_penalty={length_penalty} and "
            f"coverage_penalty={coverage_penalty}, scores would vanish or overflow"
        )


class _Beam(NamedTuple):
    """``n`` hypotheses of each sentence: the last token, and the slot of its prefix."""

    scores: Float[Tensor, "b n"]
    log_probs: Float[Tensor, "b n"]
    tokens: Int[Tensor, "b n"]
    parents: Int[Tensor, "b n"]
    lengths: Int[Tensor, "b n"]


class _Step(NamedTuple):
    """The hypotheses after a step, and the attention weights of those before it."""

    tokens: Int[Tensor, "b n"]
    parents: Int[Tensor, "b n"]
    weights: Float[Tensor, "b n k"] | None


def _start(first: Int[Tensor, " b"], width: int) -> _Beam:
    """The first token in the first slot of each beam; the other slots are impossible."""
    log_probs = torch.full((len(first), width), -torch.inf, device=first.device)
    log_probs[:, 0] = 0
    tokens = first[:, None].expand(-1, width)
    none = torch.zeros_like(tokens)
    return _Beam(log_probs, log_probs, tokens, none, none)


def _possible(alive: _Beam) -> Int[Tensor, " n"]:
    """The slots of all beams, numbered throughout, with a possible hypothesis."""
    return (alive.log_probs > -torch.inf).flatten().nonzero().flatten()


def _spread(
    rows: Tensor, asked: Int[Tensor, " n"], beam: _Beam, fill: int | float
) -> Tensor:
    """Rows of the hypotheses asked, in their slots: ``(n, …)`` to ``(b, width, …)``."""
    if len(asked) < beam.tokens.numel():
        slots = rows.new_full((beam.tokens.numel(), *rows.shape[1:]), fill)
        rows = slots.index_copy(0, asked, rows)
    return rows.unflatten(0, beam.tokens.shape)


def _extend(
    alive: _Beam, logits: Float[Tensor, "n v"], asked: Int[Tensor, " n"], length: int
) -> _Beam:
    """The most probable extensions by one token, twice as many as the beam is wide.

    Twice, because half of them may end. Of NaN or +∞ among the logits comes NaN.
    """
    width = alive.tokens.shape[1]
    best, tokens = logits.topk(min(2 * width, logits.shape[1]))
    log_probs = next_log_probs(logits).gather(1, tokens)
    log_probs = log_probs.masked_fill(best == -torch.inf, -torch.inf)
    extended = _spread(log_probs, asked, alive, -torch.inf) + alive.log_probs[..., None]
    n = min(2 * width, extended[0].numel())
    log_probs, chosen = extended.flatten(1).topk(n)  # (b, n)
    tokens = _spread(tokens, asked, alive, 0).flatten(1).gather(1, chosen)
    parents = chosen // extended.shape[-1]
    return _Beam(log_probs, log_probs, tokens, parents, torch.full_like(chosen, length))


def _gnmt(length: Any, length_penalty: float) -> Any:
    """The divisor of a log-probability."""
    return ((5 + length) / 6) ** length_penalty


def _score(beam: _Beam, coverage: Float[Tensor, "b n"], length_penalty: float) -> _Beam:
    """The same with the score of GNMT; ``coverage`` is that of the parents."""
    penalty = _gnmt(beam.lengths.to(beam.log_probs.dtype), length_penalty)
    return beam._replace(
        scores=beam.log_probs / penalty + coverage.gather(1, beam.parents)
    )


def _cover(
    covered: Float[Tensor, "b n k"] | None,
    weights: Float[Tensor, "b n k"] | None,
    mask: Tensor | None,
) -> Float[Tensor, "b n k"]:
    """The weight that each position has received; 1, which costs nothing, if masked."""
    if weights is None:
        raise ValueError(
            "a coverage penalty needs attention weights, but the model's steps have none"
        )
    weights = at_least_float32(weights)
    if mask is not None:
        expected = weights.shape[0], weights.shape[-1]
        if mask.shape != expected:
            raise ValueError(
                f"the mask of a coverage penalty must have a shape of {expected}, not "
                f"{tuple(mask.shape)}"
            )
        weights = weights.masked_fill(~mask[:, None], 1)
    return weights if covered is None else covered + weights


def _log_coverage(covered: Float[Tensor, "b n k"]) -> Float[Tensor, "b n"]:
    """``Σ_j log min(covered_j, 1)``, with the smallest positive number for 0."""
    return covered.clamp(torch.finfo(covered.dtype).tiny, 1).log().sum(-1)


def _only(beam: _Beam, which: Bool[Tensor, "b _"]) -> _Beam:
    """The same hypotheses, impossible except for ``which``."""
    scores, log_probs = (
        x.masked_fill(~which, -torch.inf) for x in (beam.scores, beam.log_probs)
    )
    return beam._replace(scores=scores, log_probs=log_probs)


def _take(
    x: Float[Tensor, "b n k"], slots: Int[Tensor, "b m"]
) -> Float[Tensor, "b m k"]:
    return x[torch.arange(len(slots), device=slots.device)[:, None], slots]


def _best(beam: _Beam, n: int) -> _Beam:
    order = beam.scores.sort(descending=True, stable=True).indices[:, :n]
    return map_state(lambda x: x.gather(1, order), beam)


def _join(old: _Beam, new: _Beam) -> _Beam:
    return _Beam(*(torch.cat(pair, 1) for pair in zip(old, new, strict=True)))


def _reorder(
    state: Any,
    shared: list[Tensor],
    before: Int[Tensor, " m"],
    alive: _Beam,
    asked: Int[Tensor, " n"],
) -> tuple[Any, list[Tensor]]:
    """The state of each hypothesis to be asked, which is that of its parent.

    ``before`` are the slots that the state's rows belong to, ``asked`` those of the new
    rows. A ``shared`` tensor, which the model has returned untouched since the start
    (such as the projected source), is the same for all hypotheses of a sentence. It is
    not copied as long as each row belongs to the same sentence as before.
    """
    width = alive.parents.shape[1]
    sentences = asked // width
    rows = torch.searchsorted(
        before, sentences * width + alive.parents.flatten()[asked]
    )
    same = len(before) == len(asked) and (
        len(asked) == alive.tokens.numel() or torch.equal(before // width, sentences)
    )
    untouched = {id(x) for x in shared}
    still_shared = []

    def move(x: Tensor) -> Tensor:
        moved = x if same and id(x) in untouched else x[rows]
        if id(x) in untouched:
            still_shared.append(moved)
        return moved

    return map_state(move, state), still_shared


def _hypotheses(ended: _Beam, history: list[_Step], pad: int) -> Hypotheses:
    """Read each sentence backwards, from its last token along the parents."""
    lengths = ended.lengths.masked_fill(ended.log_probs == -torch.inf, 0)
    slots = torch.zeros_like(lengths)
    tokens: list[Tensor] = []
    weights: list[Any] = []
    for position in reversed(range(int(lengths.max()))):
        step: Any = history[position]
        last, beyond = lengths == position + 1, lengths <= position
        found = torch.where(last, ended.tokens, step.tokens.gather(1, slots))
        tokens.append(found.masked_fill(beyond, pad))
        slots = torch.where(last, ended.parents, step.parents.gather(1, slots))
        if history[0].weights is not None:
            received = _take(step.weights, slots)
            weights.append(received.masked_fill(beyond[..., None], 0))
    return Hypotheses(
        torch.stack(tokens[::-1], 2),
        ended.log_probs,
        ended.scores,
        torch.stack(weights[::-1], 2) if weights else None,
    )
