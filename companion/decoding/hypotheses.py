"""What all searches use: the hypotheses that they return, and checks."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, ParamSpec

import torch
from jaxtyping import Float, Int
from torch import Tensor

from companion._checks import check_integers
from companion.decoding.state import DecoderStep, map_state, tensors

_Arguments = ParamSpec("_Arguments")

#: From the last token of each hypothesis and a state to the next logits and state.
StepFunction = Callable[[Tensor, Any], DecoderStep]


class Hypotheses(NamedTuple):
    """The sentences that a search finds; ``*b`` is ``b``, or ``b width`` of a beam.

    ``tokens`` leave out the first one given, end with ``eos`` unless the maximum length
    was reached, and are padded. ``log_probs`` are the log-probabilities of whole sentences
    under the model. ``scores`` are what a beam is ranked by, the best first; greedy
    search and sampling have no other score than the log-probability. ``weights`` are
    the attention weights of each step, 0 after ``eos``, or ``None`` for a model
    without attention.
    """

    tokens: Int[Tensor, "*b t"]
    log_probs: Float[Tensor, "*b"]
    scores: Float[Tensor, "*b"]
    weights: Float[Tensor, "*b t k"] | None


def in_inference_mode(
    search: Callable[_Arguments, Hypotheses],
) -> Callable[_Arguments, Hypotheses]:
    """A search in PyTorch's inference mode, whose result can still be used in training."""

    @functools.wraps(search)
    def searching(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> Hypotheses:
        with torch.inference_mode():
            found = search(*args, **kwargs)
        return map_state(torch.clone, found)

    return searching


def next_log_probs(logits: Float[Tensor, "n v"]) -> Float[Tensor, "n v"]:
    """Log-probabilities of the next token, in at least float32."""
    return logits.log_softmax(
        -1, dtype=torch.promote_types(logits.dtype, torch.float32)
    )


def require_possible(log_probs: Float[Tensor, " b"]) -> None:
    """Raise a ``FloatingPointError`` that names the sentences without a probability."""
    impossible = ~(log_probs > -torch.inf)
    if impossible.any():
        rows = impossible.nonzero().flatten().tolist()
        raise FloatingPointError(
            f"the sentences {rows} have no probability: the logits of a step (or, with a "
            f"coverage penalty, the weights) are NaN or +∞, or −∞ for every token"
        )


def end_and_padding(eos: int | None, pad: int | None) -> tuple[int, int]:
    """The token that ends a sentence, −1 if there is none, and the one that follows it."""
    if pad is None:
        pad = 0 if eos is None else eos
    eos = -1 if eos is None else eos
    check_integers(eos=eos, pad=pad)
    return eos, pad


def first_tokens(state: Any, bos: int) -> Int[Tensor, " b"]:
    """``bos`` for each sentence, on the device of the state."""
    check_integers(bos=bos)
    held = tensors(state)
    batches = {tuple(x.shape[:1]) for x in held}
    if len(batches) != 1 or batches <= {(), (0,)}:
        shapes = ", ".join(str(tuple(x.shape)) for x in held)
        raise ValueError(
            f"the first axis of all tensors of a state is the batch, of one sentence or "
            f"more, but their shapes are: {shapes or 'none'}"
        )
    return torch.full(held[0].shape[:1], bos, device=held[0].device)
