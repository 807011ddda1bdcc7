"""What training makes small, and what is measured on sentences held out."""

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from accelerate.utils import send_to_device
from jaxtyping import Float, Int, Num
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from companion.data.batching import Batch
from companion.data.examples import Labelled
from companion.data.vocabulary import PAD

#: What is noted down of a step, by the names of the measures.
Record = dict[str, int | float]


@dataclass(frozen=True)
class Loss:
    """A sum, and over how many things, so that the mean can be taken over several batches or processes."""

    total: Float[Tensor, ""]
    count: Num[Tensor, ""]


def sequence_loss(model: nn.Module, batch: Batch) -> Loss:
    """The cross-entropy of the next target tokens, each given the source and the true tokens before it.

    ::

        total = − Σ_{i,t} log p(y_{i,t} | y_{i,<t}, x_i),   count = N target tokens, padding not among them
    """
    return LabelSmoothing(0.0)(model, batch)


def next_token_loss(model: nn.Module, tokens: Int[Tensor, "b n"]) -> Loss:
    """The cross-entropy of each token of a text but the first, given those before it.

    ::

        total = − Σ_{i,t} log p(x_{i,t} | x_{i,<t}),   count = N such tokens, padding not among them
    """
    following = tokens[:, 1:]
    total = _summed(model(tokens[:, :-1]).flatten(0, 1), following.flatten())
    return Loss(total, (following != PAD).sum())


class LabelSmoothing:
    """The :func:`sequence_loss` of an unsure target: a share ε of each word is spread evenly over all words.

    ::

        total = − Σ_{i,t} Σ_y q(y) log p(y | y_{i,<t}, x_i),   q(y) = (1 − ε) [y = y_{i,t}] + ε / V

    Source: Szegedy et al. 2016, section 7, over all V words, the true one among them; Vaswani et al. 2017,
    section 5.4, with ε = 0.1. It trains for a worse perplexity, so measure with :func:`sequence_loss`.

    Raises:
        ValueError: ``epsilon`` is not at least 0 and below 1.
    """

    def __init__(self, epsilon: float):
        if not 0 <= epsilon < 1:
            raise ValueError(f"epsilon must be at least 0 and below 1, not {epsilon}")
        self.epsilon = epsilon

    def __call__(self, model: nn.Module, batch: Batch) -> Loss:
        """The loss of one batch."""
        logits, following = (
            model(batch.source, batch.target[:, :-1]),
            batch.target[:, 1:],
        )
        total = _summed(logits.flatten(0, 1), following.flatten(), self.epsilon)
        return Loss(total, (following != PAD).sum())


def free_running_loss(model: Any, batch: Batch) -> Loss:
    """The cross-entropy of the target tokens, each given the source and the words that the model wrote.

    ::

        ŷ_i0 = <bos>,   ŷ_it = argmax p(y | ŷ_{i,<t}, x_i)
        total = − Σ_{i,t} log p(y_it | ŷ_{i,<t}, x_i)

    A model that writes a good sentence in other words, or the same words one place later, pays for each of
    them. So this is no likelihood of the target, but some tutorials report its exponential as perplexity.
    """
    token, state = batch.target[:, 0], model.start(batch.source)
    total = torch.zeros((), device=token.device)
    for following in batch.target[:, 1:].unbind(1):
        logits, state, _ = model.step(token, state)
        total = total + _summed(logits, following)
        token = logits.argmax(-1)
    return Loss(total, (batch.target[:, 1:] != PAD).sum())


def label_loss(model: nn.Module, batch: Labelled) -> Loss:
    """The cross-entropy of the right class of each example.

    ::

        total = − Σ_i log p(label_i | inputs_i),   count = N examples
    """
    total = cross_entropy(
        to_float32(model(*batch.inputs)), batch.labels, reduction="sum"
    )
    return Loss(total, torch.tensor(len(batch.labels), device=total.device))


def to_float32(logits: Float[Tensor, "*b c"]) -> Float[Tensor, "*b c"]:
    """The same in at least 32 bits, to sum up: a sum in 16 would be good for two or three digits."""
    return logits.to(torch.promote_types(logits.dtype, torch.float32))


def _summed(logits: Tensor, following: Tensor, smoothing: float = 0.0) -> Tensor:
    """The sum over all words."""
    return cross_entropy(
        to_float32(logits),
        following,
        ignore_index=PAD,
        reduction="sum",
        label_smoothing=smoothing,
    )


def held_out(
    model: nn.Module,
    batches: Iterable[Any],
    loss: Callable[[nn.Module, Any], Loss] = sequence_loss,
) -> Record:
    """The mean loss of all tokens of all batches, and its exponential.

    Raises:
        ValueError: no batch has a target token.
    """
    device = next(model.parameters()).device
    total, tokens = 0.0, 0
    with evaluating(model):
        for batch in batches:
            found = loss(model, send_to_device(batch, device))
            total, tokens = total + found.total.item(), tokens + int(found.count)
    if not tokens:
        raise ValueError("there is no target token to measure the loss of")
    mean = total / tokens
    return {
        "held_out_loss": mean,
        "perplexity": math.inf if mean > 709 else math.exp(mean),
    }


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """In the block the model is in evaluation mode and no gradient is kept; then it is as it was before."""
    before = {module: module.training for module in model.modules()}
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, training in before.items():
            module.training = training
