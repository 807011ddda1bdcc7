"""What the searches share: the sentences that they return, where they begin, and what they refuse."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from companion.data.vocabulary import BOS
from companion.decoding.state import DecoderStep, tensors

#: From the last token of each sentence, and a state, to the scores of the next, and the state after it.
StepFunction = Callable[[Tensor, Any], DecoderStep]


class Hypotheses(NamedTuple):
    """What a search found: ``*b`` is the batch, and after a beam search the beam, the best first.

    ``tokens`` leave out ``<bos>``, end with ``<eos>`` unless the length ran out, and go on with padding.
    ``log_probs`` are whole sentences'. ``weights`` say where each step looked; ``None`` for a model that
    does not look.
    """

    tokens: Int[Tensor, "*b t"]
    log_probs: Float[Tensor, "*b"]
    weights: Float[Tensor, "*b t k"] | None


def next_log_probs(logits: Float[Tensor, "n v"]) -> Float[Tensor, "n v"]:
    """Log-probabilities of the next word, in at least float32."""
    return logits.log_softmax(
        -1, dtype=torch.promote_types(logits.dtype, torch.float32)
    )


def require_possible(log_probs: Float[Tensor, " b"]) -> None:
    """Raise a ``FloatingPointError`` that names the sentences which have no probability."""
    if not (log_probs > -torch.inf).all():
        rows = (~(log_probs > -torch.inf)).nonzero().flatten().tolist()
        raise FloatingPointError(
            f"the sentences {rows} have no probability: are their logits NaN, or all −∞?"
        )


def first_tokens(state: Any, max_length: int) -> Int[Tensor, " b"]:
    """``<bos>`` for each sentence, on the device of the state, after a look at what was asked.

    Raises:
        ValueError: ``max_length`` is below 1, or the state holds no sentence.
        TypeError: as :func:`~companion.decoding.state.map_state`.
    """
    if max_length < 1:
        raise ValueError(f"the maximum length must be at least 1, not {max_length}")
    held = tensors(state)
    if not held or len(held[0]) == 0:
        raise ValueError(
            f"the state holds {len(held)} tensors and no sentence, so there is nothing to write"
        )
    return torch.full(held[0].shape[:1], BOS, device=held[0].device)
