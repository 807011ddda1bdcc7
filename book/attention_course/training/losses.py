"""Losses to minimise, and the loss of a validation or test set."""

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor, nn

from attention_course.data.batching import Batch
from attention_course.data.examples import Labelled
from attention_course.data.vocabulary import PAD
from companion.losses.tokens import Loss, token_loss

#: The figures of a step, by the names of the measures.
Record = dict[str, int | float]


def sequence_loss(model: nn.Module, batch: Batch) -> Loss:
    """The cross-entropy of the target tokens under teacher forcing.

    ::

        total = − Σ_{i,t} log p(y_{i,t} | y_{i,<t}, x_i)
        count = number of target tokens

    Padding is left out.

    Args:
        model: from a source ``(b, k)`` and a target ``(b, t)`` to logits ``(b, t, V)``.
        batch: the targets begin with ``<bos>`` and end with ``<eos>``.

    Example:
        >>> def uniform(source, target):
        ...     return torch.zeros(*target.shape, 10)
        >>> batch = Batch(torch.tensor([[7, 8]]), torch.tensor([[1, 5, 2]]))
        >>> loss = sequence_loss(uniform, batch)
        >>> loss.count.item(), (loss.total / loss.count).exp().item()
        (2, 10.0)
    """
    return LabelSmoothing(0.0)(model, batch)


def next_token_loss(model: nn.Module, tokens: Int[Tensor, "b n"]) -> Loss:
    """The cross-entropy of each token of a text except the first, given its prefix.

    ::

        total = − Σ_{i,t} log p(x_{i,t} | x_{i,<t})
        count = number of such tokens

    Padding is left out.

    Args:
        model: from tokens ``(b, n − 1)`` to logits ``(b, n − 1, V)``.
        tokens: texts as ids, padded at the end.
    """
    return token_loss(model(tokens[:, :-1]), tokens[:, 1:], PAD)


class LabelSmoothing:
    """The :func:`sequence_loss` of a target mixed with the uniform distribution.

    ::

        total = − Σ_{i,t} Σ_y q(y) log p(y | y_{i,<t}, x_i)
        q(y)  = (1 − ε) [y = y_{i,t}] + ε / V

    It trains for a higher perplexity, so measure with :func:`sequence_loss`.

    Source: Szegedy et al. 2016, section 7, with ε / V for each of the V labels;
    Vaswani et al. 2017, section 5.4, with ε = 0.1.
    """

    def __init__(self, epsilon: float):
        self.epsilon = epsilon

    def __call__(self, model: nn.Module, batch: Batch) -> Loss:
        """The loss of one batch."""
        logits = model(batch.source, batch.target[:, :-1])  # (b, t, V)
        return token_loss(logits, batch.target[:, 1:], PAD, self.epsilon)


def free_running_loss(model: Any, batch: Batch) -> Loss:
    """The cross-entropy of the target tokens when the model reads its own predictions.

    ::

        ŷ_{i,0} = <bos>,   ŷ_{i,t} = argmax_y p(y | ŷ_{i,<t}, x_i)
        total   = − Σ_{i,t} log p(y_{i,t} | ŷ_{i,<t}, x_i)

    A translation in other words, or shifted by one position, is penalised at each
    token. So this is no likelihood of the target, though some tutorials report its
    exponential as perplexity.

    Args:
        model: has ``start(source)``, which returns a state, and ``step(token, state)``,
            which returns logits ``(b, V)``, the next state and weights.
        batch: the targets begin with ``<bos>`` and end with ``<eos>``.
    """
    token, state = batch.target[:, 0], model.start(batch.source)
    total = torch.zeros((), device=token.device)
    for following in batch.target[:, 1:].unbind(1):
        logits, state, _ = model.step(token, state)
        total = total + token_loss(logits, following, PAD).total
        token = logits.argmax(-1)
    return Loss(total, (batch.target[:, 1:] != PAD).sum())


def label_loss(model: nn.Module, batch: Labelled) -> Loss:
    """The cross-entropy of the correct class of each example.

    ::

        total = − Σ_i log p(label_i | inputs_i)
        count = number of examples

    Args:
        model: from the inputs of a batch to logits ``(b, classes)``.
        batch: ``inputs``, a tuple of tensors, and ``labels``, integers ``(b,)``.
    """
    return token_loss(model(*batch.inputs), batch.labels)


def loss_and_perplexity(
    model: nn.Module,
    batches: Iterable[Any],
    loss: Callable[[nn.Module, Any], Loss] = sequence_loss,
) -> Record:
    """The mean loss over all tokens of a validation or test set, and its exponential.

    The model is in evaluation mode meanwhile.

    Args:
        batches: the whole set; each batch is moved to the device of the model.
        loss: the loss of one batch.

    Returns:
        ``held_out_loss`` and ``perplexity``.
    """
    device = next(model.parameters()).device
    total, tokens = 0.0, 0
    with evaluating(model):
        for batch in batches:
            found = loss(model, to_device(batch, device))
            total, tokens = total + found.total.item(), tokens + int(found.count)
    if not tokens:
        raise ValueError("there is no target token to measure the loss of")
    mean = total / tokens
    return {
        "held_out_loss": mean,
        "perplexity": math.inf if mean > 709 else math.exp(mean),
    }


def to_device(batch: Any, device: torch.device) -> Any:
    """A batch with all its tensors on a device: (named) tuples, lists and dictionaries.

    Example:
        >>> (moved,), name = to_device(([torch.zeros(2)], "name"), torch.device("meta"))
        >>> moved.device, name
        (device(type='meta'), 'name')
    """
    if isinstance(batch, dict):
        return {name: to_device(value, device) for name, value in batch.items()}
    if isinstance(batch, tuple | list):
        parts = [to_device(part, device) for part in batch]
        return type(batch)(*parts) if hasattr(batch, "_fields") else type(batch)(parts)
    return batch.to(device) if hasattr(batch, "to") else batch


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode without gradients inside the block; the former modes after it."""
    before = {module: module.training for module in model.modules()}
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, training in before.items():
            module.training = training
