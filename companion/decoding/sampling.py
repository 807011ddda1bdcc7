"""Greedy search and sampling, for any model that takes steps, and the continuation of prompts.

``state`` is what the model returned last: nested tuples of tensors whose first axis is the
batch. A step returns new tensors and changes none of the state in place; it is called in
PyTorch's inference mode, so no gradient can flow through it. All sentences of a
batch are generated together; one that has ended is given padding until the last one
ends. A model with dropout must be in evaluation mode (``model.eval()``).
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence

from companion._checks import (
    check_above_zero,
    check_positive,
    check_prompts,
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
from companion.decoding.state import map_state


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
    first = first_tokens(state, bos)
    return _generate(step, state, first[:, None], max_length, _most_probable, eos, pad)


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
    choose = _sampler(temperature, top_k, top_p, generator)
    first = first_tokens(state, bos)
    return _generate(step, state, first[:, None], max_length, choose, eos, pad)


@in_inference_mode
def generate(
    model: Any,
    prompts: Int[Tensor, "b n"] | Sequence[Int[Tensor, " _"] | Sequence[int]],
    length: int,
    temperature: float = 0.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
    *,
    eos: int | None = None,
    pad: int | None = None,
) -> Hypotheses:
    """Continue prompts, which may differ in length, by ``length`` tokens each.

    What all prompts have before the last token of the shortest is read at once. Then the
    model takes steps, and a sentence is given the next token of its prompt as long as
    there is one, and later its own. No padding is read, so every prompt is continued as
    it would be alone, by any attention and any recurrence.

    Args:
        model: has ``start(tokens)``, the state after a batch of texts of one length, and
            ``step(token, state)``, as
            :class:`~companion.models.language_model.LanguageModel`.
        prompts: one or more, of at least one token each. No other token is put before or
            behind them.
        length: how many tokens are generated, unless ``eos`` comes first.
        temperature: 0, the default, takes the most probable token; above 0, tokens are
            sampled as by :func:`sample`.
        top_k, top_p, generator: as in :func:`sample`.
        eos, pad: as in :func:`greedy`. An ``eos`` in a prompt ends nothing.

    Returns:
        The new tokens, and the log-probability of all of them together.

    Source: the code of Touvron et al. 2023a (LLaMA), which reads longer prompts in the same
    way.

    Example:
        >>> from companion.models import CausalTransformerLayer, LanguageModel
        >>> model = LanguageModel(256, [CausalTransformerLayer(8, heads=2, d_ff=32)])
        >>> found = generate(model.eval(), [list(b"Attention is"), list(b"All")], 9)
        >>> found.tokens.shape
        torch.Size([2, 9])
    """
    check_positive(length=length)
    greedily = temperature == 0 and top_k is None and top_p is None
    choose = (
        _most_probable if greedily else _sampler(temperature, top_k, top_p, generator)
    )
    device = next(model.parameters()).device
    rows = [torch.as_tensor(prompt, device=device) for prompt in prompts]
    check_prompts(rows)
    rows = [row.long() for row in rows]
    shared = min(map(len, rows)) - 1
    state = model.start(torch.stack([row[:shared] for row in rows]))
    given = [row[shared:] for row in rows]
    return _generate(model.step, state, given, length, choose, eos, pad)


def _most_probable(log_probs: Float[Tensor, "n v"]) -> Int[Tensor, " n"]:
    """The most probable tokens."""
    return log_probs.argmax(-1)


def _sampler(
    temperature: float,
    top_k: int | None,
    top_p: float | None,
    generator: torch.Generator | None,
) -> Callable[[Tensor], Tensor]:
    """From log-probabilities to tokens, as :func:`sample` describes."""
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
            logits = _top_k(logits, top_k)
        if top_p is not None and top_p < 1:
            logits = _top_p(logits, top_p)
        # multinomial refuses NaN; the sentence is refused at the end, if not ended
        probabilities = logits.softmax(-1).nan_to_num(1)
        return probabilities.multinomial(1, generator=generator).squeeze(-1)

    return choose


def _top_k(logits: Float[Tensor, "n v"], k: int) -> Float[Tensor, "n v"]:
    best, tokens = logits.topk(min(k, logits.shape[-1]))
    return torch.full_like(logits, -torch.inf).scatter(-1, tokens, best)


def _top_p(logits: Float[Tensor, "n v"], top_p: float) -> Float[Tensor, "n v"]:
    """Keep the token with which the probability reaches ``top_p``, and those before."""
    ordered, tokens = logits.sort(descending=True, stable=True)
    almost = top_p * (1 - 8 * torch.finfo(logits.dtype).eps)  # sums are rounded
    reached = ordered.softmax(-1).cumsum(-1) >= almost
    beyond = functional.pad(reached[..., :-1], (1, 0))
    kept = ordered.masked_fill(beyond, -torch.inf)
    return torch.empty_like(logits).scatter(-1, tokens, kept)


@in_inference_mode
def _generate(
    step: StepFunction,
    state: Any,
    given: Sequence[Int[Tensor, " _"]] | Int[Tensor, "b n"],
    max_length: int,
    choose: Callable[[Tensor], Tensor],
    eos: int | None,
    pad: int | None,
) -> Hypotheses:
    """Continue the tokens ``given`` by ``choose(log_probs)`` at each step."""
    check_positive(max_length=max_length)
    eos, pad = end_and_padding(eos, pad)
    prompt = pad_sequence(list(given), batch_first=True)  # (b, n)
    begin = torch.tensor([len(row) for row in given], device=prompt.device)
    token = prompt[:, 0]
    ended = torch.zeros_like(token, dtype=torch.bool)
    steps: list[tuple[Any, ...]] = []
    for position in range(1, prompt.shape[1] + max_length):
        logits, state, attended = step(token, state)
        check_step(logits, attended, token)
        log_probs = next_log_probs(logits)
        chosen = choose(log_probs)
        log_prob = log_probs.gather(-1, chosen[:, None]).squeeze(-1)
        steps.append((chosen, log_prob, attended))
        token = chosen.masked_fill(ended, pad)
        ends = token == eos
        if position < prompt.shape[1]:
            is_given = position < begin
            token = torch.where(is_given, prompt[:, position], token)
            ends = ends & ~is_given
        ended = ended | ends
        if eos >= 0 and ended.all():
            break
    tokens, log_probs, weights = _own_steps(steps, begin, max_length)
    ends = tokens == eos
    beyond = ends.cumsum(1) > ends.int()  # there was an end before
    total = log_probs.masked_fill(beyond, 0).sum(1)
    require_possible(total)
    if weights is not None:
        weights = weights.masked_fill(beyond[..., None], 0)
    return Hypotheses(tokens.masked_fill(beyond, pad), total, total, weights)


def _own_steps(
    steps: list[tuple[Any, ...]], begin: Int[Tensor, " b"], max_length: int
) -> tuple[Any, ...]:
    """What was found in the steps of each sentence's own tokens, in the first columns.

    Columns after the last step repeat it: those sentences have ended before.
    """
    count, device = len(steps), begin.device
    own = begin[:, None] - 1 + torch.arange(min(max_length, count), device=device)
    rows = torch.arange(len(own), device=device)[:, None]
    columns = zip(*steps, strict=True)
    found = tuple(None if x[0] is None else torch.stack(x, 1) for x in columns)
    return map_state(lambda x: x[rows, own.clamp(max=count - 1)], found)
