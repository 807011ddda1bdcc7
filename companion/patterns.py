"""Which positions may attend to which: a pattern is a rule on two position tensors.

A rule takes query positions ``i`` and key positions ``j``, which broadcast, and answers ``True`` where ``i``
may attend to ``j``. The same rule gives the mask, the picture in the book, and what a fast kernel must equal.
"""

from collections.abc import Callable

import torch
from jaxtyping import Bool
from torch import Tensor

Rule = Callable[[Tensor, Tensor], Tensor]


def causal() -> Rule:
    """Each position sees itself and what came before: ``j ≤ i``."""
    return lambda i, j: j <= i


def both(first: Rule, second: Rule) -> Rule:
    """Where the two rules agree that ``i`` may attend to ``j``: their intersection."""
    return lambda i, j: first(i, j) & second(i, j)


def either(first: Rule, second: Rule) -> Rule:
    """Where at least one of the two rules lets ``i`` attend to ``j``: their union."""
    return lambda i, j: first(i, j) | second(i, j)


def dense(
    rule: Rule, queries: int, keys: int | None = None, device: torch.device | str | None = None
) -> Bool[Tensor, "q k"]:
    """The rule as a mask: entry ``(i, j)`` is ``rule(i, j)``. As many keys as queries, unless told.

    Raises:
        ValueError: a length is below 1.
    """
    keys = queries if keys is None else keys
    if min(queries, keys) < 1:
        raise ValueError(f"a mask needs at least one query and one key, not {queries} and {keys}")
    i = torch.arange(queries, device=device)[:, None]
    j = torch.arange(keys, device=device)[None, :]
    return rule(i, j).expand(queries, keys)
