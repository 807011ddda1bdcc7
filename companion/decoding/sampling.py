"""Greedy search and sampling, for any model that takes steps.

``state`` is what the model returned last: nested tuples of tensors whose first axis is the
batch. A step returns new tensors and changes none of the state in place; it is called in
PyTorch's inference mode, so no gradient can flow through it. All sentences of a
batch are generated together; one that has ended is given padding until the last one
ends. A model with dropout must be in evaluation mode (``model.eval()``).
"""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from companion._checks import (
    check_above_zero,
    check_positive,
    check_step,
)
from companion.decoding.hypotheses import (
    Hypotheses,
    StepFunction,
    end_and_padding,
    first_tokens,
    in_inference_mode,
    next_log_probs,
    require_possible,
)


def greedy(
    step: StepFunction,
    state: Any,
    max_length: int,
    *,
    bos: int,
    eos: int | None = None,
    pad: int | None = None,
) -> Hypotheses:
    """Generate the most probable token at each step.

    A sentence ends with ``eos``, or at ``max_length`` tokens.

    Args:
        step: ``step(token, state) -> DecoderStep``.
        state: the decoder's first state, one row a source sentence.
        max_length: the most tokens of a sentence.
        bos: the token that the model is given first.
        eos: the token that ends a sentence; if ``None``, each has ``max_length``.
        pad: what follows the end; ``eos`` if not given, or 0 where there is none.

    Raises:
        FloatingPointError: before a sentence has ended, its logits are NaN or +∞, or
            all −∞. The message names the sentences by their rows.

    Example:
        >>> from companion.decoding import DecoderStep
        >>> following = torch.eye(4)[[0, 3, 0, 2]]  # 3 after 1, 2 after 3
        >>> def step(token, state):
        ...     return DecoderStep(following[token].log(), state, None)
        >>> greedy(step, torch.zeros(2, 1), max_length=5, bos=1, eos=2).tokens
        tensor([[3, 2],
                [3, 2]])
    """
    return _generate(
        step, state, max_length, lambda log_probs: log_probs.argmax(-1), bos, eos, pad
    )


def sample(
    step: StepFunction,
    state: Any,
    max_length: int,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
    *,
    bos: int,
    eos: int | None = None,
    pad: int | None = None,
) -> Hypotheses:
    """Sample each token from the model's probabilities p, at a temperature.

    ::

        q(token) ∝ p(token)^(1 / temperature)

    A temperature below 1 sharpens the distribution, one above 1 flattens it. ``top_k``
    keeps the k most probable tokens; ``top_p`` then keeps the smallest set of the most
    probable ones whose probability reaches p (the nucleus). The log-probabilities
    returned are the model's own, of p, not of q.

    Args:
        step, state, max_length, bos, eos, pad: as in :func:`greedy`.
        temperature: above 0; for its limit 0 there is :func:`greedy`.
        top_k: how many tokens are kept.
        top_p: the probability that is kept, above 0 and at most 1.
        generator: the source of random numbers.

    Raises:
        FloatingPointError: as :func:`greedy`.

    Source: Fan, Lewis and Dauphin 2018 (top-k); Holtzman et al. 2020, section 3.1
    (top-p).

    Example:
        >>> from companion.decoding import DecoderStep
        >>> def step(token, state):
        ...     p = torch.tensor([0.0, 0.0, 0.1, 0.2, 0.7]).expand(len(token), -1)
        ...     return DecoderStep(p.log(), state, None)
        >>> found = sample(step, torch.zeros(100, 1), max_length=1, top_k=2, bos=1)
        >>> found.tokens.unique()
        tensor([3, 4])
    """
    check_above_zero(temperature=temperature)
    if top_k is not None:
        check_positive(top_k=top_k)
    if top_p is not None and not 0 < top_p <= 1:
        raise ValueError(f"top_p must be above 0 and at most 1, not {top_p}")
    limits = torch.finfo(torch.float32)
    divisor = min(max(temperature, limits.tiny), limits.max)

    def choose(log_probs: Tensor) -> Tensor:
        # relative to the best, or a low temperature would make all of them overflow
        logits = (log_probs - log_probs.amax(-1, keepdim=True)) / divisor
        if top_k is not None:
            logits = _most_probable(logits, top_k)
        if top_p is not None:
            logits = _nucleus(logits, top_p)
        # multinomial refuses NaN; the sentence is refused at the end, if not ended
        probabilities = logits.softmax(-1).nan_to_num(1)
        return probabilities.multinomial(1, generator=generator).squeeze(-1)

    return _generate(step, state, max_length, choose, bos, eos, pad)


def _most_probable(logits: Float[Tensor, "n v"], k: int) -> Float[Tensor, "n v"]:
    best, tokens = logits.topk(min(k, logits.shape[-1]))
    return torch.full_like(logits, -torch.inf).scatter(-1, tokens, best)


def _nucleus(logits: Float[Tensor, "n v"], top_p: float) -> Float[Tensor, "n v"]:
    """Keep the token with which the probability reaches ``top_p``, and those before."""
    ordered, tokens = logits.sort(descending=True, stable=True)
    probabilities = ordered.softmax(-1)
    before = probabilities.cumsum(-1) - probabilities
    kept = ordered.masked_fill(before >= top_p, -torch.inf)
    return torch.empty_like(logits).scatter(-1, tokens, kept)


@in_inference_mode
def _generate(
    step: StepFunction,
    state: Any,
    max_length: int,
    choose: Callable[[Tensor], Tensor],
    bos: int,
    eos: int | None,
    pad: int | None,
) -> Hypotheses:
    """Generate sentences whose next token is ``choose(log_probs)`` at each step."""
    check_positive(max_length=max_length)
    eos, pad = end_and_padding(bos, eos, pad)
    token = first_tokens(state, bos)
    ended = torch.zeros_like(token, dtype=torch.bool)
    total = torch.zeros(token.shape, device=token.device)
    tokens: list[Tensor] = []
    weights: list[Any] = []
    while len(tokens) < max_length and not ended.all():
        logits, state, attended = step(token, state)
        check_step(logits, attended, token)
        log_probs = next_log_probs(logits)
        chosen = choose(log_probs)
        log_prob = log_probs.gather(-1, chosen[:, None]).squeeze(-1)
        total = total + log_prob.masked_fill(ended, 0)
        token = chosen.masked_fill(ended, pad)
        tokens.append(token)
        weights.append(
            None if attended is None else attended.masked_fill(ended[:, None], 0)
        )
        ended = ended | (token == eos)
    require_possible(total)
    return Hypotheses(
        torch.stack(tokens, 1),
        total,
        total,
        None if weights[0] is None else torch.stack(weights, 1),
    )
