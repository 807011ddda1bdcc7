"""Writing a sentence word by word: greedy search, sampling and beam search, for any model that takes steps.

``step(token, state) -> Step`` is all that a search knows of a model, and ``state`` is whatever the model
returned last, its batch axis first; a step changes no tensor of it in place, but returns new ones. All
sentences of a batch are searched together. A model with dropout must be in evaluation mode
(``model.eval()``). Weights that a parametrization makes, such as normalised ones, are made once for all steps
of a search, and meanwhile for the whole process: while one thread searches, do not train in another.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
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


def greedy(step: StepFunction, state: Any, max_length: int) -> Hypotheses:
    """Take the most probable word at each step, until every sentence has ended or is ``max_length`` long.

    Raises:
        ValueError: ``max_length`` is below 1, or the state holds no sentence.
        FloatingPointError: the model gives a sentence no probability.
    """
    return _one_by_one(step, state, max_length, lambda log_probs: log_probs.argmax(-1))


def sample(
    step: StepFunction,
    state: Any,
    max_length: int,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
) -> Hypotheses:
    """Draw each word by the model's probabilities p, until each sentence has ended or is ``max_length`` long.

    ::

        q(word) ∝ p(word)^(1 / temperature)

    A temperature below 1 sharpens, one above 1 flattens. Where they are given, only the ``top_k`` most
    probable words are left, and of these only the fewest that together have the share ``top_p``. The
    log-probabilities returned are the model's own, by p, whatever the words were drawn from.

    Source: Fan, Lewis and Dauphin 2018 (top-k); Holtzman et al. 2020, section 3.1 (top-p, the nucleus).

    Raises:
        ValueError: ``temperature`` is not a finite number above 0 (for its limit 0 there is :func:`greedy`),
            ``top_k`` or ``max_length`` is below 1, ``top_p`` is not above 0 and at most 1, or the state holds
            no sentence.
        FloatingPointError: the model gives a sentence no probability.
    """
    if not 0 < temperature < math.inf:
        raise ValueError(
            f"the temperature must be a finite number above 0, not {temperature}"
        )
    if top_k is not None and top_k < 1:
        raise ValueError(f"top_k must be at least 1, not {top_k}")
    if top_p is not None and not 0 < top_p <= 1:
        raise ValueError(f"top_p must be above 0 and at most 1, not {top_p}")

    limits = torch.finfo(torch.float32)

    def draw(log_probs: Tensor) -> Tensor:
        below_the_best = log_probs - log_probs.amax(
            -1, keepdim=True
        )  # or all overflow, by a low temperature
        drawn_from = below_the_best / min(max(temperature, limits.tiny), limits.max)
        if top_k is not None:
            drawn_from = _most_probable(drawn_from, top_k)
        if top_p is not None:
            drawn_from = _nucleus(drawn_from, top_p)
        probabilities = drawn_from.softmax(-1).nan_to_num(
            1
        )  # of NaN nothing can be drawn; the end tells
        return probabilities.multinomial(1, generator=generator).squeeze(-1)

    return _one_by_one(step, state, max_length, draw)


def _most_probable(logits: Float[Tensor, "n v"], k: int) -> Float[Tensor, "n v"]:
    best, words = logits.topk(min(k, logits.shape[-1]))
    return torch.full_like(logits, -torch.inf).scatter(-1, words, best)


def _nucleus(logits: Float[Tensor, "n v"], share: float) -> Float[Tensor, "n v"]:
    """Leave the word that reaches the share, and all before it."""
    ordered, words = logits.sort(descending=True, stable=True)
    probabilities = ordered.softmax(-1)
    before = probabilities.cumsum(-1) - probabilities
    kept = ordered.masked_fill(before >= share, -torch.inf)
    return torch.empty_like(logits).scatter(-1, words, kept)


@torch.no_grad()
@cached()
def _one_by_one(
    step: StepFunction, state: Any, max_length: int, choose: Callable[[Tensor], Tensor]
) -> Hypotheses:
    """Write sentences in which ``choose(log_probs)`` says each word, given those before it."""
    token = first_tokens(state, max_length)
    ended, total = (
        torch.zeros_like(token, dtype=torch.bool),
        torch.zeros(token.shape, device=token.device),
    )
    tokens: list[Tensor] = []
    weights: list[Any] = []
    while len(tokens) < max_length and not ended.all():
        logits, state, looked = step(token, state)
        log_probs = next_log_probs(logits)
        chosen = choose(log_probs)
        log_prob = log_probs.gather(-1, chosen[:, None]).squeeze(-1)
        total = total + log_prob.masked_fill(ended, 0)
        token = chosen.masked_fill(ended, PAD)
        tokens.append(token)
        weights.append(
            looked if looked is None else looked.masked_fill(ended[:, None], 0)
        )
        ended = ended | (token == EOS)
    require_possible(total)
    return Hypotheses(
        torch.stack(tokens, 1),
        total,
        None if weights[0] is None else torch.stack(weights, 1),
    )
